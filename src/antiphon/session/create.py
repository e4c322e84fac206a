"""Putting a conversation together: log, model, tools, prompt."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from antiphon.agent.agent import Agent
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.policy import DEFAULT, RunLimits
from antiphon.core.ports import ModelStream, Tool
from antiphon.errors import ConfigurationError
from antiphon.resources.paths import agent_dir, sessions_dir
from antiphon.session.agent_session import AgentSession
from antiphon.session.system_prompt import system_prompt
from antiphon.session_log.log import SessionLog
from antiphon.session_log.store import SessionStore, folder_for

TOOL_NAMES = ("read", "bash", "edit", "write", "grep", "find", "ls")
DEFAULT_TOOLS = ("read", "bash", "edit", "write")


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPlan:
    """Everything a caller may choose. `session`: a file or an id to go on with; `keep` false: nothing on disk."""

    cwd: str
    model: Model
    stream: ModelStream
    environ: Mapping[str, str]
    api_key: str | None = None
    thinking_level: ThinkingLevel = "off"
    tools: tuple[str, ...] = DEFAULT_TOOLS
    base_prompt: str | None = None
    appended_prompt: tuple[str, ...] = ()
    keep: bool = True
    continue_recent: bool = False
    session: str | None = None
    session_dir: str | None = None
    name: str | None = None
    limits: RunLimits | None = None
    warnings: list[str] = field(default_factory=list[str])


def create_agent_session(plan: SessionPlan) -> AgentSession:
    """A conversation, new or reopened. What was repaired at opening stands in `plan.warnings`.

    Raises:
        SessionError: the session cannot be opened or written.
        ConfigurationError: an unknown tool, an unknown session.
    """
    log = open_log(plan)
    tools = build_tools(plan, log)
    prompt = system_prompt(
        cwd=plan.cwd,
        tools=tools,
        date=datetime.now().astimezone().strftime("%A, %d %B %Y"),
        base=plan.base_prompt,
        appended=plan.appended_prompt,
    )
    agent = Agent(
        stream=plan.stream,
        model=plan.model,
        thinking_level=plan.thinking_level,
        system_prompt=prompt,
        tools=tools,
        messages=log.messages(),
        session_id=log.session_id,
        api_key=plan.api_key,
        limits=DEFAULT.limits if plan.limits is None else plan.limits,
    )
    session = AgentSession(agent, log)
    if not log.entry_count:
        _write_beginning(session, plan)
    return session


def _write_beginning(session: AgentSession, plan: SessionPlan) -> None:
    """The system message, model and name of a new conversation."""
    log = session.log
    log.append_model_change(plan.model.provider, plan.model.id)
    log.append_thinking_level_change(plan.thinking_level)
    for message in session.agent.messages:
        log.append_message(message)
    if plan.name is not None:
        log.set_name(plan.name)


def open_log(plan: SessionPlan) -> SessionLog:
    """The session file that the plan asks for."""
    chosen = sessions_dir(plan.environ, plan.session_dir)
    folder = chosen or folder_for(agent_dir(plan.environ) / "sessions", plan.cwd)
    store = SessionStore(folder, cwd=plan.cwd)
    if not plan.keep:
        return store.in_memory()
    if plan.session is not None:
        log = store.resume(find_session(store, plan.session), cwd=plan.cwd)
    elif plan.continue_recent:
        log = store.continue_recent(cwd=plan.cwd if chosen else None) or store.create()
    else:
        return store.create()
    plan.warnings.extend(str(damage) for damage in log.report.damages)
    plan.warnings.extend(log.report.changed_file)
    closed = log.close_open_calls()
    if closed:
        plan.warnings.append(f"{len(closed)} tool call(s) of the last run were interrupted; each got an error result")
    return log


def find_session(store: SessionStore, wanted: str) -> Path:
    """A session by path, by id, or by the beginning of an id.

    Raises:
        ConfigurationError: nothing, or more than one, fits.
    """
    if os.sep in wanted or wanted.endswith(".jsonl"):
        path = Path(wanted).expanduser()
        if not path.is_file():
            raise ConfigurationError(f"no session file at {wanted}")
        return path
    rows = [(row.path, row.facts.id) for row in store.listing()]
    found = [path for path, id_ in rows if id_ == wanted] or [path for path, id_ in rows if id_.startswith(wanted)]
    if len(found) != 1:
        raise ConfigurationError(
            f"{'no' if not found else 'more than one'} session of this folder has an id that begins with {wanted!r}"
        )
    return Path(found[0])


def build_tools(plan: SessionPlan, log: SessionLog) -> Sequence[Tool]:
    """The chosen tools for one workspace, with one memory of what has been read."""
    unknown = [name for name in plan.tools if name not in TOOL_NAMES]
    if unknown:
        raise ConfigurationError(f"unknown tool {unknown[0]!r}; there are {', '.join(TOOL_NAMES)}")
    if not plan.tools:
        return ()
    from antiphon.tools import (
        LocalWorkspace,
        ReadLog,
        bash_tool,
        edit_tool,
        find_tool,
        grep_tool,
        ls_tool,
        read_tool,
        write_tool,
    )
    from antiphon.tools.bash import BashOptions

    workspace = LocalWorkspace(plan.cwd)
    memory = ReadLog()

    def environment() -> dict[str, str | None]:
        file = None if log.path is None else str(log.path)
        return {
            "AI_AGENT": "antiphon",
            "ANTIPHON": "true",
            "ANTIPHON_SESSION_ID": log.session_id,
            "ANTIPHON_SESSION_FILE": file,
            "ANTIPHON_PROVIDER": plan.model.provider,
            "ANTIPHON_MODEL": plan.model.id,
        }

    makers = {
        "read": lambda: read_tool(workspace, log=memory, model=lambda: plan.model),
        "bash": lambda: bash_tool(workspace, BashOptions(environment=environment)),
        "edit": lambda: edit_tool(workspace, log=memory),
        "write": lambda: write_tool(workspace, log=memory),
        "grep": lambda: grep_tool(workspace),
        "find": lambda: find_tool(workspace),
        "ls": lambda: ls_tool(workspace),
    }
    return [makers[name]() for name in plan.tools]  # type: ignore[no-untyped-call,misc]  # lambdas of one type each

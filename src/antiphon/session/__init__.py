"""One conversation as a product: an agent, its log, and the rules between runs.

May import every floor below. Start reading at `phases.py` (what follows what, pure), then `inbox.py` (how a prompt
comes in), `driver.py` (how it is carried to its settlement) and `agent_session.py`, which puts the parts together.
`create.py` makes a session, `runtime.py` replaces the current one by another.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.session.agent_session import AgentSession as AgentSession
    from antiphon.session.budget import Budget as Budget
    from antiphon.session.choices import ScopedModel as ScopedModel
    from antiphon.session.create import Services as Services
    from antiphon.session.create import Wanted as Wanted
    from antiphon.session.create import create_agent_session as create_agent_session
    from antiphon.session.hooks import SessionHooks as SessionHooks
    from antiphon.session.ports import GivenModels as GivenModels
    from antiphon.session.ports import Resources as Resources
    from antiphon.session.runtime import AgentSessionRuntime as AgentSessionRuntime
    from antiphon.session.settings import SessionSettings as SessionSettings
    from antiphon.session.settlement import Settlement as Settlement
    from antiphon.session.settlement import Submission as Submission
    from antiphon.session.subagent import SubAgent as SubAgent

_HOME = {
    "AgentSession": "agent_session",
    "AgentSessionRuntime": "runtime",
    "Budget": "budget",
    "GivenModels": "ports",
    "Resources": "ports",
    "ScopedModel": "choices",
    "Services": "create",
    "SessionHooks": "hooks",
    "SessionSettings": "settings",
    "Settlement": "settlement",
    "SubAgent": "subagent",
    "Submission": "settlement",
    "Wanted": "create",
    "create_agent_session": "create",
}

__all__ = [
    "AgentSession",
    "AgentSessionRuntime",
    "Budget",
    "GivenModels",
    "Resources",
    "ScopedModel",
    "Services",
    "SessionHooks",
    "SessionSettings",
    "Settlement",
    "SubAgent",
    "Submission",
    "Wanted",
    "create_agent_session",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value

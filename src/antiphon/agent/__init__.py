"""One stateful agent: a conversation in memory with queues, listeners, and at most one run at a time.

Imports the ground floor and `loop`. Start reading at `agent.py`; `view.py` is its state as a fold over events,
`listeners.py` how events are told, `audience.py` what a run sees of the agent.
"""

from __future__ import annotations

from antiphon.agent.agent import Agent
from antiphon.agent.view import AgentState

__all__ = ["Agent", "AgentState"]

"""One shot for programs: the session header, then one JSON record for each event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.events import AgentEvent
from antiphon.core.wire import to_wire
from antiphon.modes.output import Output
from antiphon.modes.wire_events import line, record
from antiphon.session.agent_session import AgentSession


async def run_json(session: AgentSession, prompts: Sequence[str], output: Output) -> int:
    """Run the prompts in order. A failed answer is a record like any other; the exit code is 0."""
    header: dict[str, Any] = {"type": "session", **to_wire(session.log.header)}
    output.write(line(header))

    def tell(event: AgentEvent, _signal: Any) -> None:
        output.write(line(record(event)))

    session.subscribe(tell)
    for prompt in prompts:
        outcome = await session.prompt(prompt)
        output.write(line({"type": "agent_settled", "aborted": outcome.reason == "aborted"}))
        if outcome.reason == "aborted":
            break
    return 0

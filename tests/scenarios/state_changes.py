"""What the state of an agent says when a listener hears of an event: the table in the documentation, and its test.

The scene: a call of `A`, then an answer that fails while it speaks. Each line is what a listener finds at the last
event of its kind: number of messages, who is streaming, pending calls, error, and whether a run is active.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """`words`: what has changed before any listener is called."""

    words: str
    after: tuple[int, str | None, list[str], str | None, bool]


CHANGES: dict[str, Change] = {
    "agent_start": Change("`is_streaming` is true; the error of the last run is cleared", (1, None, [], None, True)),
    "turn_start": Change("nothing", (4, None, [], None, True)),
    "message_start": Change("`streaming_message` is the message", (4, "assistant", [], None, True)),
    "message_update": Change("`streaming_message` has grown", (4, "assistant", [], None, True)),
    "message_end": Change("`streaming_message` is cleared, the message is appended", (5, None, [], None, True)),
    "tool_execution_start": Change("the call is in `pending_tool_calls`", (3, None, ["A"], None, True)),
    "tool_execution_end": Change("the call is out of `pending_tool_calls`", (3, None, [], None, True)),
    "turn_end": Change("`error_message`, if the answer carries an error", (5, None, [], "overloaded", True)),
    "agent_end": Change("`streaming_message` is cleared; the run is still active", (5, None, [], "overloaded", True)),
}

"""Tool calls and crashes: which calls of the last answer have no result, and how far each had got. Pure.

A record that a call starts is stored before it starts. Other readers see state of an extension and ignore it. After a
crash a call is then finished (its result is there), begun (the record is there) or not begun. Where no such records are
kept at all, nobody can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, cast, final

from msgspec import Struct

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, UserMessage, calls_of
from antiphon.core.ports import ReplayPolicy
from antiphon.core.wire import JsonObject
from antiphon.session_log.entries import CustomEntry, Entry
from antiphon.session_log.projection import Contribution, Projected

CALL_STARTED = "antiphon.call_started"
"""The kind of the record."""

Progress: TypeAlias = Literal["not begun", "begun", "unknown"]

Resumption: TypeAlias = Literal["run", "close", "ask"]
"""What becomes of an open call when the work goes on: make it, give it an error result, or let a person say."""

_RESUMED: dict[tuple[Progress, ReplayPolicy], Resumption] = {
    # (how far it had got, what its tool allows)
    ("not begun", "never"): "run",  # for the first time
    ("not begun", "safe"): "run",
    ("not begun", "ask"): "run",
    ("begun", "never"): "close",
    ("begun", "safe"): "run",
    ("begun", "ask"): "ask",
    ("unknown", "never"): "close",  # nobody can tell, so it may have begun
    ("unknown", "safe"): "run",
    ("unknown", "ask"): "ask",
}

_SAID: dict[Progress, str] = {
    "not begun": "Not executed: the program was interrupted before tool {name} could start.",
    "begun": "Interrupted: the program ended while tool {name} was running; it may have had effects.",
    "unknown": "Interrupted: the program ended before tool {name} gave a result; it may or may not have run.",
}


@final
class OpenCall(Struct, frozen=True, gc=False):
    """A call without a result, at its `position` among the calls of its answer (ids may repeat)."""

    call: ToolCall
    position: int
    progress: Progress


def resumption(progress: Progress, replay: ReplayPolicy) -> Resumption:
    """What becomes of a call that a crash left open, by what its tool says about being called again."""
    return _RESUMED[progress, replay]


def start_record(call: ToolCall, position: int) -> JsonObject:
    """The data of a record that a call starts."""
    return {"toolCallId": call.id, "toolName": call.name, "position": position}


def open_calls(view: Projected) -> list[OpenCall]:
    """Calls of the last answer that have no result and can still get one: nothing was said since.

    Answers and results that were taken out of the context do not count. Looks at the end of the context only.
    """
    at = _last_answer(view.items)
    if at is None:
        return []
    answer = cast("AssistantMessage", view.items[at].messages[-1])
    behind = view.items[at + 1 :]
    answered = Counter(
        message.tool_call_id for item in behind for message in item.messages if type(message) is ToolResultMessage
    )
    started = set(_started(item.entry for item in behind))
    found: list[OpenCall] = []
    for position, call in enumerate(calls_of(answer)):
        if answered[call.id]:
            answered[call.id] -= 1
        elif position in started:
            found.append(OpenCall(call, position, "begun"))
        else:
            found.append(OpenCall(call, position, "not begun" if CALL_STARTED in view.custom_types else "unknown"))
    return found


def _last_answer(items: Sequence[Contribution]) -> int | None:
    """The place of the last answer, unless a user has spoken since."""
    for at in range(len(items) - 1, -1, -1):
        kinds = {type(message) for message in items[at].messages}
        if AssistantMessage in kinds:
            return at
        if UserMessage in kinds:
            return None
    return None


def _started(entries: Iterable[Entry]) -> Iterable[int]:
    """Positions of the calls that records say were started."""
    for entry in entries:
        if type(entry) is CustomEntry and entry.custom_type == CALL_STARTED:
            match entry.data:
                case {"position": int(position)}:
                    yield position
                case _:
                    pass


def interrupted_result(open_call: OpenCall, timestamp: int | float) -> ToolResultMessage:
    """The result that closes an open call: it says what is known, and in `details` for programs."""
    call = open_call.call
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=_SAID[open_call.progress].format(name=call.name)),),
        details={"interrupted": True, "progress": open_call.progress},
        is_error=True,
        timestamp=timestamp,
    )

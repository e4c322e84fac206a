"""Calls and their results in a transcript: which calls have none, and the transcript in which each has one.

Providers refuse a call without a result. A run of ours never leaves one; transcripts from elsewhere, or from before a
crash, may. A result answers the last call with its id that stands before it: ids may repeat across answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.calls import error_outcome, result_message
from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of

INTERRUPTED = "The call of tool {name} was interrupted before its result was stored; it may have had effects."


def unanswered(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Calls without a result, in call order."""
    return tuple(call for _, calls in _open_calls(messages) for call in calls)


def repaired(messages: Sequence[Message], at: int = 0, text: str = INTERRUPTED) -> tuple[Message, ...]:
    """The same messages with an error result for each call that has none, behind the results of its answer.

    `at`: time of the made-up results, in ms. `text` may name the tool as `{name}`.
    """
    missing = dict(_open_calls(messages))
    if not missing:
        return tuple(messages)
    out: list[Message] = []
    waiting: tuple[ToolCall, ...] = ()
    for index, message in enumerate(messages):
        if waiting and type(message) is not ToolResultMessage:
            out += _results(waiting, at, text)
            waiting = ()
        out.append(message)
        waiting = missing.get(index, waiting)
    return (*out, *_results(waiting, at, text))


def _results(calls: tuple[ToolCall, ...], at: int, text: str) -> list[Message]:
    details = {"cutOff": True, "reason": "fault"}
    return [result_message(call, error_outcome(text.format(name=call.name), details), at) for call in calls]


def _open_calls(messages: Sequence[Message]) -> list[tuple[int, tuple[ToolCall, ...]]]:
    """Positions of answers with calls that have no result, and those calls."""
    found: list[tuple[int, tuple[ToolCall, ...]]] = []
    index, calls = -1, list[ToolCall]()
    for here, message in enumerate(messages):
        if type(message) is ToolResultMessage:
            calls = _without_first(calls, message.tool_call_id)
        elif type(message) is AssistantMessage:
            if calls:
                found.append((index, tuple(calls)))
            index, calls = here, list(calls_of(message))
    if calls:
        found.append((index, tuple(calls)))
    return found


def _without_first(calls: list[ToolCall], call_id: str) -> list[ToolCall]:
    place = next((n for n, call in enumerate(calls) if call.id == call_id), None)
    return calls if place is None else [*calls[:place], *calls[place + 1 :]]

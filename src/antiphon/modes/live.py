"""What a person sees while an agent works: its words as they come, its tools as they run."""

from __future__ import annotations

from typing import Any, final

from antiphon.core.content import text_of
from antiphon.core.events import (
    AgentEvent,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import TextDelta, ThinkingDelta
from antiphon.core.wire import encode
from antiphon.modes.output import Output, one_line

SHOWN_UNITS = 160


@final
class LiveView:
    """Writes to a terminal. Answers go to standard output, everything else is dim and goes to standard error."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._open = False
        self._streamed = False

    def __call__(self, event: AgentEvent, _signal: Any) -> None:
        kind = type(event)
        if kind is MessageUpdate:
            self._grown(event.assistant_message_event)  # type: ignore[union-attr]
        elif kind is MessageEnd:
            self._ended(event)  # type: ignore[arg-type]
        elif kind is ToolExecutionStart:
            self._note(f"→ {event.tool_name} {_short(event.args)}")  # type: ignore[union-attr]
        elif kind is ToolExecutionUpdate:
            self._progress(event)  # type: ignore[arg-type]
        elif kind is ToolExecutionEnd:
            mark = "✗" if event.is_error else "✓"  # type: ignore[union-attr]
            self._note(f"{mark} {_last_line(text_of(event.result.content))}")  # type: ignore[union-attr]

    def _grown(self, event: Any) -> None:
        if type(event) is TextDelta:
            self._open, self._streamed = True, True
            self._output.text(printable(event.delta))
        elif type(event) is ThinkingDelta and self._output.err_is_terminal:
            self._output.say(f"\x1b[2m{printable(event.delta)}\x1b[0m")
            self._open = True

    def _ended(self, event: MessageEnd) -> None:
        if type(event.message) is not AssistantMessage:
            return
        if not self._streamed:
            self._output.text(printable(text_of(event.message.content)))
            self._open = bool(text_of(event.message.content))
        self._close_line()
        self._streamed = False

    def _progress(self, event: ToolExecutionUpdate) -> None:
        partial = event.partial_result
        text = partial if isinstance(partial, str) else text_of(getattr(partial, "content", ()))
        if text.strip():
            self._note(f"  {_last_line(text)}")

    def _note(self, text: str) -> None:
        self._close_line()
        styled = f"\x1b[2m{text}\x1b[0m" if self._output.err_is_terminal else text
        self._output.say(styled + "\n")

    def _close_line(self) -> None:
        if self._open:
            self._output.text("\n")
            self._open = False


def printable(text: str) -> str:
    """The text without control characters, so that a model cannot drive the terminal."""
    return "".join(c for c in text if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f"))


def _short(arguments: Any) -> str:
    return _cut(printable(one_line(encode(arguments).decode())))


def _last_line(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    return _cut(printable(one_line(lines[-1]))) if lines else ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_UNITS else text[: SHOWN_UNITS - 1] + "…"

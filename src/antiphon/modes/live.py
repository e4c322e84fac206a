"""What a person sees while an agent works: its words as they come, its tools as they run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, final

from antiphon.core.content import text_of
from antiphon.core.events import (
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import TextDelta, ThinkingDelta
from antiphon.core.session_events import (
    ApprovalRequested,
    AutoRetryStart,
    CompactionStart,
    ExtensionError,
    SessionEvent,
)
from antiphon.core.wire import encode
from antiphon.modes.output import Output, as_bytes, one_line, printable

SHOWN_UNITS = 160


@final
class LiveView:
    """Writes to a terminal. Answers go to standard output, everything else is dim and goes to standard error."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._open = False
        self._streamed = False
        self._parts: list[bytes] = []

    def __call__(self, event: SessionEvent) -> Awaitable[None] | None:
        """Show an event; gives what is left to wait for, if the terminal is held."""
        self._show(event)
        return self._flush()

    def _show(self, event: SessionEvent) -> None:
        match event:
            case MessageUpdate():
                self._grown(event.assistant_message_event)
            case MessageEnd():
                self._ended(event)
            case ToolExecutionStart():
                self._note(f"→ {one_line(event.tool_name)} {_short(event.args)}")
            case ToolExecutionUpdate():
                self._progress(event)
            case ToolExecutionEnd():
                mark = "✗" if event.is_error else "✓"
                self._note(f"{mark} {_last_line(text_of(event.result.content))}")
            case AutoRetryStart():
                self._note(f"↻ {_last_line(event.error_message)}; trying again in {event.delay_ms / 1000:g} s")
            case CompactionStart():
                self._note("… making the conversation shorter")
            case ApprovalRequested():
                self._note(f"? {one_line(event.tool_name)} waits for a person's answer")
            case ExtensionError():
                self._note(f"! {_cut(one_line(event.error))} ({event.extension_path})")
            case _:
                pass

    def _grown(self, event: Any) -> None:
        if type(event) is TextDelta:
            self._open, self._streamed = True, True
            self._write(printable(event.delta))
        elif type(event) is ThinkingDelta and self._output.err_is_terminal:
            self._flush()
            self._output.dim(event.delta)
            self._open = True

    def _ended(self, event: MessageEnd) -> None:
        if type(event.message) is not AssistantMessage:
            return
        if not self._streamed:
            self._write(printable(text_of(event.message.content)))
            self._open = bool(text_of(event.message.content))
        self._close_line()
        self._streamed = False

    def _progress(self, event: ToolExecutionUpdate) -> None:
        partial = event.partial_result
        text = partial if isinstance(partial, str) else text_of(getattr(partial, "content", ()))
        if text.strip():
            self._note(f"  {_last_line(text)}")

    def _write(self, text: str) -> None:
        self._parts.append(as_bytes(text))

    def _flush(self) -> Awaitable[None] | None:
        data = b"".join(self._parts)
        self._parts.clear()
        return self._output.offer(data) if data else None

    def _note(self, text: str) -> None:
        self._close_line()
        self._flush()
        self._output.dim(text)
        self._output.say("\n")

    def _close_line(self) -> None:
        if self._open:
            self._write("\n")
            self._open = False


def _short(arguments: Any) -> str:
    return _cut(printable(one_line(encode(arguments).decode())))


def _last_line(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    return _cut(printable(one_line(lines[-1]))) if lines else ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_UNITS else text[: SHOWN_UNITS - 1] + "…"

"""The answer while a decoder builds it: blocks that grow, the events that tell of it, and the final message.

A decoder says what happened (`open_text`, `add`, `close`, `done`, `failed`); the draft turns that into response events
and keeps their rules: a block starts once, grows only while open, ends once, and keeps its place. Linear in the text.
"""

from __future__ import annotations

from typing import Any, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.content import Block, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, StopReason
from antiphon.core.model import Model
from antiphon.core.partial_json import PartialReader, join_surrogates, read_arguments
from antiphon.core.response_events import (
    Done,
    Failed,
    ResponseEvent,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.core.wire import JsonObject
from antiphon.providers.failures import Failure


@final
class GrowingText:
    """Words of the model. `signature` may be set until the answer is finished."""

    __slots__ = ("_events", "_pieces", "closed", "index", "signature")

    def __init__(self, events: list[ResponseEvent], index: int, initial: str) -> None:
        self._events = events
        self.index = index
        self.signature: str | UnsetType = UNSET
        self.closed = False
        self._pieces = [initial] if initial else []
        events.append(TextStart(content_index=index, block=self.block() if initial else UNSET))

    @property
    def text(self) -> str:
        return _joined(self._pieces)

    def add(self, piece: str) -> None:
        """Grow by a piece, empty or not."""
        self._pieces.append(piece)
        self._events.append(TextDelta(content_index=self.index, delta=piece))

    def close(self, final: str | None = None) -> None:
        """The block is complete; `final` wins over what was streamed. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if final is not None:
            self._pieces = [final]
        self._events.append(
            TextEnd(
                content_index=self.index, content=self.text, block=UNSET if self.signature is UNSET else self.block()
            )
        )

    def block(self) -> Text:
        return Text(text=self.text, text_signature=self.signature)


@final
class GrowingThinking:
    """Reasoning of the model. A redacted block is whole at its start."""

    __slots__ = ("_events", "_pieces", "closed", "index", "redacted", "signature")

    def __init__(
        self, events: list[ResponseEvent], index: int, initial: str, signature: str | UnsetType, redacted: bool
    ) -> None:
        self._events = events
        self.index = index
        self.signature = signature
        self.redacted = redacted
        self.closed = False
        self._pieces = [initial] if initial else []
        more = bool(initial) or redacted or signature is not UNSET
        events.append(ThinkingStart(content_index=index, block=self.block() if more else UNSET))

    @property
    def text(self) -> str:
        return _joined(self._pieces)

    def add(self, piece: str) -> None:
        """Grow by a piece, empty or not."""
        self._pieces.append(piece)
        self._events.append(ThinkingDelta(content_index=self.index, delta=piece))

    def close(self, final: str | None = None) -> None:
        """The block is complete; `final` wins over what was streamed. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if final is not None:
            self._pieces = [final]
        more = self.redacted or self.signature is not UNSET
        self._events.append(
            ThinkingEnd(content_index=self.index, content=self.text, block=self.block() if more else UNSET)
        )

    def block(self) -> Thinking:
        return Thinking(
            thinking=self.text, thinking_signature=self.signature, redacted=True if self.redacted else UNSET
        )


@final
class GrowingCall:
    """A call of a tool. Id, name and the two extras may be set until it is closed."""

    __slots__ = ("_events", "_final", "_pieces", "closed", "id", "index", "name", "namespace", "thought_signature")

    def __init__(self, events: list[ResponseEvent], index: int, id_: str, name: str, initial: str) -> None:
        self._events = events
        self.index = index
        self.id = id_
        self.name = name
        self.namespace: str | UnsetType = UNSET
        self.thought_signature: str | UnsetType = UNSET
        self.closed = False
        self._pieces = [initial] if initial else []
        self._final: ToolCall | None = None
        events.append(ToolCallStart(content_index=index, id=id_, name=name))

    @property
    def text(self) -> str:
        """Argument text so far."""
        return _joined(self._pieces)

    def add(self, piece: str) -> None:
        """Grow by a piece of argument text, empty or not."""
        self._pieces.append(piece)
        self._events.append(ToolCallDelta(content_index=self.index, delta=piece))

    def replace_text(self, text: str) -> None:
        """The argument text so far is this, whatever was streamed; tells nobody."""
        self._pieces = [text]

    def close(self, arguments_text: str | None = None) -> None:
        """The call is complete; the whole argument text is read, strictly. A second call does nothing."""
        if not self.closed:
            self._close(*read_arguments(self.text if arguments_text is None else join_surrogates(arguments_text)))

    def close_with(self, arguments: JsonObject) -> None:
        """The call is complete and the provider gave its arguments as an object."""
        if not self.closed:
            self._close(arguments, UNSET)

    def _close(self, arguments: JsonObject, error: str | UnsetType) -> None:
        self.closed = True
        self._final = self._call(arguments, error)
        self._events.append(ToolCallEnd(content_index=self.index, tool_call=self._final))

    def _call(self, arguments: JsonObject, error: str | UnsetType = UNSET) -> ToolCall:
        return ToolCall(
            id=self.id,
            name=self.name,
            arguments=arguments,
            thought_signature=self.thought_signature,
            namespace=self.namespace,
            arguments_error=error,
        )

    def block(self) -> ToolCall:
        """The call; while it is open with the best partial reading of its arguments."""
        if self._final is not None:
            return self._final
        reader = PartialReader()
        reader.feed(self.text)
        return self._call(dict(reader.arguments))


Growing: TypeAlias = GrowingText | GrowingThinking | GrowingCall


def _joined(pieces: list[str]) -> str:
    """The pieces as one text; afterwards the list holds just that text."""
    if len(pieces) == 1:
        return pieces[0]
    text = join_surrogates("".join(pieces))
    pieces[:] = [text]
    return text


@final
class AnswerDraft:
    """One answer under construction. Plain attributes may be set by the decoder at any time."""

    def __init__(self, model: Model, started_ms: int) -> None:
        self.model = model
        self.started_ms = started_ms
        self.events: list[ResponseEvent] = []
        self.blocks: list[Growing] = []
        self.usage: Usage = NO_USAGE
        self.response_id: str | UnsetType = UNSET
        self.response_model: str | UnsetType = UNSET
        self.raw_stop_reason: str | UnsetType = UNSET
        self.provider_thinking_level: str | UnsetType = UNSET
        self.diagnostics: list[Any] = []
        self.finished = False
        self.failure: Failure | None = None

    def take(self) -> list[ResponseEvent]:
        """The events since the last take."""
        if not self.events:
            return []
        taken = self.events.copy()
        self.events.clear()
        return taken

    def start(self) -> None:
        self.events.append(Start(message=self.message("pending")))

    def open_text(self, initial: str = "") -> GrowingText:
        block = GrowingText(self.events, len(self.blocks), initial)
        self.blocks.append(block)
        return block

    def open_thinking(
        self, initial: str = "", *, signature: str | UnsetType = UNSET, redacted: bool = False
    ) -> GrowingThinking:
        block = GrowingThinking(self.events, len(self.blocks), initial, signature, redacted)
        self.blocks.append(block)
        return block

    def open_call(self, id_: str, name: str, initial: str = "") -> GrowingCall:
        """`initial` is argument text that is there already; it is not told as a delta."""
        block = GrowingCall(self.events, len(self.blocks), id_, name, initial)
        self.blocks.append(block)
        return block

    def close_open_blocks(self) -> None:
        """End every block that is open, in content order."""
        for block in self.blocks:
            block.close()

    @property
    def has_calls(self) -> bool:
        return any(type(block) is GrowingCall for block in self.blocks)

    def message(self, stop_reason: StopReason, error_message: str | UnsetType = UNSET) -> AssistantMessage:
        """The answer as it stands."""
        content: tuple[Block, ...] = tuple([block.block() for block in self.blocks])
        return AssistantMessage(
            content=content,
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            response_model=self.response_model,
            response_id=self.response_id,
            provider_thinking_level=self.provider_thinking_level,
            diagnostics=self.diagnostics or UNSET,
            usage=self.usage,
            stop_reason=stop_reason,
            raw_stop_reason=self.raw_stop_reason,
            error_message=error_message,
            timestamp=self.started_ms,
        )

    def done(self, reason: StopReason) -> None:
        """The answer is complete; the last event."""
        if not self.finished:
            self.finished = True
            self.events.append(Done(reason=reason, message=self.message(reason)))

    def failed(self, failure: Failure) -> None:
        """The answer failed; the last event. Open blocks stay open, their content so far is in the message."""
        if not self.finished:
            self.finished = True
            self.failure = failure
            reason: StopReason = "aborted" if failure.kind == "aborted" else "error"
            self.events.append(Failed(reason=reason, error=self.message(reason, failure.text)))

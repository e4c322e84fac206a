"""What an adapter hands to the driver: an encoded request, and a decoder for its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, final

from msgspec import Struct

from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers.failures import ErrorReply, Failure
from antiphon.providers.http import HttpRequest
from antiphon.providers.options import CallOptions
from antiphon.providers.sse import SseEvent


class Decoder(Protocol):
    """Turns parsed provider events into response events. Pure; one per answer.

    `start` comes after the HTTP headers. `end` and `fail` must finish the answer if it is not finished.
    """

    @property
    def finished(self) -> bool: ...

    def parse(self, event: SseEvent) -> JsonValue | None:
        """What an SSE event says; None if nothing.

        Raises:
            Malformed: it makes no sense.
        """
        ...

    def whole(self, answer: JsonObject) -> Sequence[JsonValue] | None:
        """Provider events that say the same as an answer that was not streamed; None if it is no answer."""
        ...

    def start(self) -> list[ResponseEvent]: ...
    def feed(self, value: JsonValue) -> list[ResponseEvent]: ...
    def end(self) -> list[ResponseEvent]: ...
    def fail(self, failure: Failure) -> list[ResponseEvent]: ...


class Call(Protocol):
    """An encoded request and the decoder of its answer."""

    @property
    def request(self) -> HttpRequest: ...
    @property
    def decoder(self) -> Decoder: ...

    def refused(self, reply: ErrorReply) -> Call | None:
        """Another call to make instead of the refused one, at once; None if there is none."""
        ...

    def answered(self, message: AssistantMessage) -> None:
        """The answer is complete; called before the caller hears of it."""
        ...


Prepare: TypeAlias = Callable[[ModelRequest, CallOptions], Call]
"""Encodes a question. Raises `RequestRefused` if that cannot be done."""


@final
class SimpleCall(Struct, frozen=True):
    """A call without second thoughts."""

    request: HttpRequest
    decoder: Decoder

    def refused(self, reply: ErrorReply) -> Call | None:
        return None

    def answered(self, message: AssistantMessage) -> None:
        return None

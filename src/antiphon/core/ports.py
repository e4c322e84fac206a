"""What the core and the loop need from outside, as Protocols. Wings implement them; upper floors plug them together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final

from msgspec import Struct, field

from antiphon.core.calls import ToolResult
from antiphon.core.content import Block
from antiphon.core.messages import Message
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject


class AbortSignal(Protocol):
    """Says that work is no longer wanted. It never becomes un-aborted."""

    @property
    def aborted(self) -> bool: ...

    @property
    def reason(self) -> str | None: ...

    async def wait(self) -> None:
        """Returns when aborted; at once if it is."""
        ...

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when aborted (at once if it is); the returned function takes the callback back."""
        ...


class Clock(Protocol):
    """Time for stamps and limits. `now_ms`: since the epoch; `monotonic`: seconds of an even clock."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


@final
class ModelRequest(Struct, frozen=True):
    """One question to a model. Prompt and tools are inside the system messages of `messages`.

    `messages` is read only and may be a window on a growing transcript (`core/transcript.Snapshot`); an adapter that
    caches what it encoded uses the window's identity. `options` are passed through for the provider.
    """

    model: Model
    messages: Sequence[Message]
    thinking_level: ThinkingLevel
    signal: AbortSignal
    api_key: str | None = None
    session_id: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without key and options: a request that is printed must not tell a secret."""
        return f"<ModelRequest to {self.model.provider}/{self.model.id}, {len(self.messages)} messages>"


class ModelStream(Protocol):
    """Ask a model. A failed request is a `Failed` event, never an exception.

    The iterator is closed (`aclose`) when its consumer is done with it, so an async generator releases what it holds.
    """

    def __call__(
        self, request: ModelRequest, /
    ) -> AsyncIterator[ResponseEvent] | Awaitable[AsyncIterator[ResponseEvent]]: ...


ExecutionMode: TypeAlias = Literal["parallel", "sequential"]
ReplayPolicy: TypeAlias = Literal["never", "safe", "ask"]
ToolReturn: TypeAlias = ToolResult | str | Sequence[Block] | None
OnUpdate: TypeAlias = Callable[[ToolResult | str], None]


class Tool(Protocol):
    """Something a model may call. `execute` is async, or a plain function that runs in a thread.

    Optional attributes, read with a default: `label`, `execution_mode`, `replay`, `timeout` (seconds), `abort_grace`
    (seconds), `prepare_arguments(raw)`, `output_schema`, `constrained_sampling`.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema 2020-12 of the arguments object."""
        ...

    @property
    def execute(self) -> Callable[[str, JsonObject, AbortSignal, OnUpdate], Any]:
        """Called with call id, checked arguments, signal and progress callback; gives a `ToolReturn` or awaitable."""
        ...

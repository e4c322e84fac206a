"""A model that says what it was told to say: for tests, lessons, demonstrations and measurements.

    model = ScriptedProvider(["Hello.", [ToolCall(id="c1", name="look", arguments={})], lambda request: "Done."])
    agent = Agent(stream=model, …)
    assert model.requests[0].messages[-1] == …

Each request uses up one response. An answer is streamed as a real provider would: start, then per block its start,
deltas and end, then the final message. It looks at the abort signal before each event. When nothing is left, the answer
is an error. Nothing depends on time or chance.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast, final, get_args

from msgspec import UNSET, structs

from antiphon.core.content import Block, Content, Foreign, Image, Text, Thinking, ToolCall
from antiphon.core.json_numbers import json_text
from antiphon.core.messages import AssistantMessage, Message, StopReason, SystemMessage
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.response import answer_begun
from antiphon.core.response_events import (
    Done,
    Failed,
    Growth,
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
from antiphon.core.wire import to_wire

Answer: TypeAlias = "str | AssistantMessage | Sequence[Block] | Sequence[ResponseEvent] | AsyncIterator[ResponseEvent]"
"""A text, a message, the blocks of one, or events taken as they are."""

Response: TypeAlias = "Answer | Exception | Callable[[ModelRequest], Answer | Awaitable[Answer]]"
"""An answer, a function that gives one, or an exception that is raised: what a provider must never do."""

SCRIPTED = Model(id="scripted-1", provider="scripted", api="scripted")

UNITS_PER_TOKEN = 4
"""UTF-16 code units that count as one token in estimates."""

NOTHING_LEFT = "no scripted response is left"
ABORTED = "Request was aborted"


@final
class ScriptedProvider:
    """A `ModelStream` with a script.

    `tokens_per_delta` cuts what is streamed into pieces of that many tokens (four UTF-16 units each, so a pair of
    surrogates may be cut); by default a block comes in one delta. `estimates_usage` gives each answer without usage an
    estimate from the lengths of prompt and answer, with a prompt cache per session.
    """

    def __init__(
        self,
        responses: Iterable[Response] = (),
        *,
        tokens_per_delta: int | None = None,
        estimates_usage: bool = False,
    ) -> None:
        if tokens_per_delta is not None and tokens_per_delta < 1:
            raise ValueError(f"tokens_per_delta must be at least 1, not {tokens_per_delta}")
        self.requests: list[ModelRequest] = []
        """What was asked, in order; of a list of messages a copy."""
        self._responses: deque[Response] = deque(responses)
        self._units = None if tokens_per_delta is None else tokens_per_delta * UNITS_PER_TOKEN
        self._cache = PromptCache() if estimates_usage else None

    @property
    def responses_left(self) -> int:
        return len(self._responses)

    def add(self, *responses: Response) -> None:
        """Append to the script."""
        self._responses.extend(responses)

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        """Answer with the next response."""
        messages = request.messages
        kept = structs.replace(request, messages=tuple(messages)) if isinstance(messages, list) else request
        self.requests.append(kept)
        usage = NO_USAGE if self._cache is None else self._cache.usage(request)
        if not self._responses:
            return _each([_failed(request, usage, "error", NOTHING_LEFT)])
        answer = await _answer_to(request, self._responses.popleft())
        if isinstance(answer, AsyncIterator):
            return answer
        if not isinstance(answer, str | AssistantMessage) and _are_events(answer):
            return _each(answer)
        message = self._message(request, cast("str | AssistantMessage | Sequence[Block]", answer), usage)
        return _stream(request, message, self._units)

    def _message(
        self, request: ModelRequest, answer: str | AssistantMessage | Sequence[Block], usage: Usage
    ) -> AssistantMessage:
        message = answer if isinstance(answer, AssistantMessage) else as_message(answer)
        if self._cache is not None and message.usage == NO_USAGE:
            message = structs.replace(message, usage=with_output(usage, tokens_of(content_text(message.content))))
        return structs.replace(
            message,
            api=message.api or request.model.api,
            provider=message.provider or request.model.provider,
            model=message.model or request.model.id,
        )


def as_message(answer: str | Sequence[Block]) -> AssistantMessage:
    """A text or blocks as the message of a model: it stopped to use tools if there are calls."""
    content: Content = (Text(text=answer),) if isinstance(answer, str) else tuple(answer)
    calls = any(type(block) is ToolCall for block in content)
    return AssistantMessage(content=content, stop_reason="toolUse" if calls else "stop")


async def _answer_to(request: ModelRequest, response: Response) -> Answer:
    if isinstance(response, Exception):
        raise response
    if not callable(response):
        return response
    answer = response(request)
    return await answer if inspect.isawaitable(answer) else answer


def _are_events(answer: Sequence[Block] | Sequence[ResponseEvent]) -> bool:
    return bool(answer) and not isinstance(answer[0], Text | Thinking | Image | ToolCall | Foreign)


async def _each(events: Iterable[Any]) -> AsyncIterator[ResponseEvent]:
    for event in events:
        yield event


# -- streaming one message ---------------------------------------------------------------------------------------------


async def _stream(request: ModelRequest, message: AssistantMessage, units: int | None) -> AsyncIterator[ResponseEvent]:
    signal = request.signal
    so_far = answer_begun(_begun(message))
    for event in _events_of(message, units):
        if signal.aborted:
            yield _failed(request, message.usage, "aborted", ABORTED, so_far.content)
            return
        yield event
        if type(event) in _GROWTH:
            so_far = so_far.grow(cast("Growth", event))


_GROWTH = frozenset(get_args(Growth))


def _begun(message: AssistantMessage) -> AssistantMessage:
    return structs.replace(message, content=(), stop_reason="pending", error_message=UNSET)


def _events_of(message: AssistantMessage, units: int | None) -> Iterator[ResponseEvent]:
    yield Start(message=_begun(message))
    for index, block in enumerate(message.content):
        if type(block) is Text:
            yield TextStart(content_index=index)
            for delta in pieces(block.text, units):
                yield TextDelta(content_index=index, delta=delta)
            plain = block == Text(text=block.text)
            yield TextEnd(content_index=index, content=block.text, block=UNSET if plain else block)
        elif type(block) is Thinking:
            yield ThinkingStart(content_index=index)
            for delta in pieces(block.thinking, units):
                yield ThinkingDelta(content_index=index, delta=delta)
            plain = block == Thinking(thinking=block.thinking)
            yield ThinkingEnd(content_index=index, content=block.thinking, block=UNSET if plain else block)
        elif type(block) is ToolCall:
            yield ToolCallStart(content_index=index, id=block.id, name=block.name)
            for delta in pieces(_json(block.arguments), units):
                yield ToolCallDelta(content_index=index, delta=delta)
            yield ToolCallEnd(content_index=index, tool_call=block)
    yield _last(message)


def _last(message: AssistantMessage) -> ResponseEvent:
    reason = message.stop_reason
    if reason in ("error", "aborted"):
        return Failed(reason=reason, error=message)
    return Done(reason=reason, message=message)


def _failed(request: ModelRequest, usage: Usage, reason: StopReason, text: str, content: Content = ()) -> ResponseEvent:
    model = request.model
    message = AssistantMessage(
        content=content,
        api=model.api,
        provider=model.provider,
        model=model.id,
        usage=usage,
        stop_reason=reason,
        error_message=text,
    )
    return Failed(reason=reason, error=message)


def pieces(text: str, units: int | None) -> list[str]:
    """The text in pieces of that many UTF-16 code units; at least one piece."""
    if units is None or not text:
        return [text]
    if text.isascii():
        return [text[start : start + units] for start in range(0, len(text), units)]
    data = _units(text)
    step = 2 * units
    cut = [data[start : start + step] for start in range(0, len(data), step)]
    return [piece.decode("utf-16-le", "surrogatepass") for piece in cut]


# -- estimates ---------------------------------------------------------------------------------------------------------


@final
class PromptCache:
    """Estimates what a request costs, and remembers the prompt of each session as a provider's prompt cache does."""

    __slots__ = ("_prompts",)

    def __init__(self) -> None:
        self._prompts: dict[str, bytes] = {}

    def usage(self, request: ModelRequest) -> Usage:
        """The usage of the prompt alone. With a session (unless `cache_retention` is `none`) it is read and written."""
        prompt = _units(prompt_text(request.messages))
        tokens = _tokens(len(prompt) // 2)
        session = request.session_id
        if not session or request.options.get("cache_retention") == "none":
            return Usage(input=tokens, total_tokens=tokens)
        before = self._prompts.get(session, b"")
        self._prompts[session] = prompt
        read = _tokens(_common_length(before, prompt) // 2)
        return Usage(cache_read=read, cache_write=tokens - read, total_tokens=tokens)


def with_output(usage: Usage, tokens: int) -> Usage:
    return structs.replace(usage, output=tokens, total_tokens=usage.total_tokens + tokens)


def tokens_of(text: str) -> int:
    """A quarter of the UTF-16 length, rounded up."""
    return _tokens(len(text) if text.isascii() else len(_units(text)) // 2)


def _tokens(units: int) -> int:
    return -(-units // UNITS_PER_TOKEN)


def _units(text: str) -> bytes:
    """UTF-16, two bytes per unit."""
    return text.encode("utf-16-le", "surrogatepass")


def prompt_text(messages: Sequence[Message]) -> str:
    """`role:text` of every message, joined by blank lines."""
    return "\n\n".join([f"{message.role}:{_message_text(message)}" for message in messages])


def _message_text(message: Message) -> str:
    if isinstance(message, SystemMessage) and (message.sections or message.tools_added or message.tools_removed):
        told = [message.sections, message.tools_added, message.tools_removed]
        return "\n".join([content_text(message.content), *(_json(part) for part in told if part)])
    content = getattr(message, "content", None)
    return _json(message) if content is None else content_text(content)


def content_text(content: str | Content) -> str:
    """What of a content counts: texts, thinking, calls as `name:` and compact JSON; blocks joined by newlines."""
    return content if isinstance(content, str) else "\n".join(map(_block_text, content))


def _block_text(block: Block) -> str:
    match block:
        case Text(text=text):
            return text
        case Thinking(thinking=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return f"{name}:{_json(arguments)}"
        case Image(mime_type=kind):
            return f"image:{kind}"
        case _:
            return _json(block)


def _json(value: object) -> str:
    return json_text(to_wire(value))


def _common_length(a: bytes, b: bytes) -> int:
    """Bytes that both begin with."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low

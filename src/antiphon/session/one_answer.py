"""One question to a model besides the conversation: asked once, or again after failures that pass.

It is a run of its own with one turn and no tools, so aborts, silent streams and broken ones are handled as in any run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct, structs

from antiphon.agent.agent import Agent
from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.policy import RunLimits
from antiphon.core.ports import AbortSignal, Clock, ModelStream
from antiphon.session.retry import Retry, RetrySettings, next_retry

Ask: TypeAlias = Callable[[], Awaitable[AssistantMessage]]


@final
class RetryNews(Struct, frozen=True):
    """What happens to a question that failed. `success` and `final_error` only when it is `finished`."""

    kind: Literal["scheduled", "attempt_start", "finished"]
    retry: Retry
    success: bool = False
    final_error: str | None = None


@final
class Question(Struct, frozen=True, kw_only=True):
    """What is asked, of whom, and how. `session_id` is for routing."""

    model: Model
    messages: tuple[Message, ...]
    thinking_level: ThinkingLevel
    options: Mapping[str, Any]
    session_id: str
    api_key: str | None


async def ask_once(question: Question, stream: ModelStream, signal: AbortSignal, clock: Clock) -> AssistantMessage:
    """The answer of a model, whatever it is; an aborted one if nothing was answered before the abort."""
    agent = Agent(
        stream=stream,
        model=question.model,
        thinking_level=question.thinking_level,
        options=question.options,
        session_id=question.session_id,
        api_key=question.api_key,
        limits=RunLimits(max_turns=1),
        clock=clock,
    )
    if signal.aborted:
        return _aborted(question.model, clock)
    running = agent.prompt(question.messages)
    unhook = signal.on_abort(lambda: agent.abort(signal.reason))
    try:
        outcome = await running
    finally:
        unhook()
    return _answer_in(outcome.new_messages) or _aborted(question.model, clock)


def _answer_in(messages: Sequence[Message]) -> AssistantMessage | None:
    return next((message for message in messages if type(message) is AssistantMessage), None)


def _aborted(model: Model, clock: Clock) -> AssistantMessage:
    return AssistantMessage(
        content=(),
        api=model.api,
        provider=model.provider,
        model=model.id,
        stop_reason="aborted",
        timestamp=clock.now_ms(),
    )


async def ask_with_retries(
    ask: Ask,
    settings: RetrySettings | None,
    tell: Callable[[RetryNews], None],
    *,
    signal: AbortSignal,
    clock: Clock,
    context_window: int,
) -> AssistantMessage:
    """The first answer that is no passing failure, or the last one. `settings` None: asked once.

    An abort while it waits gives the failed answer as an aborted one, without its error.
    """
    made: Retry | None = None
    while True:
        answer = await ask()
        retry = None
        if settings is not None:
            count = 0 if made is None else made.attempt
            retry = next_retry(answer, count, settings, context_window=context_window)
        if retry is None:
            if made is not None:
                tell(_finished(made, answer))
            return answer
        made = retry
        tell(RetryNews("scheduled", retry))
        if not await waited(retry.delay_ms, signal, clock):
            tell(RetryNews("finished", retry, final_error=retry.error))
            return structs.replace(answer, stop_reason="aborted", error_message=UNSET)
        tell(RetryNews("attempt_start", retry))


def _finished(made: Retry, answer: AssistantMessage) -> RetryNews:
    success = answer.stop_reason not in ("error", "aborted")
    error = answer.error_message if isinstance(answer.error_message, str) and not success else None
    return RetryNews("finished", made, success, error)


async def waited(delay_ms: int, signal: AbortSignal, clock: Clock) -> bool:
    """Wait, unless aborted: then false, at once. A signal that is aborted already is noticed."""
    if signal.aborted:
        return False
    sleeping = asyncio.ensure_future(clock.sleep(delay_ms / 1000))
    aborting = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait((sleeping, aborting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sleeping, aborting):
            task.cancel()
        await asyncio.gather(sleeping, aborting, return_exceptions=True)
    return not signal.aborted

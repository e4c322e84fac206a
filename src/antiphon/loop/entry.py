"""The low-level ways into the loop: with a callback, or as an event stream. No state is kept between runs.

The callback is awaited, so the loop waits for it. The stream is a queue: its producer does not wait. Both give one
`RunOutcome`. In the profile `pi` they raise whatever escapes from foreign code, and events just stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import final

from antiphon.core.events import AgentEvent
from antiphon.core.growing import grown
from antiphon.core.hooks import Context
from antiphon.core.limits import NOTHING_USED
from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.ports import ModelStream
from antiphon.core.states import Prompt, Run, rules_of
from antiphon.core.toolbox import Toolbox
from antiphon.core.transcript import Transcript
from antiphon.errors import CannotContinue, NothingToContinue
from antiphon.loop.abort import DerivedSignal, Signal, never_aborted
from antiphon.loop.config import LoopConfig
from antiphon.loop.driver import Driver
from antiphon.loop.event_stream import EventStream
from antiphon.loop.given import refuse_unusable
from antiphon.loop.outcome import RunOutcome

Emit = Callable[[AgentEvent], Awaitable[None] | None]


@final
class _Callback:
    """An audience of one callback. A plain poll cannot take messages back, so what was leased is undelivered."""

    __slots__ = ("_emit", "_hurried")

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._hurried = False

    def tell(self, event: AgentEvent) -> Awaitable[None] | None:
        waiting = self._emit(event)
        if waiting is not None and self._hurried:
            close = getattr(waiting, "close", None)
            if close is not None:
                close()
            return None
        return waiting

    def resume(self, event: AgentEvent) -> Awaitable[None] | None:
        return None

    def delivered(self) -> None:
        return None

    def commit(self) -> None:
        return None

    def withdrawn(self) -> tuple[Message, ...]:
        return ()

    def give_back(self, leased: tuple[Message, ...]) -> tuple[Message, ...]:
        return leased

    def queued(self) -> bool:
        return False

    def busy_with_critical(self) -> bool:
        return False

    def hurry(self) -> None:
        self._hurried = True

    def report_to(self, note: Callable[[str, BaseException, AgentEvent | None], None]) -> None:
        return None


def begin(context: Context, config: LoopConfig) -> Run:
    """The first value of a run: snapshots of transcript and tools, nothing used yet."""
    return Run(
        rules=rules_of(
            config.policy,
            config.limits,
            config.tool_execution,
            asks_request=config.prepare_request is not None,
            asks_finish=_may_take_or_end(config),
            asks_next=config.prepare_next_turn is not None,
            polls_twice=config.prepare_next_turn is not None or config.get_steering_messages is not None,
        ),
        transcript=Transcript(context.messages),
        toolbox=Toolbox(context.tools),
        new=grown(),
        model=config.model,
        thinking_level=config.thinking_level,
        tally=NOTHING_USED if config.budget is None else config.budget.used,
    )


def _may_take_or_end(config: LoopConfig) -> bool:
    """A plain poll cannot give back what it took, so an abort has to be weighed before it is called."""
    hooks = (config.finish_turn, config.get_steering_messages, config.get_follow_up_messages)
    return any(hook is not None for hook in hooks)


async def run_agent_loop(
    prompts: Sequence[Message],
    context: Context,
    config: LoopConfig,
    emit: Emit,
    signal: Signal | None,
    stream: ModelStream,
) -> RunOutcome:
    """Run with new messages. An empty list of prompts is legal and asks from the transcript as it is.

    Raises:
        WrongArgument: something given cannot be used; nothing has happened.
    """
    refuse_unusable(prompts, context, config, emit, signal, stream)
    prompt = Prompt(run=begin(context, config), messages=tuple(prompts), at=config.clock.now_ms())
    return await _drive(prompt, config, emit, signal, stream)


async def run_agent_loop_continue(
    context: Context,
    config: LoopConfig,
    emit: Emit,
    signal: Signal | None,
    stream: ModelStream,
) -> RunOutcome:
    """Run without a new message.

    Raises:
        WrongArgument: something given cannot be used.
        NothingToContinue: the transcript is empty.
        CannotContinue: it ends with an answer.
    """
    refuse_unusable((), context, config, emit, signal, stream)
    refuse_to_continue(context)
    prompt = Prompt(run=begin(context, config), messages=(), continuing=True, at=config.clock.now_ms())
    return await _drive(prompt, config, emit, signal, stream)


def refuse_to_continue(context: Context) -> None:
    """Raise if a transcript leaves a model nothing to answer."""
    if not context.messages:
        raise NothingToContinue("there is no message to continue from; start with a prompt")
    if isinstance(context.messages[-1], AssistantMessage):
        raise CannotContinue("the last message is an answer; continue needs a user message or a tool result at the end")


async def _drive(
    prompt: Prompt, config: LoopConfig, emit: Emit, signal: Signal | None, stream: ModelStream
) -> RunOutcome:
    derived = DerivedSignal(never_aborted() if signal is None else signal)
    raises = config.policy.fault_closing == "failure sequence"
    try:
        return await Driver(config, stream, derived, _Callback(emit), raises=raises).drive(prompt)
    finally:
        derived.release()


def agent_loop(
    prompts: Sequence[Message],
    context: Context,
    config: LoopConfig,
    signal: Signal | None,
    stream: ModelStream,
) -> EventStream[AgentEvent, RunOutcome]:
    """The same as an event stream. It ends, with the error, whatever happens to the run."""
    refuse_unusable(prompts, context, config, _no_result, signal, stream)
    return _as_stream(lambda emit: run_agent_loop(prompts, context, config, emit, signal, stream))


def agent_loop_continue(
    context: Context,
    config: LoopConfig,
    signal: Signal | None,
    stream: ModelStream,
) -> EventStream[AgentEvent, RunOutcome]:
    """Continue as an event stream. Refusals are raised by this call itself."""
    refuse_unusable((), context, config, _no_result, signal, stream)
    refuse_to_continue(context)
    return _as_stream(lambda emit: run_agent_loop_continue(context, config, emit, signal, stream))


def _as_stream(run: Callable[[Emit], Awaitable[RunOutcome]]) -> EventStream[AgentEvent, RunOutcome]:
    events: EventStream[AgentEvent, RunOutcome] = EventStream(lambda event: False, _no_result)

    async def produce() -> None:
        try:
            outcome = await run(events.push)
        except BaseException as error:
            leaves = isinstance(error, KeyboardInterrupt | SystemExit)  # the event loop raises those itself
            events.fail(asyncio.CancelledError() if leaves else error)
            raise
        events.end(outcome)

    task = asyncio.ensure_future(produce())
    events.producer = task
    task.add_done_callback(_look_at)
    return events


def _look_at(task: asyncio.Future[None]) -> None:
    """The error went into the stream; nobody else needs to hear of it."""
    if not task.cancelled():
        task.exception()


def _no_result(event: AgentEvent) -> RunOutcome:
    raise AssertionError(f"{type(event).__name__} does not complete this stream")  # pragma: no cover


__all__ = ["agent_loop", "agent_loop_continue", "begin", "run_agent_loop", "run_agent_loop_continue"]

"""One stateful agent: transcript, tools, queues and listeners around the loop, and at most one run at a time.

The run happens in the task that awaits `prompt`. Everything that a host reads is a fold over the events of its runs;
what a host assigns reaches the next run, never the active one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import Any, final

from antiphon.agent.audience import Queues, RunAudience
from antiphon.agent.iteration import RunEvents
from antiphon.agent.listeners import Listener, Listeners
from antiphon.agent.settings import (
    given_images,
    given_listener,
    given_messages,
    given_prompt,
    given_system,
    given_tools,
    guarded,
    queue_mode,
)
from antiphon.agent.view import AgentState, View
from antiphon.core.content import Image, Text
from antiphon.core.events import LiveMessage
from antiphon.core.growing import grown
from antiphon.core.hooks import (
    AfterHook,
    BeforeHook,
    ConvertToLlm,
    FinishTurn,
    GetApiKey,
    PrepareNextTurn,
    PrepareRequest,
    TransformContext,
)
from antiphon.core.limits import NOTHING_USED, Budget, Tally, reached
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, UserMessage
from antiphon.core.model import UNKNOWN_MODEL, Model, ThinkingLevel
from antiphon.core.policy import DEFAULT, Policy, RunLimits
from antiphon.core.ports import AbortSignal, Clock, ExecutionMode, ModelStream, Tool
from antiphon.core.queues import QueueMode
from antiphon.core.states import Prompt, Run, rules_of
from antiphon.core.system_state import initial_system_message
from antiphon.core.toolbox import NO_TOOLS, Toolbox
from antiphon.core.transcript import Transcript
from antiphon.errors import AgentBusy, CannotContinue, LimitStillReached, NothingToContinue, WouldDeadlock
from antiphon.loop.abort import AbortableSignal
from antiphon.loop.config import SYSTEM_CLOCK, LoopConfig
from antiphon.loop.driver import Driver
from antiphon.loop.given import as_message, as_messages
from antiphon.loop.outcome import FaultRecord, RunOutcome


@final
@guarded
class Agent:
    """A conversation with a model that may call tools.

    `stream` asks the model; everything else has a default. Hooks and settings are plain attributes and count from the
    next run on. `options` go to the stream function with each request. Times are seconds.

    Raises:
        WrongArgument: something given cannot be used, here or by assignment; it says what to give.
    """

    def __init__(
        self,
        *,
        stream: ModelStream,
        model: Model | None = None,
        system_prompt: str = "",
        tools: Sequence[Tool] = (),
        messages: Sequence[Message] = (),
        thinking_level: ThinkingLevel = "off",
        tool_execution: ExecutionMode = "parallel",
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        policy: Policy = DEFAULT,
        limits: RunLimits | None = None,
        budget: Budget | None = None,
        api_key: str | None = None,
        session_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        convert_to_llm: ConvertToLlm | None = None,
        transform_context: TransformContext | None = None,
        get_api_key: GetApiKey | None = None,
        prepare_request: PrepareRequest | None = None,
        prepare_next_turn: PrepareNextTurn | None = None,
        finish_turn: FinishTurn | None = None,
        before_tool_call: BeforeHook | None = None,
        after_tool_call: AfterHook | None = None,
        on_fault: Callable[[FaultRecord], None] | None = None,
        stream_idle_timeout: float | None = None,
        close_timeout: float = 5.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.stream = stream
        self.model = UNKNOWN_MODEL if model is None else model
        self.thinking_level: ThinkingLevel = thinking_level
        self.tool_execution: ExecutionMode = tool_execution
        self.policy = policy
        self.limits = limits
        self.budget = budget
        self.api_key = api_key
        self.session_id = session_id
        self.options: Mapping[str, Any] = {} if options is None else options
        self.convert_to_llm = convert_to_llm
        self.transform_context = transform_context
        self.get_api_key = get_api_key
        self.prepare_request = prepare_request
        self.prepare_next_turn = prepare_next_turn
        self.finish_turn = finish_turn
        self.before_tool_call = before_tool_call
        self.after_tool_call = after_tool_call
        self.on_fault = on_fault
        self.stream_idle_timeout = stream_idle_timeout
        self.close_timeout = close_timeout
        self.clock = clock
        given = given_tools(tools, policy)
        self._toolbox = Toolbox(given) if given else NO_TOOLS
        self._declared: Toolbox | None = None
        self._view = View(
            self._first_transcript(given_prompt(system_prompt), messages), ids_are_a_set=policy.name == "pi"
        )
        self._queues = Queues(queue_mode("steering_mode", steering_mode), queue_mode("follow_up_mode", follow_up_mode))
        self._listeners = Listeners(raises=policy.listener_fault != "recorded")
        self._active: _ActiveRun | None = None
        self._used: Tally | None = None

    def _first_transcript(self, system_prompt: str, messages: Sequence[Message]) -> Transcript:
        transcript = Transcript(given_messages(messages, "Agent.messages"))
        if len(transcript) and type(transcript[0]) is SystemMessage:
            return transcript
        first = initial_system_message(system_prompt, self._toolbox.tools or (), timestamp=self.clock.now_ms())
        return transcript if first is None else Transcript((first, *transcript))

    # -- what a host reads and sets -------------------------------------------------------------------------------

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._toolbox.tools or ()

    @tools.setter
    def tools(self, tools: Sequence[Tool]) -> None:
        self._toolbox = Toolbox(given_tools(tools, self.policy))

    @property
    def messages(self) -> Transcript:
        """The transcript, a window that never changes; assign any sequence of messages to replace it."""
        return self._view.transcript

    @messages.setter
    def messages(self, messages: Sequence[Message]) -> None:
        self._view.transcript = Transcript(given_messages(messages, "Agent.messages"))
        self._declared = None

    @property
    def system_prompt(self) -> str:
        """The prompt that is in force, replayed from the system messages. Read only."""
        return self._view.transcript.system.prompt

    @property
    def is_streaming(self) -> bool:
        """Is a run active? (Not: does text arrive.)"""
        return self._active is not None

    @property
    def streaming_message(self) -> LiveMessage | None:
        return self._view.streaming_message

    @property
    def pending_tool_calls(self) -> frozenset[str]:
        return self._view.pending_tool_calls

    @property
    def error_message(self) -> str | None:
        return self._view.error_message

    @property
    def signal(self) -> AbortSignal | None:
        """The abort signal of the active run."""
        return None if self._active is None else self._active.signal

    @property
    def state(self) -> AgentState:
        """Everything at once, as a snapshot."""
        return AgentState(
            system_prompt=self.system_prompt,
            model=self.model,
            thinking_level=self.thinking_level,
            tools=self.tools,
            messages=self.messages,
            is_streaming=self.is_streaming,
            streaming_message=self.streaming_message,
            pending_tool_calls=self.pending_tool_calls,
            error_message=self.error_message,
        )

    def subscribe(self, listener: Listener, *, critical: bool = False) -> Callable[[], None]:
        """Be told every event, `listener(event, signal)`, sync or async; the run waits for it. Gives the way out.

        A failing listener is recorded on the outcome. `critical`: its failure ends the run, and it is never cut short.
        """
        return self._listeners.subscribe(given_listener(listener), critical=critical)

    # -- queues ---------------------------------------------------------------------------------------------------

    @property
    def steering_mode(self) -> QueueMode:
        return self._queues.steering.mode

    @steering_mode.setter
    def steering_mode(self, mode: QueueMode) -> None:
        self._queues.set_mode("steering", queue_mode("steering_mode", mode))

    @property
    def follow_up_mode(self) -> QueueMode:
        return self._queues.follow_up.mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: QueueMode) -> None:
        self._queues.set_mode("follow_up", queue_mode("follow_up_mode", mode))

    def steer(self, message: str | Message) -> str:
        """Queue a message that changes direction: it is read at the next turn boundary. Gives the id of the item.

        May be called from any thread, as `follow_up` and `abort`; everything else belongs to the event loop of the run.
        """
        return self._queues.accept("steering", self._queueable(message, "steer()"))

    def follow_up(self, message: str | Message) -> str:
        """Queue a message for when the agent would stop. Gives the id of the item."""
        return self._queues.accept("follow_up", self._queueable(message, "follow_up()"))

    def _queueable(self, message: str | Message, where: str) -> Message:
        if isinstance(message, str):
            return UserMessage(content=(Text(text=message),), timestamp=self.clock.now_ms())
        return as_message(message, where)

    def clear_steering_queue(self) -> tuple[Message, ...]:
        """Drop what waits; gives what was dropped."""
        return self._queues.clear("steering")

    def clear_follow_up_queue(self) -> tuple[Message, ...]:
        """Drop what waits; gives what was dropped."""
        return self._queues.clear("follow_up")

    def clear_all_queues(self) -> tuple[Message, ...]:
        """Drop what waits in both queues; gives what was dropped."""
        return self._queues.clear("steering", "follow_up")

    @property
    def has_queued_messages(self) -> bool:
        return bool(self._queues)

    def peek_queued_messages(self) -> tuple[Message, ...]:
        """What the next poll would take: steering by its mode, else follow-up by its mode."""
        queue = self._queues.steering or self._queues.follow_up
        return tuple(item.message for item in queue.peek())

    # -- running --------------------------------------------------------------------------------------------------

    async def prompt(self, given: str | Message | Sequence[Message], images: Sequence[Image] = ()) -> RunOutcome:
        """Say something and run until the agent is idle again.

        Raises:
            AgentBusy: a run is active; nothing was changed.
            LimitStillReached: the budget is used up; nothing was changed.
            WrongArgument: something given is no message or no image; nothing was changed.
        """
        self._refuse_if_busy("prompt()")
        tally = NOTHING_USED if self.budget is None else self._within_limits(self.budget.used)
        return await self._run(self._prompts(given, images), continuing=False, tally=tally)

    def _prompts(self, given: str | Message | Sequence[Message], images: Sequence[Image]) -> tuple[Message, ...]:
        images = given_images(images, beside_text=isinstance(given, str)) if images else ()
        if isinstance(given, str):
            return (UserMessage(content=(Text(text=given), *images), timestamp=self.clock.now_ms()),)
        if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
            return as_messages(given, "prompt()")
        return (as_message(given, "prompt()"),)

    async def continue_(self, *, system: SystemMessage | None = None) -> RunOutcome:
        """Run without a new message, or with what is queued if the transcript ends with an answer.

        Tools that have changed are told by themselves. `system`: a change of the prompt that is told in front.

        Raises:
            WrongArgument: `system` is no system message.
            AgentBusy: a run is active.
            NothingToContinue: no messages, or system messages only.
            CannotContinue: the transcript ends with an answer and nothing is queued.
            LimitStillReached: the limit that ended the last run is still in force.
        """
        self._refuse_if_busy("continue_()")
        transcript = self._view.transcript
        if all(type(message) is SystemMessage for message in transcript):
            raise NothingToContinue("there is no message to continue from; use prompt()")
        tally = self._tally_to_continue()
        first = () if system is None else (given_system(system),)
        if type(transcript[-1]) is not AssistantMessage:
            return await self._run(first, continuing=system is None, tally=tally)
        if not self._queues:
            raise CannotContinue("the last message is an answer and nothing is queued; use prompt()")
        steering = bool(self._queues.steering)
        messages = self._queues.poll_steering() if steering else self._queues.poll_follow_up()
        return await self._run((*first, *messages), continuing=False, tally=tally, polls_first=not steering)

    def _tally_to_continue(self) -> Tally:
        if self.budget is not None:
            return self._within_limits(self.budget.used)
        return NOTHING_USED if self._used is None else self._within_limits(self._used)

    def _within_limits(self, tally: Tally) -> Tally:
        limit = reached(self._limits(), tally)
        if limit is None:
            return tally
        figures = f"{limit.name} is still reached ({limit.reached:g} of {limit.allowed:g})"
        raise LimitStillReached(f"{figures}; raise it" + ("" if self.budget is not None else ", or use prompt()"))

    async def run_until_idle(self) -> RunOutcome:
        """Continue while something is queued and the last run did not end by abort, error, limit or host."""
        outcome = await self.continue_()
        while outcome.has_queued_messages and outcome.reason in ("stop", "length", "terminated"):
            outcome = await self.continue_()
        return outcome

    def run(self, given: str | Message | Sequence[Message], images: Sequence[Image] = ()) -> RunEvents:
        """The same run as an iteration over its events; the run waits for its reader.

        Leaving the iteration early cancels the run, closes what is open, and joins it. Use it in `async with` if you
        may leave by `break`: a plain `async for` does not wait for that.
        """
        return RunEvents(self.subscribe, lambda: self.prompt(given, images))

    def abort(self, reason: str | None = None) -> None:
        """Ask the active run to stop. Returns at once; when idle nothing happens. May be called from any thread."""
        active = self._active
        if active is not None:
            active.abort(reason or "aborted")

    async def wait_for_idle(self) -> None:
        """Returns when no run is active. May be awaited in any event loop, as `steer` and `abort` in any thread.

        Raises:
            WouldDeadlock: awaited by a listener, hook or tool of the run itself; make it a task instead.
        """
        active = self._active
        if active is None:
            return
        if self._runs_in(asyncio.current_task(), active):
            raise WouldDeadlock("this run cannot end before the listener that waits for it; await in a task of its own")
        if asyncio.get_running_loop() is active.loop:
            await asyncio.shield(active.released)
        else:
            await active.released_elsewhere()

    def _runs_in(self, task: asyncio.Task[Any] | None, active: _ActiveRun) -> bool:
        """Does this task do a part of the run: the run itself, a store, a tool, or telling progress?"""
        if task is None or task is active.task or task is self._listeners.writing:
            return True
        return active.driver is not None and active.driver.runs_in(task)

    def reset(self) -> None:
        """Forget everything but the system state, which is folded into one message; clear error and queues.

        Raises:
            AgentBusy: a run is active; nothing was changed.
        """
        self._refuse_if_busy("reset()")
        kept = self._view.transcript.system.as_message(self.clock.now_ms())
        self.messages = () if kept is None else (kept,)
        self._view.begin_run()
        self._view.end_run()
        self._used = None
        self.clear_all_queues()

    def _refuse_if_busy(self, what: str) -> None:
        if self._active is not None:
            raise AgentBusy(what)

    async def _run(
        self,
        messages: tuple[Message, ...],
        *,
        continuing: bool,
        tally: Tally,
        polls_first: bool = True,
    ) -> RunOutcome:
        active = _ActiveRun()
        try:
            driver, prompt = self._driver(active, messages, continuing=continuing, tally=tally, polls_first=polls_first)
        except BaseException:  # settings that cannot be used: nothing has happened
            self._queues.give_back()
            raise
        self._active = active
        try:
            self._view.begin_run()
            self._queues.forget_lease()  # what was taken to continue is the prompt now
            self._used = None
            active.driver = driver
            outcome = await driver.drive(prompt)
            self._remember(driver, outcome)
            return outcome
        finally:
            self._release(active)

    def _driver(
        self, active: _ActiveRun, messages: tuple[Message, ...], *, continuing: bool, tally: Tally, polls_first: bool
    ) -> tuple[Driver, Prompt]:
        """Everything that one run needs, as it is set now."""
        audience = RunAudience(
            self._view, self._listeners, self._queues, active.signal, returns=self.policy.return_undelivered
        )
        config = self._config()
        declared, self._declared = self._declared, None  # until the run has ended and left the transcript it worked on
        run = Run(
            rules=rules_of(
                self.policy,
                self.limits,
                self.tool_execution,
                asks_request=self.prepare_request is not None,
                asks_finish=self.finish_turn is not None,
                asks_next=self.prepare_next_turn is not None,
                polls_twice=self.prepare_next_turn is not None,
                host_model=self.model,
            ),
            transcript=self._view.transcript,
            toolbox=self._toolbox,
            new=grown(),
            model=self.model,
            thinking_level=self.thinking_level,
            tally=tally,
            declared=declared,
        )
        prompt = Prompt(
            run=run, messages=messages, continuing=continuing, polls_first=polls_first, at=self.clock.now_ms()
        )
        return Driver(config, self.stream, active.signal, audience), prompt

    def _remember(self, driver: Driver, outcome: RunOutcome) -> None:
        run: Run = driver.state.run  # type: ignore[union-attr]  # an ended run has one
        self._used = run.tally if outcome.limit is not None else None
        if run.transcript == self._view.transcript:
            self._declared = run.declared

    def _release(self, active: _ActiveRun) -> None:
        self._active = None
        self._view.end_run()
        active.released.set_result(None)

    def _limits(self) -> RunLimits:
        return self.policy.limits if self.limits is None else self.limits

    def _config(self) -> LoopConfig:
        return LoopConfig(
            model=self.model,
            thinking_level=self.thinking_level,
            tool_execution=self.tool_execution,
            policy=self.policy,
            limits=self.limits,
            budget=self.budget,
            api_key=self.api_key,
            session_id=self.session_id,
            options=self.options,
            convert_to_llm=self.convert_to_llm,
            transform_context=self.transform_context,
            get_api_key=self.get_api_key,
            prepare_request=self.prepare_request,
            prepare_next_turn=self.prepare_next_turn,
            finish_turn=self.finish_turn,
            before_tool_call=self.before_tool_call,
            after_tool_call=self.after_tool_call,
            get_steering_messages=self._queues.poll_steering,
            get_follow_up_messages=self._queues.poll_follow_up,
            on_fault=self.on_fault,
            stream_idle_timeout=self.stream_idle_timeout,
            close_timeout=self.close_timeout,
            clock=self.clock,
        )


@final
class _ActiveRun:
    """What exists while a run is active: from its reservation until the listeners of its last event are done."""

    __slots__ = ("driver", "loop", "released", "signal", "task", "thread")

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self.signal = AbortableSignal()
        self.task = asyncio.current_task()
        self.loop = asyncio.get_running_loop()
        self.thread = get_ident()
        self.released: asyncio.Future[None] = self.loop.create_future()

    def abort(self, reason: str) -> None:
        """Abort here and now; from another thread, in the loop's. A loop that waits is woken, also out of a signal
        handler, which the loop does not notice by itself.
        """
        wake: Callable[[], None] = _nothing
        if get_ident() == self.thread:
            self.signal.abort(reason)
        else:
            wake = partial(self.signal.abort, reason)
        with suppress(RuntimeError):  # the loop is closed: nothing runs in it any more
            self.loop.call_soon_threadsafe(wake)

    async def released_elsewhere(self) -> None:
        """Returns when the run is over that goes on in the event loop of another thread."""
        over: concurrent.futures.Future[None] = concurrent.futures.Future()

        def told(_: object) -> None:
            if over.set_running_or_notify_cancel():  # whoever waited may have left
                over.set_result(None)

        try:
            self.loop.call_soon_threadsafe(self.released.add_done_callback, told)
        except RuntimeError:  # that loop is closed, and the run with it
            return
        await asyncio.wrap_future(over)


def _nothing() -> None:
    return None

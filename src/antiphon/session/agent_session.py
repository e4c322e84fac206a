"""`AgentSession`: one conversation as a product. It puts the parts together and holds no rule of its own.

Where to look: what follows what is in `phases.py`; how a prompt comes in, `inbox.py`; how it is carried to its
settlement, `driver.py`; what is stored and told, `narrator.py`; what runs ask, `run_hooks.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, final

from msgspec import UNSET, UnsetType, structs

from antiphon.agent.agent import Agent
from antiphon.agent.view import AgentState
from antiphon.core.calls import Outcome
from antiphon.core.content import Content, Image, ToolCall
from antiphon.core.events import AgentEnd, AgentEvent
from antiphon.core.hooks import AfterOverride, AfterToolCall, Context
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, user
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.policy import RunLimits
from antiphon.core.ports import AbortSignal, OnUpdate, Tool
from antiphon.core.queues import QueueMode
from antiphon.core.session_events import CompactionResult, SessionInfoChanged
from antiphon.core.transcript import Transcript
from antiphon.core.usage import add_usage
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.errors import ConfigurationError, WouldDeadlock
from antiphon.loop.abort import AbortController
from antiphon.loop.tool_call import run_tool_call
from antiphon.session import phases
from antiphon.session.approvals import Approval, Approvals, Approver
from antiphon.session.budget import Budget, BudgetKeeper
from antiphon.session.choices import Choices, Direction, ModelCycle, Persist, ScopedModel
from antiphon.session.compactor import Compactor, Summarizer
from antiphon.session.conversation import Conversation
from antiphon.session.driver import Driver
from antiphon.session.hooks import SessionHooks
from antiphon.session.inbox import Ask, DeliverAs, Given, Inbox, WhenIdle
from antiphon.session.listeners import SessionListener
from antiphon.session.narrator import Narrator
from antiphon.session.navigation import Navigation, Navigator, Wish
from antiphon.session.nested_calls import NestedCalls, ToolCalls
from antiphon.session.open_batch import OpenBatch
from antiphon.session.ports import Resources, Source, StreamingBehavior
from antiphon.session.prompt_writer import PromptWriter
from antiphon.session.queue_view import ClearedQueue, QueueView
from antiphon.session.recorder import Recorder
from antiphon.session.refusals import CompactionInProgress, SessionBusy, SessionDisposed
from antiphon.session.run_hooks import RunHooks
from antiphon.session.settings import SessionSettings
from antiphon.session.settlement import Disposition, Settlement, Submission
from antiphon.session.statistics import (
    ForkPoint,
    SessionStats,
    Statistics,
    UsageOfContext,
    context_usage_of,
    fork_points,
    last_answer_text,
)
from antiphon.session.tool_registry import ToolInfo, ToolRegistry, ToolSource
from antiphon.session.user_shell import BashResult, UserShell
from antiphon.session_log.log import SessionLog
from antiphon.tools.port import Workspace


@final
class AgentSession:
    """One conversation: written down while it happens, repeated when it fails, shortened when it grows too long.

    Made by `create_agent_session`. Close it with `dispose`, or use it in an `async with`.
    """

    def __init__(
        self,
        conversation: Conversation,
        registry: ToolRegistry,
        *,
        scoped_models: Sequence[ScopedModel] = (),
        persist: Persist | None = None,
        workspace: Workspace | None = None,
        limits: RunLimits | None = None,
        budget: Budget | None = None,
        approve: Approver | None = None,
    ) -> None:
        c = self._c = conversation
        self._registry = registry
        self._statistics = Statistics(c.log)
        self._narrator = Narrator(c, Recorder(c.log), QueueView())
        summarizer = Summarizer(c)
        self._compactor = Compactor(c, summarizer)
        self._navigator = Navigator(c, summarizer)
        self._choices = Choices(c, scoped_models, persist)
        self._prompt = PromptWriter(c.cwd)
        self._run_hooks = RunHooks(c, registry, self._prompt, self._compactor)
        self._budget = BudgetKeeper(c, limits)
        self._approvals = Approvals(c, registry, approve)
        self._nested = NestedCalls(
            self._perform_nested,
            c.emit,
            find=registry.find,
            sequential=lambda: c.agent.tool_execution == "sequential",
        )
        self._open_batch = OpenBatch(c, self._approvals, self._narrator.recorder, self._perform_open)
        driver = Driver(c, self._narrator, self._compactor)
        self._inbox = Inbox(
            c,
            driver,
            self._narrator,
            self._run_hooks,
            registry,
            self._choices,
            self._budget,
            self._approvals,
            self._open_batch,
        )
        self.shell = UserShell(c, workspace, self._inbox.keep_shell_result)
        self._summary: AbortController | None = None
        self._has_moved = False
        self._suspends = False
        self._plug_together(driver, approve)
        if budget is not None:
            self.set_budget(budget)

    def _plug_together(self, driver: Driver, approve: Approver | None) -> None:
        """Who asks whom."""
        c, narrator, run_hooks = self._c, self._narrator, self._run_hooks
        driver.before_run = self._before_run
        driver.after_run = self._budget.after_run
        driver.prompt_patch = run_hooks.prompt_patch
        narrator.on_stored = self._budget.count
        narrator.amend = self._amended
        narrator.recorder.withheld = self._is_withheld
        run_hooks.notices = self._budget.notices
        if approve is not None:
            run_hooks.gate = self._approvals.gate
        self._registry.bind = self._bound
        self._leave = (
            c.agent.subscribe(narrator.store, critical=True),
            c.agent.subscribe(narrator.tell),
            c.agent.subscribe(self._run_over),
        )

    def _before_run(self) -> None:
        """The agent gets its limits, tools and hooks as they are now.

        Raises:
            LimitStillReached: the budget is used up.
        """
        self._budget.before_run()
        self._run_hooks.is_stuck = self._budget.is_stuck if self._budget.watches_progress else None
        self._run_hooks.install()

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The agent underneath. Prompt the session, not the agent."""
        return self._c.agent

    @property
    def log(self) -> SessionLog:
        return self._c.log

    @property
    def cwd(self) -> str:
        return self._c.cwd

    @property
    def settings(self) -> SessionSettings:
        return self._c.settings

    @property
    def resources(self) -> Resources:
        return self._c.resources

    @property
    def hooks(self) -> SessionHooks:
        """What extensions want to be asked. Others may be set; they count from the next question on."""
        return self._c.hooks

    @hooks.setter
    def hooks(self, hooks: SessionHooks) -> None:
        self._c.hooks = hooks

    @property
    def phase(self) -> phases.PhaseName:
        return self._c.phase.name

    @property
    def is_streaming(self) -> bool:
        """Is a prompt being worked on? Also while it waits for a retry."""
        return self._c.life is not None and not self._c.is_in(phases.Settling)

    @property
    def is_idle(self) -> bool:
        """Does nothing go on?"""
        return self._c.is_in(phases.Idle, phases.Settling, phases.Disposed)

    @property
    def is_compacting(self) -> bool:
        return self._c.is_in(phases.Compacting, phases.Summarizing)

    @property
    def is_retrying(self) -> bool:
        return self._c.is_in(phases.RetryWait)

    @property
    def retry_attempt(self) -> int:
        life = self._c.life
        return 0 if life is None else life.attempt

    @property
    def is_bash_running(self) -> bool:
        return self.shell.is_running

    @property
    def messages(self) -> Transcript:
        return self._c.agent.messages

    @property
    def state(self) -> AgentState:
        return self._c.agent.state

    @property
    def model(self) -> Model | None:
        return self._c.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._c.agent.thinking_level

    @property
    def system_prompt(self) -> str:
        """The prompt that is in force, as the model was told it."""
        return self._c.log.messages().system.prompt

    @property
    def session_id(self) -> str:
        return self._c.log.session_id

    @property
    def session_file(self) -> str | None:
        path = self._c.log.path
        return None if path is None else str(path)

    @property
    def session_name(self) -> str | None:
        return self._c.log.name

    @property
    def pending_message_count(self) -> int:
        return len(self._narrator.queue)

    @property
    def has_queued_messages(self) -> bool:
        """Does anything wait, messages of extensions included?"""
        return self._c.agent.has_queued_messages

    def subscribe(self, listener: SessionListener, *, barrier: bool = True, capacity: int = 1000) -> Callable[[], None]:
        """Be told every event, after it has been stored. Gives the way out.

        With a `barrier` the conversation waits for the listener; without, events wait for it in a queue of `capacity`.
        """
        return self._c.listeners.subscribe(listener, barrier=barrier, capacity=capacity)

    # -- input ----------------------------------------------------------------------------------------------------

    def submit(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        streaming_behavior: StreamingBehavior | None = None,
        source: Source = "interactive",
        expand: bool = True,
        when_idle: WhenIdle = "start",
        commands: bool = True,
    ) -> Submission:
        """Hand in a prompt. When this returns it is accepted, queued or refused; the rest goes on by itself.

        `commands` false: a command of an extension is refused instead of run.
        """
        return self._inbox.submit(
            Ask(
                given=given,
                images=tuple(images),
                behavior=streaming_behavior,
                source=source,
                expand=expand,
                when_idle=when_idle,
                commands=commands,
            )
        )

    async def prompt(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        streaming_behavior: StreamingBehavior | None = None,
        source: Source = "interactive",
        expand: bool = True,
    ) -> Settlement:
        """Say something; returns when the conversation has settled. A queued message returns at once.

        Raises:
            SessionBusy: a run is active and no streaming behaviour was given.
            CompactionInProgress: the context is being rewritten.
            NoModel, NoCredentials: there is nobody to ask.
            LimitStillReached: the budget is used up.
            SessionError: the log cannot be written.
        """
        return await self._inbox.prompt(
            Ask(given=given, images=tuple(images), behavior=streaming_behavior, source=source, expand=expand)
        )

    async def steer(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        source: Source = "interactive",
        when_idle: WhenIdle = "start",
    ) -> Disposition:
        """Change direction at the next turn boundary. When idle it starts a run, or (`queue`) waits for the next."""
        asked = self.submit(
            given, images, streaming_behavior="steer", source=source, when_idle=when_idle, commands=False
        )
        return await asked.accepted()

    async def follow_up(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        source: Source = "interactive",
        when_idle: WhenIdle = "start",
    ) -> Disposition:
        """Say something when the work would end. When idle it starts a run, or (`queue`) waits for the next."""
        asked = self.submit(
            given, images, streaming_behavior="followUp", source=source, when_idle=when_idle, commands=False
        )
        return await asked.accepted()

    async def send_user_message(
        self, content: str | Content, *, deliver_as: StreamingBehavior | None = None, expand: bool = False
    ) -> Disposition:
        """The same as a prompt, from a program: nothing is expanded unless asked for."""
        if isinstance(content, str):
            asked = self.submit(content, streaming_behavior=deliver_as, source="extension", expand=expand)
        else:
            message = user(content, self._c.clock.now_ms())
            asked = self.submit(message, streaming_behavior=deliver_as, source="extension", expand=False)
        return await asked.accepted()

    async def send_custom_message(
        self,
        custom_type: str,
        content: str | Content,
        *,
        display: bool = True,
        details: Any | UnsetType = UNSET,
        trigger_turn: bool | None = None,
        deliver_as: DeliverAs | None = None,
    ) -> None:
        """A message of an extension, which the model reads as the user's."""
        await self._inbox.note(
            custom_type,
            content,
            display=display,
            details=details,
            trigger_turn=trigger_turn,
            deliver_as=deliver_as,
        )

    async def continue_(self) -> Settlement:
        """Go on without a new message: after answered approvals, a raised budget, a failure, or with what is queued.

        Raises:
            SessionBusy, ApprovalsPending, NothingToContinue, CannotContinue, LimitStillReached: why not.
        """
        return await self._inbox.go_on()

    def clear_queue(self) -> ClearedQueue:
        """Take back what waits; gives the texts."""
        return self._inbox.clear_queue()

    def get_steering_messages(self) -> tuple[str, ...]:
        return self._narrator.queue.texts("steering")

    def get_follow_up_messages(self) -> tuple[str, ...]:
        return self._narrator.queue.texts("followUp")

    # -- stopping -------------------------------------------------------------------------------------------------

    def request_abort(self, reason: str | None = None) -> None:
        """Stop whatever goes on: a request, tools, the wait for a retry, a compaction. Returns at once."""
        c = self._c
        why = reason or "aborted"
        c.send(phases.Abort(why))
        c.work.abort(why)
        c.agent.abort(why)

    async def abort(self, reason: str | None = None) -> None:
        """The same; returns when the conversation has settled. Queued messages stay queued."""
        self.request_abort(reason)
        if not self._c.listeners.calls_this_task:
            await self._c.idle()

    def abort_retry(self) -> None:
        """End the wait for a retry, and the prompt with it."""
        if self.is_retrying:
            self.request_abort("retry cancelled")

    def abort_compaction(self) -> None:
        if self._c.is_in(phases.Compacting):
            self._c.work.abort("compaction cancelled")

    def abort_branch_summary(self) -> None:
        if self._c.is_in(phases.Summarizing):
            self._c.work.abort("summary cancelled")

    async def wait_for_idle(self) -> None:
        """Returns when nothing goes on.

        Raises:
            WouldDeadlock: awaited by a listener that the conversation waits for.
        """
        if self._c.listeners.calls_this_task:
            raise WouldDeadlock("the conversation cannot settle before the listener that waits for it; make it a task")
        await self._c.idle()

    async def suspend(self) -> None:
        """Stop in front of calls that wait for approval, and leave them open: they can be answered later."""
        self._suspends = bool(self._approvals.pending)
        try:
            await self.abort("suspended")
        finally:
            self._suspends = False

    def _is_withheld(self, message: Message) -> bool:
        """A call that was not begun because of a suspension keeps its place in the log without a result."""
        if not self._suspends or type(message) is not ToolResultMessage or not isinstance(message.details, dict):
            return False
        return message.details.get("skipped") is True and message.details.get("reason") == "aborted"

    # -- model and thinking ---------------------------------------------------------------------------------------

    def set_model(
        self, model: Model | str, *, persist: bool = False, source: Literal["set", "extension"] = "set"
    ) -> None:
        """Ask another model from the next request on; a text names it as `provider/id`.

        Raises:
            ConfigurationError: there is no such model, or no key for it.
        """
        if isinstance(model, str):
            provider, _, model_id = model.partition("/")
            known = self._c.models.find(provider, model_id)
            if known is None:
                raise ConfigurationError(f"Model not found: {model}")
            model = known
        self._choices.set_model(model, persist=persist, source=source)

    def cycle_model(self, direction: Direction = "forward", *, persist: bool = False) -> ModelCycle | None:
        """The next model of the scope, or of all usable ones; nothing if there is no other."""
        return self._choices.cycle_model(direction, persist=persist)

    @property
    def scoped_models(self) -> tuple[ScopedModel, ...]:
        return self._choices.scoped

    def set_scoped_models(self, models: Sequence[ScopedModel]) -> None:
        self._choices.scoped = tuple(models)

    def get_available_models(self) -> tuple[Model, ...]:
        return tuple(self._c.models.available())

    def set_thinking_level(self, level: str, *, persist: bool = False) -> None:
        """Think this hard from the next request on, or as nearly so as the model can."""
        self._choices.set_level(level, persist=persist)

    def cycle_thinking_level(self) -> ThinkingLevel | None:
        """The next level; nothing if the model has only one."""
        return self._choices.cycle_level()

    def get_available_thinking_levels(self) -> tuple[ThinkingLevel, ...]:
        return self._choices.levels

    @property
    def supports_thinking(self) -> bool:
        return len(self._choices.levels) > 1

    # -- settings of this session ---------------------------------------------------------------------------------

    @property
    def steering_mode(self) -> QueueMode:
        return self._c.agent.steering_mode

    def set_steering_mode(self, mode: QueueMode, *, persist: bool = False) -> None:
        self._persisted("steeringMode", mode, persist=persist)
        self._c.agent.steering_mode = mode

    @property
    def follow_up_mode(self) -> QueueMode:
        return self._c.agent.follow_up_mode

    def set_follow_up_mode(self, mode: QueueMode, *, persist: bool = False) -> None:
        self._persisted("followUpMode", mode, persist=persist)
        self._c.agent.follow_up_mode = mode

    @property
    def auto_retry_enabled(self) -> bool:
        return self._c.settings.retry.enabled

    def set_auto_retry_enabled(self, enabled: bool, *, persist: bool = False) -> None:
        self._persisted("retry.enabled", enabled, persist=persist)
        self._c.settings = self._c.settings.with_retry(enabled=enabled)

    @property
    def auto_compaction_enabled(self) -> bool:
        return self._c.settings.compaction.enabled

    def set_auto_compaction_enabled(self, enabled: bool, *, persist: bool = False) -> None:
        self._persisted("compaction.enabled", enabled, persist=persist)
        self._c.settings = self._c.settings.with_compaction(enabled=enabled)

    def _persisted(self, key: str, value: Any, *, persist: bool) -> None:
        if persist:
            self._choices.saver()(key, value)

    # -- tools ----------------------------------------------------------------------------------------------------

    def get_active_tool_names(self) -> tuple[str, ...]:
        return self._registry.active_names

    def set_active_tools_by_name(self, names: Sequence[str]) -> tuple[str, ...]:
        """Declare exactly these from the next request on; gives the names that nobody knows."""
        return self._registry.set_active(names)

    def get_callable_tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._registry.callable_tools())

    def get_all_tools(self) -> tuple[ToolInfo, ...]:
        return self._registry.infos()

    def get_tool_definition(self, name: str) -> Tool | None:
        return self._registry.find(name)

    def register_tool(self, tool: Tool, source: ToolSource = "sdk") -> None:
        """Add a tool, or replace the one of that name; the model is told before its next request."""
        self._registry.register(tool, source)

    def unregister_tool(self, name: str) -> None:
        self._registry.unregister(name)

    def set_prompt_section(self, name: str, text: str | None) -> None:
        """Add a section to the prompt, change it, or (None) take it away; the model is told before its next request."""
        self._prompt.set_section(name, text)

    def _bound(self, tool: Tool) -> Tool:
        """A tool that wants to call others, to find them, or to know its session gets the means to."""
        using_calls = getattr(tool, "using_calls", None)
        if using_calls is not None:
            self._run_hooks.override = self._with_nested_usage
            tool = using_calls(ToolCalls(self._nested, self._registry.callable_tools))
        using_registry = getattr(tool, "using_registry", None)
        if using_registry is not None:
            tool = using_registry(self._registry.searchable, self._registry.activate)
        using_session = getattr(tool, "using_session", None)
        bound: Tool = tool if using_session is None else using_session(self)
        return bound

    async def _perform_nested(self, call: ToolCall, signal: AbortSignal | None, on_update: OnUpdate) -> Outcome:
        """One call of a tool, through the pipeline of all calls."""
        c = self._c
        return await run_tool_call(
            call,
            tools=self._registry.callable_tools(),
            assistant_message=c.last_answer() or _NO_ANSWER,
            context=Context(c.agent.messages, c.agent.tools),
            signal=c.agent.signal if signal is None else signal,
            before_tool_call=c.agent.before_tool_call,
            after_tool_call=c.agent.after_tool_call,
            on_update=on_update,
            policy=c.agent.policy,
            clock=c.clock,
        )

    async def _perform_open(self, call: ToolCall, signal: AbortSignal) -> Outcome:
        """One call that an earlier process has left open, and that a person has judged already."""
        c = self._c
        return await run_tool_call(
            call,
            tools=self._registry.declared(),
            assistant_message=c.last_answer() or _NO_ANSWER,
            context=Context(c.agent.messages, c.agent.tools),
            signal=signal,
            before_tool_call=c.hooks.tool_call,
            after_tool_call=c.hooks.tool_result,
            policy=c.agent.policy,
            clock=c.clock,
        )

    def _with_nested_usage(self, call: AfterToolCall) -> AfterOverride | None:
        """What the calls of a tool have used is part of its own result."""
        nested = self._nested.usage(call.tool_call.id)
        if nested is None:
            return None
        own = call.result.usage
        return AfterOverride(usage=nested if own is UNSET else add_usage(own, nested))

    def _amended(self, message: ToolResultMessage) -> ToolResultMessage:
        """A result with the record of the calls that its tool has made."""
        taken = self._nested.take(message.tool_call_id)
        if taken is None:
            return message
        record, usage = taken
        total = message.usage
        if usage is not None:
            total = usage if total is UNSET else add_usage(total, usage)
        return structs.replace(message, nested_calls=record, usage=total)

    def _run_over(self, event: AgentEvent, _signal: AbortSignal) -> None:
        if type(event) is AgentEnd:
            self._nested.clear()
            self._approvals.run_ended()

    # -- context --------------------------------------------------------------------------------------------------

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace what was said long ago by a summary. A run is aborted first, and not continued.

        Raises:
            NothingToCompact, AlreadyCompacted: there is nothing to do.
            CompactionFailed, CompactionAborted: it was not done.
        """
        c = self._c
        while not c.is_in(phases.Idle, phases.Disposed):
            self.request_abort("compaction requested")
            await self.wait_for_idle()
        if c.is_in(phases.Disposed):
            raise SessionDisposed
        c.send(phases.CompactionBegan())
        c.work = AbortController()
        done: phases.CompactionOutcome = "failed"
        try:
            result = await self._compactor.on_request(instructions, c.work.signal)
            done = "done"
        finally:
            c.refresh()
            c.send(phases.Compacted(done))
        if result.usage is not UNSET:
            self._budget.charge(result.usage)
        await c.told()
        return result

    async def navigate_tree(
        self,
        target_id: str,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Navigation:
        """Go to another place in the tree: before a message that somebody wrote, behind anything else.

        Raises:
            SessionBusy: a run is active.
            NoSuchEntry, SummaryRefused: why not; nothing has moved.
        """
        c = self._c
        if not c.is_in(phases.Idle):
            busy = SessionBusy("Wait for the run to end, or abort it, before going to another place.")
            raise CompactionInProgress("the context is rewritten") if c.life is None else busy
        c.send(phases.SummaryBegan())
        c.work = AbortController()
        try:
            wish = Wish(
                target_id=target_id,
                summarize=summarize,
                instructions=custom_instructions,
                replace_instructions=replace_instructions,
                label=label,
            )
            navigation = await self._navigator.go(wish, c.work.signal)
        finally:
            c.send(phases.SummaryEnded())
        if not navigation.cancelled:
            self._moved()
        await c.told()
        return navigation

    def _moved(self) -> None:
        """What depends on the branch is read again."""
        c = self._c
        self._has_moved = True
        self._choices.forget_branch()
        c.refresh()
        self._registry.restore([tool.name for tool in c.log.messages().system.tools])
        self._approvals.run_ended()

    def get_context_usage(self) -> UsageOfContext | None:
        """How full the context is; nothing without a model whose window is known."""
        return context_usage_of(self._c.log, self._c.model)

    def get_session_stats(self) -> SessionStats:
        """Counts and costs over the whole log."""
        return self._statistics.stats(self._c.model)

    def get_last_assistant_text(self) -> str | None:
        return last_answer_text(self._c.log)

    def get_user_messages_for_forking(self) -> tuple[ForkPoint, ...]:
        return fork_points(self._c.log)

    def refresh_context(self, resources: Resources) -> None:
        """Other texts for the prompt, skills and templates; the model is told before its next request."""
        self._c.resources = resources

    def export_to_html(self, path: str) -> None:
        """Write the conversation as a page to read."""
        from antiphon.session_log.export import session_html

        Path(path).write_text(session_html(self._c.log), encoding="utf-8")

    # -- shell, names ---------------------------------------------------------------------------------------------

    async def execute_bash(
        self,
        command: str,
        *,
        exclude_from_context: bool = False,
        id: JsonValue | UnsetType = UNSET,  # noqa: A002 - the name on the wire
        on_chunk: Callable[[str], None] | None = None,
    ) -> BashResult:
        """Run a command of the user; its result becomes a message, after the settlement if a run is active."""
        return await self.shell.execute(command, exclude_from_context=exclude_from_context, id=id, on_chunk=on_chunk)

    def record_bash_result(self, command: str, result: BashResult, *, exclude_from_context: bool = False) -> None:
        self.shell.record(command, result, exclude_from_context=exclude_from_context)

    def abort_bash(self) -> None:
        self.shell.abort()

    def set_session_name(self, name: str) -> None:
        """Name the conversation.

        Raises:
            ConfigurationError: there is nothing in the name.
        """
        if not name.strip():
            raise ConfigurationError("Session name cannot be empty")
        self._c.log.set_name(name)
        known = self._c.log.name
        self._c.emit(SessionInfoChanged(name=UNSET if known is None else known))

    def append_entry(self, custom_type: str, data: Any) -> str:
        """Keep state of an extension in the log, where no model sees it; the id of the entry."""
        entry_id = self._c.log.append_custom(custom_type, data)
        self._c.entry_appended(entry_id)
        return entry_id

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Name an entry, or (None) take its name away."""
        self._c.log.set_label(entry_id, label)

    # -- approvals and budget -------------------------------------------------------------------------------------

    @property
    def pending_approvals(self) -> tuple[Approval, ...]:
        """Calls that wait for a person, also those that an earlier process has left."""
        return self._approvals.pending

    def answer_approval(
        self, approval_id: str, approved: bool, *, args: JsonObject | None = None, reason: str | None = None
    ) -> None:
        """Say yes or no. `args`: run the call with these instead; `reason` is what the model reads of a refusal.

        Raises:
            NoSuchApproval: it is not pending.
            ConfigurationError: the edited arguments do not fit; it stays pending.
        """
        self._approvals.answer(approval_id, approved, args=args, reason=reason)

    @property
    def budget(self) -> Budget | None:
        return self._budget.budget

    @property
    def budget_keeper(self) -> BudgetKeeper:
        """For those to whom a part of the budget is handed on."""
        return self._budget

    def set_budget(self, budget: Budget | None) -> None:
        """Another budget from the next run on. Raise it, then `continue_`, after work was stopped."""
        self._budget.set(budget, self._statistics.totals())

    def begin_log(self, *, resumed: bool = False) -> None:
        """Write model and level into a new log; into one that somebody goes on with (`resumed`), what it lacks."""
        if resumed or not self._c.log.entry_count:
            self._choices.record()

    def report(self, what: str, error: BaseException, function: Callable[..., Any] | None = None) -> None:
        """Tell listeners that foreign code failed."""
        self._c.report(what, error, function)

    # -- life -----------------------------------------------------------------------------------------------------

    async def dispose(self) -> None:
        """Abort what goes on, write what is left, let go of the file. Always succeeds; a second call does nothing."""
        c = self._c
        if c.is_in(phases.Disposed):
            return
        self._suspends = bool(self._approvals.pending)
        self.request_abort("disposed")
        self.shell.abort()
        if not c.listeners.calls_this_task:
            await c.idle()
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """Let go of everything now, without waiting. Prefer `dispose` while something goes on."""
        c = self._c
        if c.is_in(phases.Disposed):
            return
        c.send(phases.Dispose())
        c.agent.abort("disposed")
        for leave in self._leave:
            leave()
        c.listeners.clear()
        with suppress(Exception):
            if self._has_moved and c.log.saved:
                c.log.move_to(c.log.leaf_id)  # so that whoever reopens it stands where the user stood
        with suppress(Exception):
            c.log.close()

    async def __aenter__(self) -> AgentSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispose()

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id}, {self.phase}>"


_NO_ANSWER = AssistantMessage(content=(), stop_reason="stop")

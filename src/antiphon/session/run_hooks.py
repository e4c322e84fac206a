"""What a session answers when a run asks: its log is the context, its choices are the model, its rules guard the calls.

The log is the authority: before every request the messages are what the log says, so compactions, edits and notes that
came in between count at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from msgspec import UNSET

from antiphon.core.content import ToolCall
from antiphon.core.hooks import (
    AfterOverride,
    AfterToolCall,
    BeforeDecision,
    BeforeToolCall,
    Context,
    NextTurn,
    RequestInfo,
    RequestUpdate,
    Turn,
    TurnDecision,
    position_of,
)
from antiphon.core.messages import AssistantMessage, Message, SystemMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.transcript import Transcript
from antiphon.loop.arguments import ArgumentsRefused, check_arguments
from antiphon.session import phases
from antiphon.session.boundary import store_drafts
from antiphon.session.compactor import Compactor
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import BoundaryAnswer, TurnGiven
from antiphon.session.model_context import ModelContext, with_prompt
from antiphon.session.prompt_writer import PromptWriter, patch_message
from antiphon.session.tool_registry import ToolRegistry
from antiphon.session_log.compaction.when import over_threshold

Gate = Callable[[BeforeToolCall, AbortSignal], Any]


@final
class RunHooks:
    """The hooks of one conversation. `install` gives them to its agent, as many as are needed."""

    def __init__(
        self, conversation: Conversation, registry: ToolRegistry, prompt: PromptWriter, compactor: Compactor
    ) -> None:
        self._c = conversation
        self._registry = registry
        self._prompt = prompt
        self._compactor = compactor
        self._context = ModelContext()
        self.forced_prompt: str | None = None
        """Sent in place of the prompt, for one run, and not stored."""
        self.section_edits: dict[str, str | None] = {}
        """What extensions have changed in the sections, for one run."""
        self.gate: Gate | None = None
        """Asked about every call that extensions let pass."""
        self.is_held_up: Callable[[BeforeToolCall], bool] = _never_held_up
        """Does a call that was let pass wait for another one of its answer?"""
        self._starting_of: AssistantMessage | None = None
        self._starting: list[tuple[ToolCall, int]] = []
        self.notices: Callable[[], Sequence[Message]] = _no_messages
        """What the model has to be told before a further turn."""
        self.is_stuck: Callable[[], bool] | None = None
        """Does the work get nowhere? Asked behind the results of a turn; none: nobody wants to know."""
        self.override: Callable[[AfterToolCall], AfterOverride | None] = _no_override
        """What is to be changed in a result besides what extensions want."""

    def install(self) -> None:
        """Before every run: the agent asks exactly those hooks that have something to say."""
        agent, hooks = self._c.agent, self._c.hooks
        self._context.block_images = self._c.settings.block_images
        agent.tools = self._registry.declared()
        self._context.hidden = self._registry.hidden
        agent.convert_to_llm = self._context
        agent.get_api_key = self._c.models.api_key
        agent.prepare_request = self.prepare_request
        agent.prepare_next_turn = self.prepare_next_turn
        agent.finish_turn = self.finish_turn if hooks.turn_end or self.is_stuck else None
        rewrites = hooks.context or hooks.context_with_system or self.forced_prompt
        agent.transform_context = self.transform_context if rewrites else None
        agent.before_tool_call = self.before_tool_call
        agent.after_tool_call = self.after_tool_call if hooks.tool_result or self.override is not _no_override else None

    # -- requests -------------------------------------------------------------------------------------------------

    def prepare_request(self, info: RequestInfo, _signal: AbortSignal) -> RequestUpdate:
        """The log is the context, the choices of the moment are model and level."""
        c = self._c
        messages = c.log.messages()
        _ = messages.system
        return RequestUpdate(
            context=Context(messages, info.context.tools), model=c.model, thinking_level=c.agent.thinking_level
        )

    async def transform_context(self, messages: Sequence[Message], _signal: AbortSignal) -> Sequence[Message]:
        """Extensions may change what is sent; then a prompt that was forced takes the place of the stored one."""
        c = self._c
        state = messages.system if isinstance(messages, Transcript) else Transcript(messages).system
        if c.hooks.context is not None:
            talk = [message for message in messages if type(message) is not SystemMessage]
            given = await self._asked("context", c.hooks.context, tuple(talk))
            if given is not None:
                first = state.as_message()
                messages = [*([] if first is None else [first]), *given]
        if c.hooks.context_with_system is not None:
            given = await self._asked("context_with_system", c.hooks.context_with_system, tuple(messages))
            if given is not None:
                messages = list(given)
        return messages if self.forced_prompt is None else with_prompt(messages, self.forced_prompt, state)

    async def _asked(self, name: str, hook: Callable[[Any], Any], given: Any) -> Any:
        """What a hook answers; nothing if it fails, which is reported."""
        try:
            answer = hook(given)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the border to extensions
            self._c.report(name, error, hook)
            return None

    # -- between turns --------------------------------------------------------------------------------------------

    async def finish_turn(self, turn: Turn, _signal: AbortSignal) -> TurnDecision:
        """Work that gets nowhere ends here; extensions may store entries and ask for more."""
        c = self._c
        if self.is_stuck is not None and turn.tool_results and self.is_stuck():
            return "end"
        if c.hooks.turn_end is None:
            return None
        given = TurnGiven(turn.message, turn.tool_results, c.log.leaf_id)
        answer = await self._asked("turn_end", c.hooks.turn_end, given)
        if not isinstance(answer, BoundaryAnswer):
            return None
        stored = not answer.entries or store_drafts(c, answer.entries)
        return "continue" if answer.go_on and stored else None

    async def prepare_next_turn(self, _turn: Turn, signal: AbortSignal) -> NextTurn:
        """Compact if it is time to; then tools, prompt and notices as they are now."""
        c = self._c
        await self._compact_if_full(signal)
        messages: list[Message] = list(self.notices())
        patch = self.prompt_patch()
        if patch is not None:
            messages.insert(0, patch)
        log = c.log.messages()
        _ = log.system
        return NextTurn(
            messages=messages,
            context=Context(log, self._registry.declared()),
            model=c.model,
            thinking_level=c.agent.thinking_level,
        )

    async def _compact_if_full(self, signal: AbortSignal) -> None:
        c = self._c
        settings = c.settings.compaction_for(c.model)
        if not c.is_in(phases.Running) or signal.aborted:
            return
        if not over_threshold(c.log.context_tokens().tokens, c.context_window, settings):
            return
        c.send(phases.CompactionBegan())
        unhook = signal.on_abort(lambda: c.work.abort(signal.reason))
        outcome: phases.CompactionOutcome = "failed"
        try:
            outcome = await self._compactor.by_itself("threshold", c.work.signal, will_retry=False)
        finally:
            unhook()
            if c.is_in(phases.Compacting):
                c.send(phases.Compacted(outcome))

    def prompt_patch(self) -> SystemMessage | None:
        """What the model has to be told of its prompt: all of it at first, later only what changed."""
        c = self._c
        return patch_message(c.log.messages().system.sections, self.sections(), c.clock.now_ms())

    def sections(self) -> Mapping[str, str]:
        """What the prompt should say now."""
        tools = self._registry.declared()
        self._context.hidden = self._registry.hidden
        wanted = self._prompt.wanted(self._c.resources, tools, self._registry.hidden)
        if not self.section_edits:
            return wanted
        edited = {**wanted, **self.section_edits}
        return {name: text for name, text in edited.items() if text is not None}

    # -- calls ----------------------------------------------------------------------------------------------------

    async def before_tool_call(self, call: BeforeToolCall, signal: AbortSignal) -> BeforeDecision | None:
        """Extensions first, then the gate; what passes both is recorded in the log before it starts.

        So after a crash it is known which calls may have run, and which cannot have.
        """
        decision = await self._judged(call, signal)
        if self._starting_of is not call.assistant_message:
            self._starting_of, self._starting = call.assistant_message, []
        position = position_of(call)
        if position is not None and (decision is None or not decision.block):
            self._starting.append((call.tool_call, position))
        if not signal.aborted and not self.is_held_up(call):
            self._record_starts()
        return decision

    def _record_starts(self) -> None:
        """The calls that start now; a batch that starts as a whole may have waited for a person."""
        for call, position in self._starting:
            once = getattr(self._registry.find(call.name), "replay", "never") != "safe"
            self._c.log.append_call_started(call, position, once=once)
        self._starting = []

    async def _judged(self, call: BeforeToolCall, signal: AbortSignal) -> BeforeDecision | None:
        """What extensions and the gate say. What an extension changed in the arguments is checked again."""
        hook = self._c.hooks.tool_call
        if hook is not None:
            before = repr(call.args)
            answer = hook(call, signal)
            decision = await answer if inspect.isawaitable(answer) else answer
            if decision is not None and decision.block:
                return decision
            if repr(call.args) != before:
                refused = self.recheck(call)
                if refused is not None:
                    return BeforeDecision(block=True, reason=refused)
        if self.gate is None:
            return None
        answer = self.gate(call, signal)
        passed: BeforeDecision | None = await answer if inspect.isawaitable(answer) else answer
        return passed

    def recheck(self, call: BeforeToolCall) -> str | None:
        """Bring changed arguments into the shape that the tool asks for; gives what is wrong with them."""
        tool = self._registry.find(call.tool_call.name)
        if tool is None:
            return f"Tool {call.tool_call.name} not found"
        changed = ToolCall(id=call.tool_call.id, name=call.tool_call.name, arguments=dict(call.args))
        try:
            checked = check_arguments(changed, tool.parameters)
        except ArgumentsRefused as refused:
            return str(refused)
        call.args.clear()
        call.args.update(checked)
        return None

    async def after_tool_call(self, call: AfterToolCall, signal: AbortSignal) -> AfterOverride | None:
        """What extensions and the session itself want changed in a result."""
        override = self.override(call)
        hook = self._c.hooks.tool_result
        if hook is None:
            return override
        try:
            answer = hook(call, signal)
            wished = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the border to extensions
            self._c.report("tool_result", error, hook)
            return override
        return merged(override, wished)


def merged(own: AfterOverride | None, wished: AfterOverride | None) -> AfterOverride | None:
    """Both changes; what an extension wishes wins."""
    if own is None or wished is None:
        return wished if own is None else own
    fields = {
        name: getattr(own, name) if getattr(wished, name) in (UNSET, None) else getattr(wished, name)
        for name in wished.__struct_fields__
    }
    return AfterOverride(**fields)


def _no_messages() -> Sequence[Message]:
    return ()


def _never_held_up(_call: BeforeToolCall) -> bool:
    return False


def _no_override(_call: AfterToolCall) -> AfterOverride | None:
    return None

"""The questions of the machine that hooks and polls answer: each a call across the border, giving the answer as input.

Where no hook is installed the answer is known at once and costs no task switch: these functions give an input, or a
coroutine of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeAlias

from antiphon.core import states as c
from antiphon.core.calls import Outcome
from antiphon.core.hooks import (
    BeforeHook,
    FinishTurn,
    NextTurn,
    PrepareNextTurn,
    PrepareRequest,
    RequestInfo,
    RequestUpdate,
)
from antiphon.core.messages import HostMessage, Message
from antiphon.core.ports import ModelRequest
from antiphon.core.transcript import Transcript
from antiphon.errors import WrongArgument
from antiphon.loop.boundary import Boundary
from antiphon.loop.given import as_answer, as_messages
from antiphon.loop.leash import Cut
from antiphon.loop.tool_call import Ready, ask_before, prepare

Answer: TypeAlias = c.Input | Coroutine[Any, Any, c.Input]

NOT_PREPARED = c.RequestPrepared(None)
LOOKED = c.Looked()


def drain(b: Boundary, command: c.Drain) -> Answer:
    """Take what waits in a queue."""
    steering = command.queue == "steering"
    poll = b.config.get_steering_messages if steering else b.config.get_follow_up_messages
    if poll is None:
        return c.Drained((), b.now())
    where = f"{command.queue} poll"
    try:
        messages = poll()
        if not messages:
            return c.Drained((), b.now())
        if isinstance(messages, list | tuple):
            return c.Drained(as_messages(messages, where), b.now())
    except BaseException as error:  # noqa: BLE001 - the border to foreign code
        return b.escaped(where, error)
    return _drained(b, where, messages)


async def _drained(b: Boundary, where: str, answer: Any) -> c.Input:
    messages = await b.ask(where, lambda: answer)
    if type(messages) is c.Fault:
        return messages
    try:
        return c.Drained(as_messages(messages or (), where), b.now())
    except TypeError as error:
        return b.failed(where, error)


def prepare_request(b: Boundary, command: c.PrepareRequest) -> Answer:
    hook = b.config.prepare_request
    return NOT_PREPARED if hook is None else _prepare_request(b, hook, command.run)


async def _prepare_request(b: Boundary, hook: PrepareRequest, run: c.Run) -> c.Input:
    update = await b.ask("prepare_request", hook, RequestInfo(run.context, run.model, run.thinking_level), b.signal)
    if type(update) is c.Fault:
        return update
    try:
        return c.RequestPrepared(as_answer(update, RequestUpdate, "prepare_request"))
    except TypeError as error:
        return b.failed("prepare_request", error)


def compose(b: Boundary, command: c.Compose) -> Answer:
    """Transform, convert, find the key: the request as the stream function will get it."""
    config = b.config
    if config.transform_context is None and config.convert_to_llm is None and config.get_api_key is None:
        run = command.run
        messages = for_model(run.transcript) if run.transcript.has_host_messages else run.transcript
        return c.Composed(_request(b, run, messages, None), b.now())
    return _compose(b, command.run)


async def _compose(b: Boundary, run: c.Run) -> c.Input:
    config = b.config
    messages: Any = run.transcript
    live: list[Message] | None = None
    if config.transform_context is not None:
        if b.policy.hook_messages == "live list":
            messages = live = list(run.transcript)
        messages = await b.ask("transform_context", config.transform_context, messages, b.signal)
        if not isinstance(messages, list | tuple | Transcript):
            return _unanswered(b, "transform_context", messages)
        if not isinstance(messages, Transcript):
            try:
                as_messages(messages, "transform_context")
            except WrongArgument as error:
                return b.failed("transform_context", error)
    if config.convert_to_llm is None:
        messages = for_model(messages)
    else:
        messages = await b.ask("convert_to_llm", config.convert_to_llm, messages)
        if not isinstance(messages, list | tuple | Transcript):
            return _unanswered(b, "convert_to_llm", messages)
    key = None
    if config.get_api_key is not None:
        key = await b.ask("get_api_key", config.get_api_key, run.model.provider)
        if type(key) is c.Fault:
            return key
        if key is not None and not isinstance(key, str):
            return b.failed("get_api_key", TypeError(f"get_api_key answered with a {type(key).__name__}, not a text"))
    return c.Composed(_request(b, run, messages, key), b.now(), _changed(run.transcript, live))


def _request(b: Boundary, run: c.Run, messages: Sequence[Message], key: str | None) -> ModelRequest:
    config = b.config
    return ModelRequest(
        model=run.model,
        messages=messages,
        thinking_level=run.thinking_level,
        signal=b.signal,
        api_key=key or config.api_key,
        session_id=config.session_id,
        options=config.options,
    )


def _unanswered(b: Boundary, where: str, given: Any) -> c.Input:
    """A conversion that failed, or gave no messages (after an abort it may have been cut)."""
    if type(given) is c.Fault:
        return given
    if given is None and b.signal.aborted:
        return b.fault(Cut("the request was not composed"))
    return b.failed(where, TypeError(f"{where} answered with a {type(given).__name__}, not with a list of messages"))


def for_model(messages: Sequence[Message]) -> Sequence[Message]:
    """Without messages of host roles. A transcript that has none is its own conversion."""
    if isinstance(messages, Transcript):
        if not messages.has_host_messages:
            return messages
    elif not any(type(message) is HostMessage for message in messages):
        return messages
    return [message for message in messages if type(message) is not HostMessage]


def _changed(transcript: Transcript, live: list[Message] | None) -> Transcript | None:
    """A live list that a hook has edited is the transcript from now on."""
    if live is None or (len(live) == len(transcript) and all(a is b for a, b in zip(live, transcript, strict=True))):
        return None
    return Transcript(live)


def preflight(b: Boundary, command: c.Preflight) -> Answer:
    """Check a call; an allowed one is kept in `b.ready` until it starts."""
    try:
        checked = prepare(command.call, command.run.toolbox, b.signal, b.policy)
    except BaseException as error:  # noqa: BLE001 - an exit of the process, out of the tool's own preparation
        return b.escaped("prepare_arguments", error)
    if isinstance(checked, Outcome):
        return c.Checked(checked, b.now())
    hook = b.config.before_tool_call
    if hook is not None:
        return _preflight(b, hook, command, checked)
    b.ready[command.position] = checked
    return c.Checked(None, b.now())


async def _preflight(b: Boundary, hook: BeforeHook, command: c.Preflight, ready: Ready) -> c.Input:
    context = command.run.context

    async def hold(answer: Awaitable[Any]) -> Any:
        try:
            return await b.leash.hold(answer)
        except Cut as cut:
            b.let_go("before_tool_call", cut)
            raise

    try:
        refusal = await ask_before(ready, hook, command.message, context, b.signal, b.policy, hold, _never)
    except BaseException as error:  # noqa: BLE001 - an exit of the process; everything else is a refusal already
        return b.escaped("before_tool_call", error)
    if refusal is None:
        b.ready[command.position] = ready
    return c.Checked(refusal, b.now())


def _never() -> bool:
    """On a leash, a `CancelledError` that comes out is the hook's own."""
    return False


def ask_decision(b: Boundary, command: c.AskDecision) -> Answer:
    hook = b.config.finish_turn
    return c.Decided(None, b.audience.queued(), 0) if hook is None else _ask_decision(b, hook, command)


async def _ask_decision(b: Boundary, hook: FinishTurn, command: c.AskDecision) -> c.Input:
    action = await b.ask("finish_turn", hook, command.turn, b.signal)
    return action if type(action) is c.Fault else c.Decided(action, b.audience.queued(), 0)


def look_again(_b: Boundary, _command: c.LookAgain) -> Answer:
    """No question to anybody: the events before it are told, and an abort is noticed before its answer."""
    return LOOKED


def prepare_next(b: Boundary, command: c.PrepareNext) -> Answer:
    hook = b.config.prepare_next_turn
    b.heeds = True  # while the hook thinks, messages that are meant for the turn may be cleared
    return c.Prepared(None, b.now()) if hook is None else _prepare_next(b, hook, command)


async def _prepare_next(b: Boundary, hook: PrepareNextTurn, command: c.PrepareNext) -> c.Input:
    update = await b.ask("prepare_next_turn", hook, command.turn, b.signal)
    if type(update) is c.Fault:
        return update
    try:
        wish = as_answer(update, NextTurn, "prepare_next_turn")
        if wish is not None:
            as_messages(wish.messages, "prepare_next_turn")
    except TypeError as error:
        return b.failed("prepare_next_turn", error)
    return c.Prepared(wish, b.now())

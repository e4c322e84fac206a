"""The questions of the machine that hooks and polls answer: each a call across the border, giving the answer as input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from antiphon.core import states as c
from antiphon.core.calls import Outcome
from antiphon.core.hooks import RequestInfo
from antiphon.core.messages import HostMessage, Message
from antiphon.core.ports import ModelRequest
from antiphon.core.transcript import Transcript
from antiphon.loop.boundary import Boundary
from antiphon.loop.leash import Cut
from antiphon.loop.tool_call import Ready, ask_before, prepare

NOT_PREPARED = c.RequestPrepared(None)
NOTHING_DRAINED = c.Drained((), 0)


async def drain(b: Boundary, command: c.Drain) -> c.Input:
    """Take what waits in a queue."""
    steering = command.queue == "steering"
    poll = b.config.get_steering_messages if steering else b.config.get_follow_up_messages
    if poll is None:
        return NOTHING_DRAINED
    messages = await b.ask(f"{command.queue} poll", poll)
    if type(messages) is c.Fault:
        return messages
    return c.Drained(tuple(messages or ()), b.now())


async def prepare_request(b: Boundary, command: c.PrepareRequest) -> c.Input:
    hook = b.config.prepare_request
    if hook is None:
        return NOT_PREPARED
    run = command.run
    update = await b.ask("prepare_request", hook, RequestInfo(run.context, run.model, run.thinking_level), b.signal)
    return update if type(update) is c.Fault else c.RequestPrepared(update)


async def compose(b: Boundary, command: c.Compose) -> c.Input:
    """Transform, convert, find the key: the request as the stream function will get it."""
    run, config = command.run, b.config
    messages: Sequence[Message] = run.transcript
    live: list[Message] | None = None
    if config.transform_context is not None:
        if b.policy.hook_messages == "live list":
            messages = live = list(run.transcript)
        messages = await b.ask("transform_context", config.transform_context, messages, b.signal)
        if messages is None or type(messages) is c.Fault:
            return _unanswered(b, messages)
    if config.convert_to_llm is None:
        messages = for_model(messages)
    else:
        messages = await b.ask("convert_to_llm", config.convert_to_llm, messages)
        if messages is None or type(messages) is c.Fault:
            return _unanswered(b, messages)
    key = None
    if config.get_api_key is not None:
        key = await b.ask("get_api_key", config.get_api_key, run.model.provider)
        if type(key) is c.Fault:
            return key
    request = ModelRequest(
        model=run.model,
        messages=messages,
        thinking_level=run.thinking_level,
        signal=b.signal,
        api_key=key or config.api_key,
        session_id=config.session_id,
        options=config.options,
    )
    return c.Composed(request, _changed(run.transcript, live))


def _unanswered(b: Boundary, given: Any) -> c.Input:
    """A conversion that failed, or gave no messages (after an abort it may have been cut)."""
    return given if type(given) is c.Fault else b.fault(Cut("the request was not composed"))


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


async def preflight(b: Boundary, command: c.Preflight, ready: dict[int, Ready]) -> c.Input:
    """Check a call; an allowed one is kept in `ready` until it starts."""
    run = command.run
    checked = prepare(command.call, run.toolbox, b.signal, b.policy)
    if isinstance(checked, Outcome):
        return c.Checked(checked, b.now())
    hook = b.config.before_tool_call
    if hook is not None:
        refusal = await ask_before(checked, hook, command.message, run.context, b.signal, b.policy, b.leash.hold)
        if refusal is not None:
            return c.Checked(refusal, b.now())
    ready[command.position] = checked
    return c.Checked(None, b.now())


async def ask_decision(b: Boundary, command: c.AskDecision) -> c.Input:
    hook = b.config.finish_turn
    action = None if hook is None else await b.ask("finish_turn", hook, command.turn, b.signal)
    return action if type(action) is c.Fault else c.Decided(action, b.audience.queued(), 0)


async def prepare_next(b: Boundary, command: c.PrepareNext) -> c.Input:
    hook = b.config.prepare_next_turn
    update: Any = None if hook is None else await b.ask("prepare_next_turn", hook, command.turn, b.signal)
    return cast("c.Fault", update) if type(update) is c.Fault else c.Prepared(update, b.now())

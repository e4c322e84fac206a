"""The tool calls of one answer: which is checked next, which may start, in which order results are told.

Three orders. Calls are announced and checked in call order. They end in order of completion, each end told at once.
Result messages come in call order: behind the last end in a parallel batch, each behind its own end otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from antiphon.core.calls import Outcome, SkipReason, result_message, skipped
from antiphon.core.content import ToolCall
from antiphon.core.events import MessageEnd, MessageStart, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from antiphon.core.growing import grown
from antiphon.core.limits import Tally, may_start, with_call, without_calls
from antiphon.core.messages import AssistantMessage, ToolResultMessage
from antiphon.core.policy import After
from antiphon.core.states import (
    Batch,
    Checked,
    Checking,
    Command,
    Executing,
    Fault,
    Finished,
    Preflight,
    Progress,
    Run,
    Settled,
    StartTool,
    State,
)

_NO_DOUBLES: frozenset[int] = frozenset()

Close = Callable[[Run, After, AssistantMessage, tuple[ToolResultMessage, ...], bool, list[Command]], State]
"""What follows when all calls are settled: run, plan, answer, results in call order, unanimous terminate, commands."""


def open_batch(message: AssistantMessage, calls: tuple[ToolCall, ...], run: Run) -> Batch:
    """A batch of which nothing has been looked at."""
    return Batch(
        message=message,
        calls=calls,
        one_by_one=len(calls) == 1 or _ordered(run, calls),
        doubles=refused_doubles(calls, run.rules.policy.duplicate_call_id),
        looked_at=0,
        running=0,
        reserved=run.tally,
        ready=grown(),
        settled=grown(),
    )


def _ordered(run: Run, calls: tuple[ToolCall, ...]) -> bool:
    return run.rules.tool_execution == "sequential" or any(run.toolbox.wants_order(call.name) for call in calls)


def refused_doubles(calls: tuple[ToolCall, ...], rule: str) -> frozenset[int]:
    """Positions to refuse because their id is not the only one of its kind."""
    if rule == "allow" or len(calls) < 2 or len({c.id for c in calls}) == len(calls):
        return _NO_DOUBLES
    positions: dict[str, list[int]] = {}
    for position, call in enumerate(calls):
        positions.setdefault(call.id, []).append(position)
    spared = 1 if rule == "error_second" else 0
    return frozenset(p for same in positions.values() if len(same) > 1 for p in same[spared:])


def look_at_next(run: Run, after: After, batch: Batch, at: int, commands: list[Command], close: Close) -> State:
    """Announce the next call and ask for its check. Calls refused without a check are settled on the way."""
    while batch.looked_at < len(batch.calls):
        position = batch.looked_at
        call = batch.calls[position]
        commands.append(_start_event(position, call))
        batch = structs.replace(batch, looked_at=position + 1)
        reason = _refused_at_once(run, batch, position, call)
        if reason == "limit":
            run, batch = _limited(run, batch, call.name)
        if reason is None:
            commands.append(Preflight(position, call, batch.message, run))
            return Checking(run, after, batch)
        batch = _settle(batch, position, _skip(run, call, reason), at, commands)
    return _start_ready(run, after, batch, at, commands, close)


def _limited(run: Run, batch: Batch, name: str) -> tuple[Run, Batch]:
    """A bound refused a call of this tool: the run will end at the boundary."""
    run = structs.replace(run, tally=structs.replace(run.tally, refused=name))
    return run, structs.replace(batch, reserved=structs.replace(batch.reserved, refused=name))


def _refused_at_once(run: Run, batch: Batch, position: int, call: ToolCall) -> SkipReason | None:
    if run.fault is not None:
        return "fault"
    if position in batch.doubles:
        return "duplicate-id"
    return None if may_start(run.rules.limits, batch.reserved, call.name) else "limit"


def call_checked(s: Checking, i: Checked, close: Close) -> tuple[State, list[Command]]:
    """A refused call ends at once. An allowed one starts: now if calls run one by one, else after all are checked."""
    run, batch, position = s.run, s.batch, s.batch.looked_at - 1
    commands: list[Command] = []
    if i.refusal is not None:
        batch = _settle(batch, position, i.refusal, i.at, commands)
        return look_at_next(run, s.after, batch, i.at, commands, close), commands
    reserved = with_call(run.rules.limits, batch.reserved, batch.calls[position].name)
    if batch.one_by_one:
        return _start(run, s.after, batch, (position,), reserved, i.at, commands, close)
    batch = structs.replace(batch, reserved=reserved, ready=batch.ready.append(position))
    return look_at_next(run, s.after, batch, i.at, commands, close), commands


def _start_ready(run: Run, after: After, batch: Batch, at: int, commands: list[Command], close: Close) -> State:
    if batch.ready.count == 0:
        return _closed(run, after, batch, commands, close)
    ready = batch.ready.tuple()
    batch = structs.replace(batch, ready=grown())
    return _start(run, after, batch, ready, batch.reserved, at, commands, close)[0]


def _start(
    run: Run,
    after: After,
    batch: Batch,
    positions: tuple[int, ...],
    tally: Tally,
    at: int,
    commands: list[Command],
    close: Close,
) -> tuple[State, list[Command]]:
    """Begin these calls, unless the run was stopped in the meantime: then each is answered instead."""
    if run.stopped is not None or run.fault is not None:
        reason: SkipReason = "aborted" if run.fault is None else "fault"
        batch = structs.replace(batch, reserved=run.tally)
        for position in positions:
            batch = _settle(batch, position, _skip(run, batch.calls[position], reason), at, commands)
        return look_at_next(run, after, batch, at, commands, close), commands
    commands += [StartTool(position, batch.calls[position]) for position in positions]
    run = structs.replace(run, tally=tally)
    return Executing(run, after, structs.replace(batch, reserved=tally, running=len(positions))), commands


def call_progressed(s: Executing, i: Progress) -> tuple[State, list[Command]]:
    """Pass progress on."""
    call = s.batch.calls[i.position]
    update = ToolExecutionUpdate(
        tool_call_id=call.id,
        tool_name=call.name,
        args=call.arguments,
        partial_result=i.partial_result,
        position=i.position,
    )
    return s, [update]


def call_finished(s: Executing, i: Finished, close: Close) -> tuple[State, list[Command]]:
    """A call that was begun is over."""
    commands: list[Command] = []
    batch = _settle(s.batch, i.position, i.outcome, i.at, commands, ended=1)
    if batch.running:
        return Executing(s.run, s.after, batch), commands
    if batch.looked_at == len(batch.calls):
        return _closed(s.run, s.after, batch, commands, close), commands
    return look_at_next(s.run, s.after, batch, i.at, commands, close), commands


def batch_faulted(s: Checking | Executing, i: Fault, close: Close) -> tuple[State, list[Command]]:
    """Begin nothing more, answer what was not begun, wait for what runs. The run ends behind the batch."""
    commands: list[Command] = []
    run, batch = structs.replace(s.run, fault=s.run.fault or i.text, struck=s.run.struck or i.critical), s.batch
    if isinstance(s, Checking):
        given_up = (*batch.ready, batch.looked_at - 1)
        batch = structs.replace(batch, ready=grown())
    else:
        given_up = i.withdrawn
        batch = structs.replace(batch, running=batch.running - len(given_up))
        names = [batch.calls[position].name for position in given_up]
        run = structs.replace(run, tally=without_calls(run.tally, names))
    for position in given_up:
        batch = _settle(batch, position, _skip(run, batch.calls[position], "fault"), i.at, commands)
    if batch.running:
        return Executing(run, s.after, batch), commands
    return look_at_next(run, s.after, batch, i.at, commands, close), commands


def refuse_all(
    run: Run, message: AssistantMessage, calls: tuple[ToolCall, ...], reason: SkipReason, at: int, out: list[Command]
) -> tuple[ToolResultMessage, ...]:
    """Answer every call without a look at it: start, end and result, one call after the other."""
    batch = Batch(
        message=message,
        calls=calls,
        one_by_one=True,
        doubles=_NO_DOUBLES,
        looked_at=len(calls),
        running=0,
        reserved=run.tally,
        ready=grown(),
        settled=grown(),
    )
    for position, call in enumerate(calls):
        out.append(_start_event(position, call))
        batch = _settle(batch, position, _skip(run, call, reason), at, out)
    return results_in_order(batch)


def _closed(run: Run, after: After, batch: Batch, commands: list[Command], close: Close) -> State:
    results = results_in_order(batch)
    if not batch.one_by_one:
        for result in results:
            commands += (MessageStart(message=result), MessageEnd(message=result))
    unanimous = all(settled.outcome.terminates for settled in batch.settled)
    return close(run, after, batch.message, results, unanimous, commands)


def results_in_order(batch: Batch) -> tuple[ToolResultMessage, ...]:
    """One result for each call, in call order."""
    if len(batch.calls) == 1:
        return (batch.settled.items[0].result,)
    results: list[ToolResultMessage | None] = [None] * len(batch.calls)
    for settled in batch.settled:
        results[settled.position] = settled.result
    return tuple([result for result in results if result is not None])


def _settle(batch: Batch, position: int, outcome: Outcome, at: int, commands: list[Command], ended: int = 0) -> Batch:
    """Tell the end of a call and keep its result. `ended`: 1 if it was running, else 0."""
    call = batch.calls[position]
    commands.append(
        ToolExecutionEnd(
            tool_call_id=call.id,
            tool_name=call.name,
            result=outcome.result,
            is_error=outcome.is_error,
            duration_ms=outcome.duration_ms,
            position=position,
        )
    )
    result = result_message(call, outcome, at)
    if batch.one_by_one:
        commands += (MessageStart(message=result), MessageEnd(message=result))
    settled = batch.settled.append(Settled(position, outcome, result))
    return structs.replace(batch, settled=settled, running=batch.running - ended)


def _start_event(position: int, call: ToolCall) -> ToolExecutionStart:
    return ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments, position=position)


def _skip(run: Run, call: ToolCall, reason: SkipReason) -> Outcome:
    return skipped(call, reason, typed=run.rules.policy.skip_details == "typed")

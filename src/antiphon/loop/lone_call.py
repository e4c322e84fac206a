"""A call that runs alone: stepped by the driver in its own task, on the leash.

Most batches hold one call, and most tools either answer at once or wait for one thing. Without a task of its own such a
call needs no turn of the event loop at all. The tool sees its own context variables and may use time-outs and task
groups as usual. Progress that it reports while it waits is told by a pump, a task that exists only then.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context

from antiphon.core.states import Finished, Input
from antiphon.loop.boundary import Boundary
from antiphon.loop.leash import Cut
from antiphon.loop.running import RunningCall


async def run_alone(b: Boundary, call: RunningCall) -> Input | None:
    """Execute the call and give its end; nothing if progress has to be told first, then the end lies behind it."""
    call.alone = True
    b.alone = call
    work, context = call.work(), copy_context()
    try:
        try:
            waits_for = context.run(work.send, None)  # most tools answer without waiting
        except StopIteration as answered:
            outcome = answered.value
        except GeneratorExit as own:  # its own: who is at work cannot be closed
            outcome = call.exited(own)
        else:
            outcome = await b.leash.go_on(work, waits_for, None, context)
    except (Cut, asyncio.CancelledError):
        outcome = call.cut()
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - exits of the process; everything else is an outcome already
        outcome = call.exited(error)
    finally:
        b.alone = None
    call.leave()
    finished = Finished(call.position, outcome, b.now())
    if b.pump.busy() and not await b.pump.stop(b.leash):
        b.abandoned.append("listener of tool_execution_update")
    fault, b.pump_fault = b.pump_fault, None
    if fault is None and not b.inbox:
        return finished
    b.inbox.append(finished)
    return None if fault is None else b.fault(fault)

"""One shot for programs: the session header, then one JSON record for each event. Source: modes specification 6."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from msgspec import UNSET

from antiphon.core.session_events import ExtensionError, SessionEvent
from antiphon.core.usage import NO_USAGE, add_usage
from antiphon.core.wire import JsonObject, to_wire
from antiphon.modes.output import Output
from antiphon.modes.print_mode import NOBODY_READS, exit_code, last_answer, tell_extension_error
from antiphon.modes.prompt_input import GivenPrompt
from antiphon.modes.telling import guarded
from antiphon.modes.wire_events import header_line, line, line_of
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session.settlement import Settlement


async def run_json(
    runtime: AgentSessionRuntime,
    prompts: Sequence[GivenPrompt],
    output: Output,
    *,
    outcome: bool = False,
    keep_going: bool = False,
) -> int:
    """Run the prompts in order. A failed answer is a record like any other, and the exit code is 0.

    With `outcome` each prompt closes with a record that says how it went, and the exit code says it too.

    Raises:
        OutputFailed: standard output cannot be written.
        AntiphonError: a prompt was refused, or the conversation cannot be stored.
    """
    await output.send(header_line(runtime.session.log.header))

    def tell(event: SessionEvent) -> Awaitable[None] | None:
        if isinstance(event, ExtensionError):  # not a record here
            tell_extension_error(event, output)
            return None
        return output.offer(line(event))

    runtime.subscribe(guarded(tell, lambda: runtime.session.request_abort(NOBODY_READS)))
    worst = 0
    for prompt in prompts:
        settlement = await runtime.session.prompt(prompt.text, prompt.images)
        if output.failure is not None:
            raise output.failure
        code = exit_code(settlement)
        worst = max(worst, code)
        if outcome:
            await output.send(line_of(outcome_record(settlement, code)))
        if settlement.aborted or (outcome and code and not keep_going):
            break
    return worst if outcome else 0


def outcome_record(settlement: Settlement, code: int) -> JsonObject:
    """How a prompt went, for programs that do not want to read events."""
    last = last_answer(settlement.new_messages)
    usage = NO_USAGE
    for message in settlement.new_messages:
        used = getattr(message, "usage", UNSET)
        usage = usage if used is UNSET else add_usage(usage, used)
    found: JsonObject = {
        "type": "run_outcome",
        "ok": code == 0,
        "disposition": settlement.disposition,
        "reason": settlement.reason or UNSET,
        "stopReason": UNSET if last is None else last.stop_reason,
        "errorMessage": settlement.error or UNSET,
        "turns": 0 if settlement.outcome is None else settlement.outcome.turns,
        "usage": to_wire(usage),
        "exitCode": code,
    }
    return found

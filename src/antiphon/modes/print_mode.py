"""One shot: run the prompts in order, give the last answer on standard output, say in the exit code how it went.

The exit code is decided by the outcome of the run, never by what happens to stand last in the conversation, and a run
that gave no answer never ends with 0 silently. Only the text of the last answer is given; text before a tool call is
part of the record. Source: modes specification 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.session_events import ExtensionError, SessionEvent
from antiphon.modes.live import LiveView
from antiphon.modes.output import Output, as_bytes, one_line
from antiphon.modes.prompt_input import GivenPrompt
from antiphon.modes.telling import guarded
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session.settlement import Settlement

ANSWERED = ("stop", "terminated", "ended_by_host")
"""Reasons for the end of a run that a script may take for success."""

NOBODY_READS = "standard output cannot be written"


async def run_print(
    runtime: AgentSessionRuntime, prompts: Sequence[GivenPrompt], output: Output, *, keep_going: bool = False
) -> int:
    """Answer each prompt; stop at the first that fails, unless told to go on. Gives the exit code.

    Raises:
        OutputFailed: standard output cannot be written.
        AntiphonError: a prompt was refused, or the conversation cannot be stored.
    """
    live = LiveView(output) if output.out_is_terminal else None
    if live is not None:
        runtime.subscribe(guarded(live, lambda: runtime.session.request_abort(NOBODY_READS)))
    else:
        runtime.subscribe(lambda event: tell_extension_error(event, output))
    worst = 0
    settlement: Settlement | None = None
    for prompt in prompts:
        settlement = await runtime.session.prompt(prompt.text, prompt.images)
        if output.failure is not None:
            raise output.failure
        code = exit_code(settlement)
        worst = max(worst, code)
        if code and not keep_going:
            break
        if code or prompt is not prompts[-1]:
            report(settlement, output)
    if settlement is None:
        return 0
    if live is None:
        await output.send(answer_of(settlement.new_messages))
    report(settlement, output)
    return worst


def tell_extension_error(event: SessionEvent, output: Output) -> None:
    """Code of an extension failed: words for the person."""
    if isinstance(event, ExtensionError):
        output.say(f"Extension error ({event.extension_path}): {one_line(event.error)}\n")


def last_answer(messages: Sequence[Message]) -> AssistantMessage | None:
    """The last thing that the model said."""
    return next((m for m in reversed(messages) if type(m) is AssistantMessage), None)


def answer_of(messages: Sequence[Message]) -> bytes:
    """Each text block of the last answer, on lines of its own; nothing if that answer failed."""
    last = last_answer(messages)
    if last is None or last.stop_reason in ("error", "aborted"):
        return b""
    return b"".join(as_bytes(block.text) + b"\n" for block in last.content if type(block) is Text)


def exit_code(settlement: Settlement) -> int:
    """0 for an answer, or a prompt that an extension took over; 1 for everything that must not be taken for one."""
    if settlement.disposition != "started":
        return 0
    if settlement.aborted or settlement.reason not in ANSWERED:
        return 1
    return 1 if is_empty(settlement) else 0


def is_empty(settlement: Settlement) -> bool:
    """Did the model end by itself without a word?"""
    return settlement.reason == "stop" and not answer_of(settlement.new_messages).strip()


def report(settlement: Settlement, output: Output) -> None:
    """Say why there is no, or no whole, answer."""
    reason, error = settlement.reason, settlement.error
    if settlement.disposition != "started":
        return
    if reason == "length":
        output.warning("the answer was cut off at the model's output limit")
    elif settlement.limit is not None:
        output.warning(
            f"stopped at {settlement.limit.name} = {settlement.limit.allowed:g}; the work is not finished, "
            "continue with --continue"
        )
    elif settlement.aborted or reason not in ANSWERED:
        output.error(error or f"Request {'aborted' if settlement.aborted else reason or 'failed'}")
    elif is_empty(settlement):
        output.warning("the model gave an empty answer")
    for name in settlement.abandoned:
        output.warning(f"{name} did not stop when it was asked to and may still be running")

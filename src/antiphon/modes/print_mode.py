"""One shot: run the prompts in order, give the last answer on standard output, say in the exit code how it went."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, Message
from antiphon.loop.outcome import RunOutcome
from antiphon.modes.live import LiveView
from antiphon.modes.output import Output, as_bytes
from antiphon.session.agent_session import AgentSession


async def run_print(session: AgentSession, prompts: Sequence[str], output: Output) -> int:
    """Answer each prompt; stop at the first that fails. Gives the exit code."""
    live = output.out_is_terminal
    if live:
        session.subscribe(LiveView(output))
    outcome: RunOutcome | None = None
    for prompt in prompts:
        outcome = await session.prompt(prompt)
        if exit_code(outcome):
            break
    if outcome is None:
        return 0
    if not live:
        output.write(answer_of(outcome.new_messages))
    report(outcome, output)
    return exit_code(outcome)


def answer_of(messages: Sequence[Message]) -> bytes:
    """Each text block of the last answer, on lines of its own; nothing if that answer failed."""
    last = next((m for m in reversed(messages) if type(m) is AssistantMessage), None)
    if last is None or last.stop_reason in ("error", "aborted"):
        return b""
    return b"".join(as_bytes(block.text) + b"\n" for block in last.content if type(block) is Text)


def exit_code(outcome: RunOutcome) -> int:
    """0 for an answer; 1 for everything that a script must not take for one."""
    return 0 if outcome.reason in ("stop", "terminated", "ended_by_host") else 1


def report(outcome: RunOutcome, output: Output) -> None:
    """Say why there is no, or no whole, answer."""
    reason = outcome.reason
    if reason == "length":
        output.warning("the answer was cut off at the model's output limit")
    elif reason in ("error", "aborted", "deadline"):
        output.error(outcome.error or f"Request {reason}")
    elif outcome.limit is not None:
        output.warning(
            f"stopped at {outcome.limit.name} = {outcome.limit.allowed:g}; the work is not finished, "
            "continue with --continue"
        )
    for name in outcome.abandoned:
        output.warning(f"{name} did not stop when it was asked to and may still be running")

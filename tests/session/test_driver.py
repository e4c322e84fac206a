"""From the first run to the settlement: retries, recoveries, compactions, queues, and that it always settles once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace
from tests.session.stage import FULL, LONG, MODEL, OTHER, SETTINGS, Stage, full, texts

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, UserMessage, user
from antiphon.core.policy import RunLimits
from antiphon.core.session_events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    EntryAppended,
    SessionEvent,
)
from antiphon.core.usage import Usage
from antiphon.session import phases
from antiphon.session.hooks import (
    BoundaryAnswer,
    CompactAnswer,
    CompactGiven,
    CompactionDraft,
    CustomMessageDraft,
    EditDraft,
    SessionHooks,
)
from antiphon.session.refusals import CompactionAborted, CompactionFailed
from antiphon.session.settings import SessionSettings
from antiphon.testing import Gate, calls, cut_off, fails, falls_silent, says, settle


async def prompted(stage: Stage, text: str = "go") -> None:
    """A prompt whose waits pass as soon as they begin."""
    going = asyncio.ensure_future(stage.session.prompt(text))
    while not going.done():
        await settle()
        if stage.clock.virtual.sleeping:
            await stage.clock.virtual.advance_to_next()
    await going


# ---- retries --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-93", "S3-120")
async def test_a_passing_failure_is_asked_again_after_a_growing_wait_and_left_out_of_the_context() -> None:
    stage = Stage([fails("overloaded"), fails("503"), says("ok")])
    await prompted(stage)

    assert [event.delay_ms for event in stage.of(AutoRetryStart)] == [1_000, 2_000]
    assert [(event.success, event.attempt) for event in stage.of(AutoRetryEnd)] == [(True, 2)]
    assert stage.requests == [["user"], ["user"], ["user"]]
    assert texts(stage.session.messages) == ["user: go", "assistant: ok"]
    assert stage.kinds.count("message assistant") == 3  # the failed ones stay in the file


async def test_each_end_of_a_run_says_whether_it_is_repeated() -> None:
    stage = Stage([fails("overloaded"), fails("overloaded"), fails("overloaded")])
    await prompted(stage)
    assert [word for word in stage.told if word.startswith(("agent_end", "auto_retry_end", "agent_settled"))] == [
        "agent_end retry",
        "agent_end retry",
        "agent_end",
        "auto_retry_end failed",
        "agent_settled",
    ]


async def test_an_abort_by_a_listener_of_the_retry_itself_ends_the_wait_at_once() -> None:
    """In the reference the whole delay passes first: its cancel handle is armed after the announcement."""
    stage = Stage([fails("overloaded"), says("never")])

    def abort(event: SessionEvent) -> None:
        if isinstance(event, AutoRetryStart):
            stage.session.request_abort()

    stage.session.subscribe(abort)
    settlement = await stage.session.prompt("go")  # nobody moves the clock

    assert settlement.aborted
    assert stage.told[-2:] == ["auto_retry_end failed", "agent_settled aborted"]
    assert len(stage.model.requests) == 1


async def test_an_abort_in_the_middle_of_the_wait_ends_it() -> None:
    stage = Stage([fails("overloaded"), says("never")])
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.until("entry_appended")
    await settle()
    assert stage.session.is_retrying
    assert stage.session.is_streaming
    assert stage.session.retry_attempt == 1
    stage.session.abort_retry()
    assert (await going).aborted


async def test_a_server_that_asks_for_a_longer_wait_gets_it_within_reason() -> None:
    text = "openai answered 429: slow down [asks to wait {ms} ms]"
    stage = Stage([fails(text.format(ms=9_000)), says("ok")])
    await prompted(stage)
    assert [event.delay_ms for event in stage.of(AutoRetryStart)] == [9_000]

    stage = Stage([fails(text.format(ms=3_600_000)), says("never")])
    settlement = await stage.session.prompt("go")  # shown at once, not waited for in silence
    assert settlement.reason == "error"
    assert stage.of(AutoRetryStart) == []


async def test_a_failed_attempt_with_calls_is_left_out_with_their_results() -> None:
    stage = Stage([calls("A"), fails("overloaded", after=calls("B")), says("ok")])
    await prompted(stage)
    assert stage.requests == [["user"], ["user", "assistant", "toolResult"], ["user", "assistant", "toolResult"]]
    edits = [event for event in stage.of(EntryAppended) if event.entry.type == "context_edit"]
    assert len(edits) == 2
    assert stage.calls.executed_ids == ["A"]


# ---- the size of the context ----------------------------------------------------------------------------------------


async def test_a_context_that_is_nearly_full_is_compacted_after_the_run() -> None:
    stage = Stage([full(says(LONG)), says("SUMMARY"), says("next")])
    await stage.session.prompt(LONG)
    assert stage.told[-3:] == ["compaction_start", "compaction_end", "agent_settled"]
    await stage.session.prompt("and now")
    assert "SUMMARY" in str(stage.model.asked[-1])


async def test_an_answer_that_did_not_fit_is_asked_for_again_once() -> None:
    stage = Stage([says(LONG), fails("prompt is too long"), says("S"), fails("prompt is too long")])
    await stage.session.prompt(LONG)
    settlement = await stage.session.prompt("second")
    ends = stage.of(CompactionEnd)
    assert [(end.will_retry, end.error_message == phases.OVERFLOW_GIVE_UP) for end in ends] == [
        (True, False),
        (False, True),
    ]
    assert settlement.reason == "error"
    assert stage.told[-1] == "agent_settled"


async def test_a_given_up_recovery_is_told_once_and_not_again_before_the_next_prompt() -> None:
    """The reference announces it again, without a start."""
    stage = Stage([says(LONG), fails("prompt is too long"), says("S"), fails("prompt is too long"), says("fine")])
    await stage.session.prompt(LONG)
    await stage.session.prompt("second")
    told = len(stage.events)
    await stage.session.prompt("third")
    assert not [event for event in stage.events[told:] if isinstance(event, CompactionEnd)]


async def test_a_cut_answer_that_cannot_be_repaired_is_kept_and_reported() -> None:
    """With nothing to compact the reference drops the answer without a word."""
    settings = replace(SETTINGS, compaction=replace(SETTINGS.compaction, keep_recent_tokens=50_000))
    stage = Stage(
        [cut_off(says("half an answ")).costing(Usage(input=50, output=10, total_tokens=60))], settings=settings
    )
    settlement = await stage.session.prompt("go")

    assert settlement.reason == "length"
    assert texts(stage.session.messages) == ["user: go", "assistant: half an answ"]
    assert texts(stage.log.messages()) == texts(stage.session.messages)


async def test_a_cut_answer_is_kept_when_the_summary_fails() -> None:
    short = Usage(input=50, output=10, total_tokens=60)
    stage = Stage([says(LONG), cut_off(says("half")).costing(short), fails("401 Unauthorized")])
    await stage.session.prompt(LONG)
    settlement = await stage.session.prompt("second")
    assert settlement.reason == "length"
    assert texts(stage.session.messages)[-1] == "assistant: half"
    assert stage.of(CompactionEnd)[-1].error_message is not None


async def test_a_cut_answer_is_kept_when_the_summary_is_aborted() -> None:
    short = Usage(input=50, output=10, total_tokens=60)
    stage = Stage([says(LONG), cut_off(says("half")).costing(short), falls_silent(says("S"))])
    await stage.session.prompt(LONG)
    going = asyncio.ensure_future(stage.session.prompt("second"))
    await stage.until("compaction_start")
    await stage.session.abort()
    assert (await going).aborted
    assert texts(stage.session.messages)[-1] == "assistant: half"


async def test_a_refused_answer_stays_out_when_the_summary_fails() -> None:
    stage = Stage([says(LONG), fails("prompt is too long"), fails("401 Unauthorized")])
    await stage.session.prompt(LONG)
    await stage.session.prompt("second")
    assert texts(stage.session.messages)[-1] == "user: second"


async def test_an_overflow_of_another_model_is_not_repaired() -> None:
    other = AssistantMessage(
        content=(), provider="scripted", model="two", stop_reason="error", error_message="prompt is too long"
    )
    stage = Stage([says("fine")], history=[user(LONG), other])
    await stage.session.prompt("next")
    assert stage.of(CompactionEnd) == []


@pytest.mark.requirement("S3-73")
async def test_a_compaction_is_made_between_turns_and_the_run_goes_on() -> None:
    stage = Stage([full(says(LONG) + calls("A")), says("SUMMARY"), says("done")])
    await stage.session.prompt(LONG)
    words = [word for word in stage.told if not word.startswith("message")]
    place = words.index("compaction_start")
    assert words[place - 1 : place + 3] == ["turn_end", "compaction_start", "compaction_end", "turn_start"]
    assert texts(stage.session.messages)[-1] == "assistant: done"


async def test_an_abort_during_a_compaction_between_turns_ends_both() -> None:
    stage = Stage([full(says(LONG) + calls("A")), falls_silent(says("S")), says("never")])
    going = asyncio.ensure_future(stage.session.prompt(LONG))
    await stage.until("compaction_start")
    await settle()
    assert stage.session.is_compacting
    await stage.session.abort()
    assert (await going).aborted
    assert stage.of(CompactionEnd)[0].aborted
    assert stage.told[-1] == "agent_settled aborted"


async def test_a_request_for_a_compaction_aborts_the_run_first() -> None:
    stage = Stage([says(LONG), falls_silent(says("x")), says("S"), says("S")])
    await stage.session.prompt(LONG)
    going = asyncio.ensure_future(stage.session.prompt(LONG))
    await stage.until("message_start assistant")
    result = await stage.session.compact("focus on it")
    assert (await going).aborted
    assert result.summary
    assert "focus on it" in str(stage.model.asked[-1])


async def test_a_compaction_on_request_can_be_cancelled_and_changes_nothing() -> None:
    stage = Stage([says(LONG), says(LONG), falls_silent(says("S"))])
    await stage.session.prompt(LONG)
    await stage.session.prompt(LONG)
    before = stage.kinds
    compacting = asyncio.ensure_future(stage.session.compact())
    await stage.until("compaction_start")
    await settle()
    stage.session.abort_compaction()
    with pytest.raises(CompactionAborted):
        await compacting
    assert stage.kinds == before
    assert stage.session.is_idle


async def test_an_extension_may_give_the_summary_or_refuse_it() -> None:
    answers: list[CompactAnswer] = [CompactAnswer(cancel=True)]

    def before(given: CompactGiven) -> CompactAnswer:
        assert given.reason == "manual"
        return answers[0]

    stage = Stage([says(LONG), says(LONG)], hooks=SessionHooks(before_compact=before))
    await stage.session.prompt(LONG)
    await stage.session.prompt(LONG)
    with pytest.raises(CompactionAborted):
        await stage.session.compact()
    answers[0] = CompactAnswer(compaction=CompactionDraft("mine", None))
    result = await stage.session.compact()
    assert result.summary == "mine"
    assert texts(stage.session.messages) == ["compactionSummary: "]


async def test_a_failed_summary_raises_and_changes_nothing() -> None:
    stage = Stage([says(LONG), says(LONG), fails("401 Unauthorized")])
    await stage.session.prompt(LONG)
    await stage.session.prompt(LONG)
    before = stage.kinds
    with pytest.raises(CompactionFailed, match="401"):
        await stage.session.compact()
    assert stage.kinds == before


async def test_a_caller_that_leaves_during_a_compaction_before_its_prompt_leaves_an_idle_session() -> None:
    answer = AssistantMessage(
        content=(Text(text=LONG),), provider="scripted", model="one", stop_reason="stop", usage=FULL, timestamp=1
    )
    stage = Stage([falls_silent(says("S")), says("fine")], history=[user(LONG), answer])
    going = asyncio.ensure_future(stage.session.prompt("next"))
    await stage.until("compaction_start")
    await settle()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert stage.told == ["compaction_start", "compaction_end"]
    assert stage.session.is_idle
    assert "message user" in stage.kinds


async def test_the_numbers_of_a_model_may_differ() -> None:
    from antiphon.session.settings import CompactionOverride

    settings = replace(SETTINGS, compaction_overrides={"scripted/one": CompactionOverride(reserve_tokens=99_990)})
    assert settings.compaction_for(MODEL).reserve_tokens == 99_990
    assert settings.compaction_for(MODEL).keep_recent_tokens == 50
    assert settings.compaction_for(OTHER).reserve_tokens == 1_000


async def test_the_numbers_for_all_models_are_fitted_to_a_small_window() -> None:
    """The embedded model has a window of 2,048; the defaults keep 16,384 free."""
    small = structs.replace(MODEL, context_window=2_048)

    assert SessionSettings().compaction_for(small).reserve_tokens == 512
    assert SessionSettings().compaction_for(small).keep_recent_tokens == 768
    assert SessionSettings().compaction_for(None).reserve_tokens == 16_384


# ---- the settlement -------------------------------------------------------------------------------------------------


async def test_an_aborted_tool_round_ends_at_its_boundary() -> None:
    """The reference sends one more request, just to have it answered by an empty aborted message."""
    stage = Stage([calls("A", "B"), says("never")])
    stage.hold("B")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.until("tool_execution_end")
    await stage.session.abort()
    settlement = await going

    assert settlement.aborted
    assert len(stage.model.requests) == 1
    roles = [message.role for message in stage.session.messages if message.role != "system"]
    assert roles == ["user", "assistant", "toolResult", "toolResult"]
    assert stage.told[-3:] == ["turn_end", "agent_end", "agent_settled aborted"]


@pytest.mark.requirement("S3-93")
async def test_a_follow_up_during_a_compaction_is_answered_before_the_settlement() -> None:
    gate = Gate()
    stage = Stage([full(says(LONG)), says("S").held(gate), says("followed")])
    going = asyncio.ensure_future(stage.session.prompt(LONG))
    await stage.until("compaction_start")
    await stage.session.follow_up("and then")
    gate.open()
    settlement = await going
    assert settlement.final_text == "followed"
    assert len(stage.of(AgentSettled)) == 1


async def test_queued_messages_stay_queued_after_an_abort() -> None:
    stage = Stage([falls_silent(says("x")), says("b"), says("c")])
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.until("message_start assistant")
    await stage.session.steer("queued")
    await stage.session.abort()
    await going
    assert stage.session.pending_message_count == 1
    await stage.session.prompt("again")
    assert stage.requests[-1] == ["user", "assistant", "user", "user"]
    assert stage.session.pending_message_count == 0


async def test_an_extension_may_ask_for_one_more_request_with_something_to_answer() -> None:
    asked: list[BoundaryAnswer] = [
        BoundaryAnswer(go_on=True),  # nothing a model could answer: the last word is its own
        BoundaryAnswer(go_on=True, entries=(CustomMessageDraft("nudge", "and the tests?"),)),
        BoundaryAnswer(),
    ]
    hooks = SessionHooks(before_settle=lambda: asked.pop(0))
    stage = Stage([says("one"), says("two"), says("three")], hooks=hooks)
    await stage.session.prompt("go")
    assert texts(stage.session.messages)[-1] == "assistant: one"
    await stage.session.prompt("go on")
    assert texts(stage.session.messages)[-1] == "assistant: three"
    assert asked == []


async def test_what_is_queued_while_the_boundary_is_asked_is_answered_before_the_settlement() -> None:
    stage = Stage([says("one"), says("two")])

    async def late() -> None:
        if len(stage.model.asked) == 1:
            await stage.session.follow_up("one thing more")

    stage.session.hooks = SessionHooks(before_settle=late)
    settlement = await stage.session.prompt("go")
    assert settlement.final_text == "two"
    assert stage.session.pending_message_count == 0
    assert len(stage.of(AgentSettled)) == 1


async def test_an_extension_that_always_wants_more_is_stopped() -> None:
    wish = BoundaryAnswer(go_on=True, entries=(CustomMessageDraft("nudge", "more"),))
    stage = Stage([says("more")] * 40, hooks=SessionHooks(before_settle=lambda: wish))
    await stage.session.prompt("go")
    assert len(stage.model.asked) == 1 + phases.MOST_ROUNDS


async def test_a_proposal_is_stored_as_a_whole_or_not_at_all() -> None:
    drafts = (CustomMessageDraft("x", "first"), EditDraft("no such entry", None))
    hooks = SessionHooks(turn_end=lambda _turn: BoundaryAnswer(entries=drafts))
    stage = Stage([says("one")], hooks=hooks)
    await stage.session.prompt("go")
    assert "custom_message" not in stage.kinds
    assert "extension_error" in stage.told


async def test_a_run_that_reaches_a_limit_settles_and_leaves_the_queue_alone() -> None:
    stage = Stage([calls("A"), says("never")], limits=RunLimits(max_turns=1))
    settlement = await stage.session.prompt("go")
    assert settlement.limit is not None
    assert settlement.reason == "max_turns"
    assert stage.told[-1] == "agent_settled"


async def test_a_failing_hook_of_the_settlement_is_reported() -> None:
    def broken() -> None:
        raise ValueError("no")

    stage = Stage([says("one")], hooks=SessionHooks(before_settle=broken))
    await stage.session.prompt("go")
    assert stage.told[-2:] == ["extension_error", "agent_settled"]


@pytest.mark.parametrize("turns", [400, pytest.param(2_000, marks=pytest.mark.slow)])
async def test_two_thousand_turns_do_not_get_slower(tmp_path: Path, turns: int) -> None:
    """A turn costs the same however many came before: what is looked at is what is new."""
    import time

    stage = Stage([*[calls("A") for _ in range(turns)], says("done")], folder=tmp_path)
    moments: list[float] = []

    def listen(event: SessionEvent) -> None:
        if event.type == "turn_start":
            moments.append(time.process_time())

    stage.session.subscribe(listen)
    await stage.session.prompt("go")
    gaps = [b - a for a, b in zip(moments, moments[1:], strict=False)]
    early, late = sorted(gaps[20:120])[50], sorted(gaps[-100:])[50]
    assert late < 3 * early
    await stage.session.dispose()


async def test_the_usage_of_a_full_context_is_what_the_model_said() -> None:
    stage = Stage([full(says("x"))], settings=replace(SETTINGS, compaction=replace(SETTINGS.compaction, enabled=False)))
    await stage.session.prompt("go")
    usage = stage.session.get_context_usage()
    assert usage is not None
    assert usage.tokens == FULL.total_tokens
    assert isinstance(stage.session.messages[1], UserMessage)


async def test_a_long_conversation_is_not_looked_through_at_every_step() -> None:
    """Between a prompt and its request each message of before would cost; counted, not timed."""
    used = Usage(input=10, output=5, total_tokens=15)
    script = [says("one").costing(used), says("two").costing(used)]
    stage = Stage(script, history=[user(f"question {n}", n) for n in range(3_000)])
    await stage.session.prompt("go")
    looked = 0

    def count(frame: object, event: str, _arg: object) -> None:
        nonlocal looked
        looked += event == "call"

    sys.setprofile(count)
    try:
        await stage.session.prompt("again")
    finally:
        sys.setprofile(None)
    assert looked < 3_000, f"{looked} calls of functions"

"""What every row of the machine's table does, one small run each.

A run gets whoever makes a `Play`: `test_machine_rows` gives the real machine, `planted` machines with a fault.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.core.play import FINE, LAST, NO, ORDERED, Play, Tool, calls, request, says

from antiphon.core import states as c
from antiphon.core.content import ToolCall
from antiphon.core.hooks import Context, NextTurn, RequestUpdate
from antiphon.core.messages import AssistantMessage, SystemMessage, ToolResultMessage, host_message, user
from antiphon.core.model import Model
from antiphon.core.policy import RunLimits
from antiphon.core.response import AnswerSoFar
from antiphon.core.response_events import Start, TextDelta, ToolCallEnd
from antiphon.core.transcript import Transcript
from antiphon.core.usage import Usage

NewPlay = Callable[..., Play]
RowTest = Callable[[NewPlay], None]

ROWS: dict[str, tuple[tuple[type, type], RowTest]] = {}
"""By name: the line of the table, and the run that proves it."""


def row(state: type, given: type) -> Callable[[RowTest], RowTest]:
    def registered(test: RowTest) -> RowTest:
        assert test.__name__ not in ROWS, test.__name__
        ROWS[test.__name__] = (state, given), test
        return test

    return registered


BEGUN = Start(message=AssistantMessage(content=(), stop_reason="pending"))
DELTA = TextDelta(content_index=0, delta="so far")
TOOL = Tool("tool")
BROKE = c.Fault("it broke", 99)

# -- opening -----------------------------------------------------------------------------------------------------------


@row(c.Idle, c.Prompt)
def a_prompt_opens_run_and_turn_and_is_announced(play: NewPlay) -> None:
    p = play(prompts=(user("one"), host_message("note", text="two")))

    assert p.words == [
        "agent_start",
        "turn_start",
        "start user",
        "end user",
        "start note",
        "end note",
        "? steering",
    ]
    assert p.roles == ["user", "note"]
    assert [m.role for m in p.state.run.transcript] == ["user", "note"]


@row(c.Idle, c.Prompt)
def a_continued_run_announces_nothing(play: NewPlay) -> None:
    p = play(prompts=(), continuing=True, history=(user("before"),), tools=(TOOL,))

    assert p.words == ["agent_start", "turn_start", "? steering"]
    assert p.roles == []


@row(c.Idle, c.Prompt)
def tools_are_declared_in_front_of_the_prompts(play: NewPlay) -> None:
    """The model is told of its tools before it is asked anything."""
    p = play(tools=(TOOL,))

    assert p.roles == ["system", "user"]
    declared = p.new[0]
    assert isinstance(declared, SystemMessage)
    assert [tool.name for tool in declared.tools_added or ()] == ["tool"]
    assert declared.timestamp == 10


@row(c.Idle, c.Prompt)
def a_run_that_steering_has_started_skips_its_first_poll(play: NewPlay) -> None:
    p = play(polls_first=False)

    assert p.words[-1] == "? request hook"
    assert "? steering" not in p.words


@row(c.Idle, c.Prompt)
def an_empty_prompt_asks_from_the_transcript_as_it_is(play: NewPlay) -> None:
    p = play(prompts=(), history=(user("before"),))

    assert p.words == ["agent_start", "turn_start", "? steering"]


@row(c.Opening, c.Drained)
def steering_belongs_to_the_first_turn(play: NewPlay) -> None:
    p = play()

    words = p.tell(c.Drained((user("wait"), user("stop")), 20))

    assert words == ["commit", "start user", "deliver user", "start user", "deliver user", "? request hook"]
    assert p.roles == ["user", "user", "user"]


@row(c.Opening, c.Drained)
def without_a_request_hook_the_request_is_composed_at_once(play: NewPlay) -> None:
    p = play(hooks=False)

    assert p.tell(c.Drained((), 20)) == ["? compose"]


@row(c.Opening, c.Drained)
def an_abort_before_the_first_request_closes_the_turn_by_an_event_alone(play: NewPlay) -> None:
    """The message of that event is in no transcript: nothing was asked, so there is no answer to keep."""
    p = play()
    p.tell(c.Interrupt("stop it"))

    words = p.tell(c.Drained((), 20))

    assert words == ["turn_end 0", "agent_end 1"]
    assert p.commands[0].message.stop_reason == "aborted"
    assert p.commands[0].message.error_message == "Operation aborted"
    assert p.roles == ["user"]
    assert p.state.reason == "aborted"


@row(c.Opening, c.Drained)
def tools_that_changed_are_declared_in_front_of_what_the_turn_brings(play: NewPlay) -> None:
    """Only what comes from the queue leaves the lease."""
    p = play(prompts=(), continuing=True, history=(user("before"),), tools=(TOOL,))

    words = p.tell(c.Drained((user("hey"),), 20))

    assert words == ["commit", "start system", "end system", "start user", "deliver user", "? request hook"]


# -- request and answer ------------------------------------------------------------------------------------------------


@row(c.Composing, c.RequestPrepared)
def what_the_request_hook_wants_holds_for_later_requests_too(play: NewPlay) -> None:
    p = play(tools=(TOOL,)).until(c.Composing)
    other = Model(id="other", provider="q", api="b")

    words = p.tell(c.RequestPrepared(RequestUpdate(model=other, thinking_level="high")))

    assert words == ["? compose"]
    p.until(c.Finishing, calls("a"))
    p.until(c.Asking)
    assert (p.state.run.model, p.state.run.thinking_level) == (other, "high")
    assert p.state.run.transcript[2].thinking_level == "high"


@row(c.Composing, c.RequestPrepared)
def a_context_of_the_request_hook_replaces_transcript_and_tools(play: NewPlay) -> None:
    """New messages of the run stay what they are; the tools it brings can run at once and are declared next turn."""
    p = play(tools=(TOOL,)).until(c.Composing)

    p.tell(c.RequestPrepared(RequestUpdate(context=Context((user("short"),), (Tool("other"),)))))

    run = p.state.run
    assert [m.role for m in run.transcript] == ["user"]
    assert run.toolbox.find("other") is not None
    assert run.toolbox.find("tool") is None
    assert p.roles == ["system", "user"]
    p.until(c.Finishing, calls("a"))
    p.until(c.Composing)
    assert p.roles[-1] == "system"
    assert [tool.name for tool in p.new[-1].tools_added or ()] == ["other"]  # type: ignore[union-attr]


@row(c.Composing, c.RequestPrepared)
def a_context_with_the_same_tools_keeps_the_toolbox(play: NewPlay) -> None:
    p = play(tools=(TOOL,)).until(c.Composing)
    toolbox = p.state.run.toolbox

    p.tell(c.RequestPrepared(RequestUpdate(context=Context((user("short"),), toolbox.tools))))

    assert p.state.run.toolbox is toolbox


@row(c.Asking, c.Composed)
def a_composed_request_leaves_and_is_counted(play: NewPlay) -> None:
    p = play().until(c.Asking)
    composed = request()

    words = p.tell(c.Composed(composed, 30))

    assert words == ["? model"]
    assert p.commands[0].request is composed
    assert p.state.run.tally.turns == 1


@row(c.Asking, c.Composed)
def a_live_list_that_a_hook_edited_is_the_transcript_from_now_on(play: NewPlay) -> None:
    p = play().until(c.Asking)

    p.tell(c.Composed(request(), 30, Transcript((user("edited"),))))

    assert [m.content for m in p.state.run.transcript] == ["edited"]


@row(c.Asking, c.Composed)
def no_request_leaves_after_an_abort(play: NewPlay) -> None:
    p = play().until(c.Asking)
    p.tell(c.Interrupt("stop it"))

    words = p.tell(c.Composed(request(), 30))

    assert words == ["turn_end 0", "agent_end 1"]
    assert p.commands[0].message.timestamp == 30
    assert p.state.run.tally.turns == 0


@row(c.Asking, c.Composed)
def the_reference_asks_even_after_an_abort(play: NewPlay) -> None:
    p = play(profile="pi").until(c.Asking)
    p.tell(c.Interrupt("stop it"))

    assert p.tell(c.Composed(request(), 30)) == ["? model"]


@row(c.Requesting, Start)
def the_partial_answer_becomes_visible_and_is_in_no_transcript(play: NewPlay) -> None:
    p = play().until(c.Requesting)

    words = p.tell(BEGUN)

    assert words == ["start assistant"]
    assert type(p.commands[0].message) is AnswerSoFar
    assert p.roles == ["user"]


@row(c.Requesting, TextDelta)
def growth_of_an_answer_that_never_began_is_not_shown(play: NewPlay) -> None:
    p = play().until(c.Requesting)

    assert p.tell(DELTA) == []
    assert type(p.state) is c.Requesting


@row(c.Responding, TextDelta)
def growth_is_told_with_the_answer_behind_it(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    p.tell(BEGUN)

    words = p.tell(DELTA)

    assert words == ["update"]
    assert [block.text for block in p.commands[0].message.content] == ["so far"]
    assert p.commands[0].assistant_message_event is DELTA
    assert p.roles == ["user"]


@row(c.Responding, Start)
def one_response_is_announced_once(play: NewPlay) -> None:
    """A second start replaces the placeholder."""
    p = play().until(c.Requesting)
    p.tell(BEGUN)
    p.tell(DELTA)

    assert p.tell(BEGUN) == []
    assert p.state.answer.content == ()


@row(c.Requesting, c.Answered)
def an_answer_that_did_not_stream_is_announced_whole(play: NewPlay) -> None:
    p = play(level="high").until(c.Requesting)

    words = p.tell(c.Answered(says("hello")))

    assert words == ["start assistant", "end assistant", "? decision"]
    assert p.roles == ["user", "assistant"]
    assert p.new[-1].thinking_level == "high"  # type: ignore[union-attr]
    assert p.new[-1] is p.commands[1].message is p.state.run.transcript[-1]


@row(c.Responding, c.Answered)
def the_final_answer_is_appended_once(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    p.tell(BEGUN)
    p.tell(DELTA)

    words = p.tell(c.Answered(says("hello")))

    assert words == ["end assistant", "? decision"]
    assert p.roles == ["user", "assistant"]
    assert len(p.state.run.transcript) == 2


@row(c.Responding, c.Answered)
def usage_of_answers_is_added_up(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    message = AssistantMessage(content=(), stop_reason="stop", usage=Usage(input=3, output=2))

    p.tell(c.Answered(message))

    assert p.state.run.tally.usage == Usage(input=3, output=2)


@row(c.Requesting, c.Answered)
def truncated_calls_are_refused_one_after_the_other_and_the_model_is_asked_again(play: NewPlay) -> None:
    p = play().until(c.Requesting)

    words = p.tell(c.Answered(calls("a", "b", why="length")))

    assert words == [
        "start assistant",
        "end assistant",
        "call a",
        "over a: length",
        "start toolResult",
        "end toolResult",
        "call b",
        "over b: length",
        "start toolResult",
        "end toolResult",
        "? decision",
    ]
    assert p.until(c.Composing).words[-3:] == ["? steering", "turn_start", "? request hook"]


@row(c.Requesting, c.Answered)
def a_truncated_batch_ends_a_strict_run(play: NewPlay) -> None:
    p = play(profile="strict").until(c.Finishing, calls("a", why="length"))

    words = p.tell(c.Decided(None, False, 80))

    assert words == ["turn_end 1", "agent_end 3"]
    assert p.state.reason == "length"


@row(c.Requesting, c.Answered)
def truncated_answers_are_counted_in_a_row(play: NewPlay) -> None:
    """One retry is allowed. An answer without calls, or a batch that ran, begins the count anew."""
    p = play(length_retry_limit=1)
    cut = calls("a", why="length")
    p.until(c.Finishing, cut).until(c.Requesting)
    p.until(c.Finishing, says()).tell(c.Decided("continue", False, 80))
    p.until(c.Requesting)
    p.until(c.Finishing, cut).until(c.Requesting)
    p.until(c.Executing, calls("a")).until(c.Requesting)
    p.until(c.Finishing, cut).until(c.Requesting)

    assert p.ended(cut) == "length"
    assert p.words[-2:] == ["turn_end 1", "agent_end 12"]


@row(c.Requesting, c.Answered)
def calls_of_a_failed_answer_are_answered_and_not_run(play: NewPlay) -> None:
    for why in ("error", "aborted"):
        p = play().until(c.Requesting)

        words = p.tell(c.Answered(calls("a", why=why)))

        assert words[2:4] == ["call a", f"over a: {why}"]
        assert p.tell(c.Decided("continue", False, 80)) == ["turn_end 1", "agent_end 3"]
        assert p.state.reason == why


@row(c.Requesting, c.Answered)
def the_reference_leaves_calls_of_a_failed_answer_without_results(play: NewPlay) -> None:
    p = play(profile="pi").until(c.Requesting)

    words = p.tell(c.Answered(calls("a", why="error")))

    assert words == ["start assistant", "end assistant", "? decision"]
    assert p.ended() == "error"


@row(c.Requesting, c.Answered)
def calls_behind_stop_run_unless_the_profile_is_strict(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    assert p.tell(c.Answered(calls("a", why="stop")))[-1] == "? check 0"

    p = play(profile="strict").until(c.Requesting)
    assert p.tell(c.Answered(calls("a", why="stop")))[3] == "over a: unexpected-stop"
    assert p.ended() == "error"


@row(c.Requesting, c.Answered)
def an_answer_of_unknown_ending_becomes_a_failure(play: NewPlay) -> None:
    for why in ("pending", "whatever"):
        p = play().until(c.Requesting)

        p.tell(c.Answered(calls("a", why=why)))

        message = p.new[1]
        assert isinstance(message, AssistantMessage)
        assert message.stop_reason == "error"
        assert why in str(message.error_message)
        assert p.words[-4] == "over a: error"
        assert p.ended() == "error"


@row(c.Requesting, c.Answered)
def the_reference_takes_an_unknown_ending_for_stop(play: NewPlay) -> None:
    p = play(profile="pi").until(c.Requesting)

    assert p.tell(c.Answered(calls("a", why="whatever")))[-1] == "? check 0"


@row(c.Requesting, c.Answered)
def without_a_finish_hook_the_turn_ends_at_once(play: NewPlay) -> None:
    p = play(hooks=False).until(c.Requesting)

    assert p.tell(c.Answered(says())) == ["start assistant", "end assistant", "turn_end 0", "? steering"]


@row(c.Requesting, c.Answered)
def after_an_abort_the_decision_is_asked_for_even_without_a_hook(play: NewPlay) -> None:
    """Whoever drives has to say whether messages wait: that decides whether the abort has prevented something."""
    p = play(hooks=False).until(c.Requesting)
    p.tell(c.Interrupt("stop it"))

    assert p.tell(c.Answered(says()))[-1] == "? decision"
    assert p.tell(c.Decided(None, False, 80)) == ["turn_end 0", "agent_end 2"]
    assert p.state.reason == "stop"


# -- calls -------------------------------------------------------------------------------------------------------------


@row(c.Checking, c.Checked)
def parallel_calls_start_when_all_are_checked(play: NewPlay) -> None:
    p = play().until(c.Checking, calls("a", "b"))
    assert p.words[-2:] == ["call a", "? check 0"]

    assert p.tell(c.Checked(None, 60)) == ["call b", "? check 1"]
    assert p.tell(c.Checked(None, 60)) == ["? run 0", "? run 1"]
    assert p.state.run.tally.tool_calls == 2


@row(c.Checking, c.Checked)
def a_refused_call_ends_at_once_and_never_runs(play: NewPlay) -> None:
    p = play().until(c.Checking, calls("a", "b"))

    assert p.tell(c.Checked(NO, 60)) == ["over a: error", "call b", "? check 1"]
    assert p.tell(c.Checked(None, 60)) == ["? run 1"]


@row(c.Checking, c.Checked)
def ordered_calls_are_checked_and_run_one_by_one(play: NewPlay) -> None:
    """By configuration, or because one of the tools asks for it."""
    for given in ({"mode": "sequential"}, {"tools": (ORDERED,)}):
        p = play(**given).until(c.Checking, calls("a", "b"))

        assert p.tell(c.Checked(None, 60)) == ["? run 0"]
        words = p.tell(c.Finished(0, FINE, 70))
        assert words == ["over a", "start toolResult", "end toolResult", "call b", "? check 1"]


@row(c.Checking, c.Checked)
def if_every_call_is_refused_the_turn_is_finished(play: NewPlay) -> None:
    p = play().until(c.Checking, calls("a"))

    assert p.tell(c.Checked(NO, 60)) == ["over a: error", "start toolResult", "end toolResult", "? decision"]
    assert p.roles == ["user", "assistant", "toolResult"]
    assert p.new[-1].timestamp == 60


@row(c.Checking, c.Checked)
def no_tool_starts_after_an_abort(play: NewPlay) -> None:
    for profile in ("default", "pi"):
        p = play(profile=profile).until(c.Checking, calls("a", "b"))
        p.tell(c.Checked(None, 60))
        p.tell(c.Interrupt("stop it"))

        words = p.tell(c.Checked(None, 60))

        assert [word.split(":")[0] for word in words[:2]] == ["over a", "over b"]
        assert p.new[-1].content[0].text == "Operation aborted"  # type: ignore[union-attr]
        assert p.state.run.tally.tool_calls == 0


@row(c.Checking, c.Checked)
def ordered_calls_behind_an_abort_are_answered_without_running(play: NewPlay) -> None:
    p = play(mode="sequential").until(c.Executing, calls("a", "b"))
    p.tell(c.Interrupt("stop it"))
    p.tell(c.Finished(0, FINE, 70))

    words = p.tell(c.Checked(None, 60))

    assert words[:1] == ["over b: aborted"]
    assert p.ended() == "aborted"


@row(c.Checking, c.Checked)
def an_id_that_repeats_is_refused_at_its_own_place(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a", "b", "a"))

    assert [w for w in p.words if w.startswith(("over", "? run"))] == ["over a: duplicate-id", "? run 0", "? run 1"]
    p.until(c.Finishing)
    assert [m.tool_call_id for m in p.new if isinstance(m, ToolResultMessage)] == ["a", "b", "a"]


@row(c.Checking, c.Checked)
def equal_ids_may_all_be_refused_or_all_be_allowed(play: NewPlay) -> None:
    p = play(duplicate_call_id="error_all").until(c.Executing, calls("a", "b", "a"))
    assert [w for w in p.words if w.startswith("? run")] == ["? run 1"]

    p = play(profile="pi").until(c.Executing, calls("a", "b", "a"))
    assert [w for w in p.words if w.startswith("? run")] == ["? run 0", "? run 1", "? run 2"]


@row(c.Checking, c.Checked)
def calls_over_the_bound_are_refused_and_the_run_ends_at_the_boundary(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_tool_calls=2)).until(c.Executing, calls("a", "b", "c"))
    assert [w for w in p.words if w.startswith(("over", "? run"))] == ["over c: limit", "? run 0", "? run 1"]

    assert p.ended() == "max_tool_calls"
    assert (p.state.limit.name, p.state.limit.allowed, p.state.limit.reached) == ("max_tool_calls", 2, 2)
    assert p.words[-3:] == ["turn_end 3", "? look", "agent_end 5"]


@row(c.Checking, c.Checked)
def a_bound_that_is_used_up_and_not_exceeded_ends_nothing(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_tool_calls=2)).until(c.Finishing, calls("a", "b"))

    assert p.ended() == "stop"


@row(c.Checking, c.Checked)
def a_bound_of_one_tool_counts_that_tool_alone(play: NewPlay) -> None:
    limits = RunLimits(max_calls_of=(("tool", 1),))
    mixed = AssistantMessage(content=(*calls("a").content, *calls("b", name="other").content), stop_reason="toolUse")
    p = play(limits=limits).until(c.Finishing, mixed)
    assert not any("limit" in word for word in p.words)

    p.until(c.Executing, AssistantMessage(content=(*mixed.content, *calls("c", "d").content), stop_reason="toolUse"))
    assert [w for w in p.words if "limit" in w] == ["over a: limit", "over c: limit", "over d: limit"]
    assert p.ended() == "max_tool_calls"
    assert p.state.limit.allowed == 1


@row(c.Checking, c.Checked)
def a_refused_call_of_an_ordered_batch_has_its_result_before_the_next_is_looked_at(play: NewPlay) -> None:
    p = play(mode="sequential").until(c.Checking, calls("a", "b"))

    words = p.tell(c.Checked(NO, 60))

    assert words == ["over a: error", "start toolResult", "end toolResult", "call b", "? check 1"]


@row(c.Executing, c.Progress)
def progress_is_passed_on(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a", "b"))

    assert p.tell(c.Progress(1, "half")) == ["progress b"]
    update = p.commands[0]
    assert (update.partial_result, update.position, update.args) == ("half", 1, {"for": "b"})


@row(c.Executing, c.Finished)
def ends_come_as_they_happen_and_results_in_call_order(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a", "b"))

    assert p.tell(c.Finished(1, FINE, 70)) == ["over b"]
    words = p.tell(c.Finished(0, NO, 71))

    assert words == ["over a: error", *["start toolResult", "end toolResult"] * 2, "? decision"]
    results = p.new[2:]
    assert [(m.tool_call_id, m.is_error, m.timestamp) for m in results if isinstance(m, ToolResultMessage)] == [
        ("a", True, 71),
        ("b", False, 70),
    ]
    assert p.tell(c.Decided(None, False, 80))[0] == "turn_end 2"
    assert p.commands[0].tool_results == results


@row(c.Executing, c.Finished)
def a_batch_terminates_only_if_every_result_says_so(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a", "b"))
    p.tell(c.Finished(0, LAST, 70))
    p.tell(c.Finished(1, LAST, 70))
    assert p.ended() == "terminated"

    p = play().until(c.Executing, calls("a", "b"))
    p.tell(c.Finished(0, LAST, 70))
    p.tell(c.Finished(1, FINE, 70))
    p.tell(c.Decided(None, False, 80))
    assert p.tell(c.Drained((), 20)) == ["? next hook"]


@row(c.Executing, c.Finished)
def results_of_a_running_call_survive_an_abort(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a"))
    p.tell(c.Interrupt("stop it"))

    words = p.tell(c.Finished(0, FINE, 70))

    assert words[0] == "over a"
    assert p.ended() == "aborted"
    assert p.words[-1] == "agent_end 3"


@row(c.Executing, c.Finished)
def calls_that_repeat_without_progress_end_the_run(play: NewPlay) -> None:
    p = play(limits=RunLimits(repeat_limit=2))
    for _ in range(2):
        p.until(c.Finishing, calls("a"))
        p.tell(c.Decided(None, False, 80))
        if type(p.state) is not c.Limited:
            p.until(c.Requesting)

    assert p.ended() == "no_progress"


@row(c.Executing, c.Finished)
def a_changed_result_begins_the_count_of_repetitions_anew(play: NewPlay) -> None:
    """Asking again and again until something has changed is no repetition."""
    p = play(limits=RunLimits(repeat_limit=2))
    for outcome in (FINE, NO, FINE):
        p.until(c.Executing, calls("a"))
        p.tell(c.Finished(0, outcome, 70))
        p.tell(c.Decided(None, False, 80))
        p.until(c.Requesting)

    assert p.ended() == "stop"


@row(c.Executing, c.Finished)
def a_model_that_is_cut_off_again_and_again_makes_no_progress(play: NewPlay) -> None:
    p = play(limits=RunLimits(repeat_limit=2))
    cut = calls("a", why="length")
    p.until(c.Finishing, cut).until(c.Requesting).until(c.Finishing, cut)

    assert p.ended() == "no_progress"


# -- the boundary ------------------------------------------------------------------------------------------------------


@row(c.Finishing, c.Decided)
def the_end_of_a_turn_is_told_and_steering_is_asked(play: NewPlay) -> None:
    p = play().until(c.Finishing)
    assert p.commands[-1].turn.message is p.new[-1]
    assert p.commands[-1].turn.new_messages.tuple() == p.new

    assert p.tell(c.Decided(None, False, 80)) == ["turn_end 0", "? steering"]


@row(c.Finishing, c.Decided)
def an_order_to_end_comes_before_every_queue(play: NewPlay) -> None:
    """Also behind a batch whose results nobody has read."""
    p = play().until(c.Finishing, calls("a"))

    assert p.tell(c.Decided("end", True, 80)) == ["turn_end 1", "agent_end 3"]
    assert p.state.reason == "ended_by_host"


@row(c.Finishing, c.Decided)
def an_answer_that_means_nothing_is_no_wish(play: NewPlay) -> None:
    p = play().until(c.Finishing)
    p.tell(c.Decided("perhaps", False, 80))
    p.tell(c.Drained((), 20))

    assert p.tell(c.Drained((), 20)) == ["agent_end 2"]
    assert p.state.reason == "stop"


@row(c.Finishing, c.Decided)
def an_abort_ends_the_run_if_something_would_follow(play: NewPlay) -> None:
    for action, queued in (("continue", False), (None, True)):
        p = play().until(c.Finishing)
        p.tell(c.Interrupt("stop it"))
        assert p.tell(c.Decided(action, queued, 80)) == ["turn_end 0", "agent_end 2"]
        assert p.state.reason == "aborted"

    p = play().until(c.Finishing, calls("a"))
    p.tell(c.Interrupt("deadline"))
    assert p.ended() == "deadline"


@row(c.Finishing, c.Decided)
def an_abort_that_prevents_nothing_leaves_the_reason(play: NewPlay) -> None:
    p = play().until(c.Finishing, says(why="length"))
    p.tell(c.Interrupt("stop it"))

    assert p.tell(c.Decided(None, False, 80)) == ["turn_end 0", "agent_end 2"]
    assert p.state.reason == "length"


@row(c.Finishing, c.Decided)
def a_limit_of_turns_is_asked_before_the_queues(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_turns=1)).until(c.Finishing, calls("a"))

    assert p.tell(c.Decided(None, False, 80)) == ["turn_end 1", "? look"]
    assert p.tell(c.Looked()) == ["agent_end 3"]
    assert p.state.reason == "max_turns"
    assert p.state.limit.reached == 1


@row(c.Limited, c.Looked)
def an_abort_told_with_the_last_results_is_named_before_a_limit(play: NewPlay) -> None:
    """Listeners hear of results and of the end of the turn after the bound was asked."""
    for profile, reason in (("default", "aborted"), ("strict", "aborted"), ("pi", "max_turns")):
        p = play(profile=profile, hooks=False, limits=RunLimits(max_turns=1)).until(c.Limited, calls("a"))
        p.tell(c.Interrupt("stop it"))
        assert p.tell(c.Looked()) == ["agent_end 3"]
        assert (p.state.reason, p.state.limit is None) == (reason, reason == "aborted")


@row(c.Finishing, c.Decided)
def the_last_allowed_turn_may_end_by_itself(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_turns=1)).until(c.Finishing)

    assert p.ended() == "stop"
    assert p.state.limit is None


@row(c.Finishing, c.Decided)
def a_strict_run_ends_with_its_answer(play: NewPlay) -> None:
    p = play(profile="strict").until(c.Finishing)
    assert p.tell(c.Decided("continue", True, 80)) == ["turn_end 0", "agent_end 2"]
    assert p.state.reason == "stop"

    p = play(profile="strict").until(c.Finishing, says(why="toolUse"))
    assert p.tell(c.Decided(None, False, 80)) == ["turn_end 0", "agent_end 2"]
    assert p.state.reason == "error"


@row(c.Steering, c.Drained)
def steering_opens_a_further_turn(play: NewPlay) -> None:
    p = play().until(c.Steering)

    assert p.tell(c.Drained((user("wait"),), 20)) == ["? next hook"]
    assert p.tell(c.Prepared(None, 90)) == ["commit", "turn_start", "start user", "deliver user", "? request hook"]


@row(c.Steering, c.Drained)
def unanswered_tools_open_a_further_turn_without_a_look_at_follow_ups(play: NewPlay) -> None:
    p = play().until(c.Steering, calls("a"))

    assert p.tell(c.Drained((), 20)) == ["? next hook"]


@row(c.Steering, c.Drained)
def without_steering_and_tools_follow_ups_are_asked(play: NewPlay) -> None:
    p = play().until(c.Steering)

    assert p.tell(c.Drained((), 20)) == ["? follow_up"]


@row(c.Steering, c.Drained)
def steering_over_the_limit_goes_back_to_its_queue(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_turns=1)).until(c.Steering)

    assert p.tell(c.Drained((user("wait"),), 20)) == ["give back 1+0", "agent_end 2"]
    assert p.state.reason == "max_turns"


@row(c.Steering, c.Drained)
def steering_behind_an_abort_goes_back_to_its_queue(play: NewPlay) -> None:
    p = play().until(c.Steering)
    p.tell(c.Interrupt("stop it"))

    assert p.tell(c.Drained((user("wait"),), 20)) == ["give back 1+0", "agent_end 2"]
    assert (p.state.reason, p.state.limit) == ("aborted", None)


@row(c.Steering, c.Drained)
def an_abort_is_named_before_a_limit(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_turns=1)).until(c.Steering)
    p.tell(c.Interrupt("stop it"))
    p.tell(c.Drained((user("wait"),), 20))

    assert (p.state.reason, p.state.limit) == ("aborted", None)


@row(c.FollowUp, c.Drained)
def nothing_left_to_do_ends_the_run(play: NewPlay) -> None:
    p = play().until(c.FollowUp)

    assert p.tell(c.Drained((), 20)) == ["agent_end 2"]
    assert p.state.reason == "stop"


@row(c.FollowUp, c.Drained)
def a_follow_up_opens_a_turn_and_steering_is_not_asked_again(play: NewPlay) -> None:
    p = play().until(c.FollowUp)

    assert p.tell(c.Drained((user("and then"),), 20)) == ["? next hook"]
    assert p.tell(c.Prepared(None, 90))[:2] == ["commit", "turn_start"]


@row(c.FollowUp, c.Drained)
def a_host_that_wants_more_gets_one_turn_with_the_context_as_it_is(play: NewPlay) -> None:
    p = play().until(c.Finishing)
    p.tell(c.Decided("continue", False, 80))
    p.tell(c.Drained((), 20))

    assert p.tell(c.Drained((), 20)) == ["? next hook"]
    assert p.until(c.Composing).words[-2:] == ["turn_start", "? request hook"]
    assert p.ended() == "stop"
    assert p.roles == ["user", "assistant", "assistant"]


@row(c.FollowUp, c.Drained)
def without_a_next_turn_hook_the_turn_is_opened_at_once(play: NewPlay) -> None:
    p = play(hooks=False).until(c.FollowUp)

    words = p.tell(c.Drained((user("and then"),), 20))

    assert words == ["commit", "turn_start", "start user", "deliver user", "? compose"]


@row(c.FollowUp, c.Drained)
def a_follow_up_over_the_limit_goes_back_to_its_queue(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_turns=1)).until(c.FollowUp)

    assert p.tell(c.Drained((user("and then"),), 20)) == ["give back 1+0", "agent_end 2"]


@row(c.Preparing, c.Prepared)
def prepared_messages_come_before_queued_ones(play: NewPlay) -> None:
    p = play().until(c.Steering)
    p.tell(c.Drained((user("queued"),), 20))

    words = p.tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 90))

    assert words == [
        "commit",
        "turn_start",
        "start user",
        "end user",
        "start user",
        "deliver user",
        "? request hook",
    ]
    assert [m.content for m in p.new[-2:]] == ["prepared", "queued"]


@row(c.Preparing, c.Prepared)
def if_nothing_is_pending_steering_is_asked_once_more(play: NewPlay) -> None:
    """Prepared messages do not count."""
    p = play().until(c.Preparing, calls("a"))

    assert p.tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 90)) == ["? steering"]


@row(c.Preparing, c.Prepared)
def what_the_next_turn_hook_wants_holds_from_now_on(play: NewPlay) -> None:
    p = play().until(c.Preparing, calls("a"))
    other = Model(id="other", provider="q", api="b")

    p.tell(c.Prepared(NextTurn(model=other, context=Context((user("short"),), None)), 90))

    assert p.state.run.model is other
    assert [m.content for m in p.state.run.transcript] == ["short"]
    assert p.state.run.toolbox.tools is None


@row(c.Preparing, c.Prepared)
def a_prepared_system_message_declares_the_tools(play: NewPlay) -> None:
    p = play().until(c.Preparing, calls("a"))
    p.tell(c.Prepared(NextTurn(messages=(SystemMessage(content="new rules"),), context=Context((), (TOOL,))), 90))

    assert p.tell(c.Drained((), 20)) == ["turn_start", "start system", "end system", "? request hook"]
    declared = p.new[-1]
    assert isinstance(declared, SystemMessage)
    assert declared.content == "new rules"
    assert [tool.name for tool in declared.tools_added or ()] == ["tool"]


@row(c.Preparing, c.Prepared)
def an_abort_during_preparation_gives_back_what_was_taken(play: NewPlay) -> None:
    p = play().until(c.Steering)
    p.tell(c.Drained((user("queued"),), 20))
    p.tell(c.Interrupt("stop it"))

    words = p.tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 90))

    assert words == ["give back 1+1", "agent_end 2"]
    assert p.state.reason == "aborted"


@row(c.Preparing, c.Withdrawn)
def a_message_that_was_cleared_is_not_announced(play: NewPlay) -> None:
    p = play().until(c.Steering)
    kept, cleared = user("kept"), user("cleared")
    p.tell(c.Drained((cleared, kept), 20))

    assert p.tell(c.Withdrawn((cleared,))) == []
    p.tell(c.Prepared(None, 90))
    assert p.new[-1] is kept


@row(c.Preparing, c.Withdrawn)
def if_nothing_else_asks_for_it_a_cleared_turn_is_not_opened(play: NewPlay) -> None:
    p = play().until(c.Steering)
    cleared = user("cleared")
    p.tell(c.Drained((cleared,), 20))
    p.tell(c.Withdrawn((cleared,)))

    assert p.tell(c.Prepared(None, 90)) == ["agent_end 2"]
    assert p.state.reason == "stop"


@row(c.Preparing, c.Withdrawn)
def a_cleared_message_does_not_close_a_turn_that_tools_ask_for(play: NewPlay) -> None:
    p = play().until(c.Steering, calls("a"))
    cleared = user("cleared")
    p.tell(c.Drained((cleared,), 20))
    p.tell(c.Withdrawn((cleared,)))

    assert p.tell(c.Prepared(None, 90)) == ["turn_start", "? request hook"]


@row(c.Latecomers, c.Drained)
def steering_that_came_during_preparation_is_taken_behind_prepared_messages(play: NewPlay) -> None:
    p = play().until(c.Preparing, calls("a"))
    p.tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 90))

    words = p.tell(c.Drained((user("late"),), 20))

    assert words[:2] == ["commit", "turn_start"]
    assert [m.content for m in p.new[-2:]] == ["prepared", "late"]


@row(c.Latecomers, c.Drained)
def an_abort_before_the_turn_opens_gives_everything_back(play: NewPlay) -> None:
    p = play().until(c.Preparing, calls("a"))
    p.tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 90))
    p.tell(c.Interrupt("stop it"))

    assert p.tell(c.Drained((user("late"),), 20)) == ["give back 1+1", "agent_end 3"]


# -- failures ----------------------------------------------------------------------------------------------------------


def _failure(p: Play) -> AssistantMessage:
    message = next(m for m in reversed(p.new) if isinstance(m, AssistantMessage))
    assert message.error_message == "it broke"
    return message


def _fails_as_the_answer(p: Play) -> None:
    words = p.tell(BROKE)

    assert words == ["start assistant", "end assistant", "? decision"]
    failure = _failure(p)
    assert (failure.stop_reason, failure.timestamp, failure.model) == ("error", 99, "model")
    assert p.tell(c.Decided("continue", True, 80)) == ["turn_end 0", "agent_end 2"]
    assert p.state.reason == "error"


@row(c.Opening, c.Fault)
def a_failed_first_poll_is_the_answer_of_the_turn(play: NewPlay) -> None:
    _fails_as_the_answer(play())


@row(c.Composing, c.Fault)
def a_failed_request_hook_is_the_answer_of_the_turn(play: NewPlay) -> None:
    _fails_as_the_answer(play().until(c.Composing))


@row(c.Asking, c.Fault)
def a_failed_conversion_is_the_answer_of_the_turn(play: NewPlay) -> None:
    _fails_as_the_answer(play().until(c.Asking))


@row(c.Requesting, c.Fault)
def a_stream_that_raises_is_the_answer_of_the_turn(play: NewPlay) -> None:
    _fails_as_the_answer(play().until(c.Requesting))


@row(c.Requesting, c.Fault)
def a_stream_that_raises_behind_an_abort_counts_as_aborted(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    p.tell(c.Interrupt("stop it"))
    p.tell(BROKE)

    assert _failure(p).stop_reason == "aborted"
    assert p.ended() == "aborted"


@row(c.Asking, c.Fault)
def a_failure_behind_an_abort_needs_no_answer_if_nothing_was_asked(play: NewPlay) -> None:
    for state in (c.Opening, c.Composing, c.Asking):
        p = play().until(state)
        p.tell(c.Interrupt("deadline"))

        assert p.tell(BROKE) == ["turn_end 0", "agent_end 1"]
        assert p.state.reason == "deadline"


@row(c.Responding, c.Fault)
def what_has_arrived_becomes_the_failure_and_its_calls_are_answered(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    p.tell(BEGUN)
    p.tell(DELTA)

    assert p.tell(BROKE) == ["end assistant", "? decision"]
    assert [block.text for block in _failure(p).content] == ["so far"]  # type: ignore[union-attr]


@row(c.Responding, c.Fault)
def a_call_that_had_arrived_is_answered_and_not_run(play: NewPlay) -> None:
    p = play().until(c.Requesting)
    p.tell(BEGUN)
    p.tell(ToolCallEnd(content_index=0, tool_call=ToolCall(id="a", name="tool", arguments={})))

    assert p.tell(BROKE)[1:3] == ["call a", "over a: error"]


@row(c.Checking, c.Fault)
def a_failure_while_calls_are_checked_answers_all_of_them(play: NewPlay) -> None:
    p = play().until(c.Checking, calls("a", "b", "c"))
    p.tell(c.Checked(None, 60))

    words = p.tell(BROKE)

    assert words == [
        "over a: fault",
        "over b: fault",
        "call c",
        "over c: fault",
        *["start toolResult", "end toolResult"] * 3,
        "start assistant",
        "end assistant",
        "turn_end 3",
        "agent_end 6",
    ]
    assert p.commands[-2].message is p.new[-1]
    assert _failure(p).timestamp >= 99
    assert p.state.reason == "error"


@row(c.Executing, c.Fault)
def a_failure_while_calls_run_waits_for_them(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a", "b"))

    assert p.tell(BROKE) == []
    assert p.tell(c.Finished(0, FINE, 70)) == ["over a"]
    words = p.tell(c.Finished(1, FINE, 70))

    assert words[0] == "over b"
    assert words[-2:] == ["turn_end 2", "agent_end 5"]
    assert p.roles[-1] == "assistant"
    assert p.state.reason == "error"


@row(c.Executing, c.Fault)
def calls_that_had_not_begun_are_answered_at_once_and_not_counted(play: NewPlay) -> None:
    p = play().until(c.Executing, calls("a", "b"))

    words = p.tell(c.Fault("it broke", 99, (0, 1)))

    assert words[:2] == ["over a: fault", "over b: fault"]
    assert p.state.run.tally.tool_calls == 0


@row(c.Executing, c.Fault)
def calls_that_had_not_begun_are_not_counted_for_their_tool(play: NewPlay) -> None:
    """A budget is used by several runs: it must not be charged with what did not happen."""
    p = play(limits=RunLimits(max_calls_of=(("tool", 3),))).until(c.Executing, calls("a", "b"))
    assert p.state.run.tally.calls_of == (("tool", 2),)

    p.tell(c.Fault("it broke", 99, (1,)))

    assert p.state.run.tally.calls_of == (("tool", 1),)


@row(c.Executing, c.Fault)
def ordered_calls_behind_a_failure_are_answered_in_their_order(play: NewPlay) -> None:
    p = play(mode="sequential").until(c.Executing, calls("a", "b"))
    p.tell(BROKE)

    words = p.tell(c.Finished(0, FINE, 70))

    assert words[:5] == ["over a", "start toolResult", "end toolResult", "call b", "over b: fault"]


@row(c.Executing, c.Fault)
def the_first_failure_is_told_and_a_critical_one_names_the_end(play: NewPlay) -> None:
    """After an abort a failure is no news, unless the store itself is broken."""
    for critical, reason in ((False, "aborted"), (True, "error")):
        p = play().until(c.Executing, calls("a"))
        p.tell(c.Interrupt("stop it"))
        p.tell(BROKE)
        p.tell(c.Fault("the store broke", 99, (), critical))
        p.tell(c.Finished(0, FINE, 70))

        assert _failure(p).error_message == "it broke"
        assert p.state.reason == reason


@row(c.Finishing, c.Fault)
def a_failed_finish_hook_stands_behind_the_results(play: NewPlay) -> None:
    p = play().until(c.Finishing, calls("a"))

    words = p.tell(BROKE)

    assert words == ["start assistant", "end assistant", "turn_end 1", "agent_end 4"]
    assert p.commands[2].message is _failure(p)
    assert p.state.reason == "error"


@row(c.Finishing, c.Fault)
def a_critical_failure_comes_before_an_abort(play: NewPlay) -> None:
    for state in (c.Composing, c.Requesting, c.Finishing, c.Steering):
        p = play().until(state)
        p.tell(c.Interrupt("stop it"))
        p.tell(c.Fault("it broke", 99, (), critical=True))

        assert p.ended() == "error"


def _opens_a_turn_for_the_failure(p: Play, *, given_back: str | None = None) -> None:
    words = p.tell(BROKE)

    returned = [] if given_back is None else [given_back]
    assert words[:-1] == [*returned, "turn_start", "start assistant", "end assistant", "turn_end 0"]
    assert _failure(p) is p.new[-1]
    assert p.state.reason == "error"


@row(c.Steering, c.Fault)
def a_failed_steering_poll_gets_a_turn_of_its_own(play: NewPlay) -> None:
    _opens_a_turn_for_the_failure(play().until(c.Steering))


@row(c.FollowUp, c.Fault)
def a_failed_follow_up_poll_gets_a_turn_of_its_own(play: NewPlay) -> None:
    _opens_a_turn_for_the_failure(play().until(c.FollowUp))


@row(c.Preparing, c.Fault)
def a_failed_next_turn_hook_gives_back_what_was_taken(play: NewPlay) -> None:
    p = play().until(c.Steering)
    p.tell(c.Drained((user("queued"),), 20))

    _opens_a_turn_for_the_failure(p, given_back="give back 1+0")


@row(c.Limited, c.Fault)
def a_store_that_fails_at_the_end_of_the_last_turn_is_a_failure_not_a_limit(play: NewPlay) -> None:
    p = play(limits=RunLimits(max_turns=1)).until(c.Limited, calls("a"))

    _opens_a_turn_for_the_failure(p)


@row(c.Latecomers, c.Fault)
def a_failed_second_poll_names_prepared_messages_as_undelivered(play: NewPlay) -> None:
    p = play().until(c.Preparing, calls("a"))
    p.tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 90))

    _opens_a_turn_for_the_failure(p, given_back="give back 0+1")


@row(c.Ended, c.Fault)
def a_failure_behind_the_end_only_changes_the_reason(play: NewPlay) -> None:
    p = play().until(c.Ended)

    assert p.tell(BROKE) == []
    assert p.state.reason == "error"


@row(c.Ended, c.Fault)
def the_reference_tells_its_failure_sequence_wherever_it_is(play: NewPlay) -> None:
    """Only the failure counts as a message of the run; what was open stays open."""
    for state in (
        c.Opening,
        c.Composing,
        c.Asking,
        c.Requesting,
        c.Checking,
        c.Executing,
        c.Finishing,
        c.Steering,
        c.FollowUp,
        c.Preparing,
        c.Latecomers,
        c.Ended,
    ):
        answer = None if state in (c.FollowUp, c.Ended) else calls("a")
        p = play(profile="pi").until(state, answer)

        words = p.tell(BROKE)

        assert words == ["start assistant", "end assistant", "turn_end 0", "agent_end 1"], state.__name__
        assert [block.text for block in _failure(p).content] == [""]  # type: ignore[union-attr]
        assert p.state.reason == "error"


@row(c.Responding, c.Fault)
def the_reference_loses_what_had_arrived(play: NewPlay) -> None:
    p = play(profile="pi").until(c.Requesting)
    p.tell(BEGUN)
    p.tell(c.Interrupt("stop it"))

    assert p.tell(BROKE)[-1] == "agent_end 1"
    assert _failure(p).stop_reason == "aborted"
    assert p.state.reason == "aborted"


# -- abort -------------------------------------------------------------------------------------------------------------


@row(c.Steering, c.Interrupt)
def an_abort_is_noted_in_every_state_and_the_first_reason_stays(play: NewPlay) -> None:
    for state in (c.Opening, c.Asking, c.Requesting, c.Checking, c.Executing, c.Finishing, c.Steering, c.Preparing):
        p = play().until(state, calls("a"))

        assert p.tell(c.Interrupt("first")) == []
        assert p.tell(c.Interrupt("second")) == []
        assert type(p.state) is state
        assert p.state.run.stopped == "first"

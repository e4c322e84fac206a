"""Answers as values: what they contain, how they stream, how they combine."""

from __future__ import annotations

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response import answer_begun
from antiphon.core.response_events import Done, Failed, Start
from antiphon.core.usage import Usage
from antiphon.testing import SCRIPTED_MODEL, Answer, call, calls, cut_off, fails, says, thinks
from antiphon.testing.script import events_of, names_called


def streamed(answer: Answer) -> AssistantMessage:
    """What a reader of the stream has put together before the final message."""
    first, *growth, _final = events_of(answer, SCRIPTED_MODEL)
    assert isinstance(first, Start)
    live = answer_begun(first.message)
    for event in growth:
        live = live.grow(event)
    return live.freeze()


def test_pieces_of_a_text_arrive_one_by_one_and_make_the_whole() -> None:
    answer = says("Hel", "lo")

    events = events_of(answer, SCRIPTED_MODEL)

    assert [event.type for event in events] == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    assert answer.content == (Text(text="Hello"),)
    assert streamed(answer).content == answer.content


def test_an_answer_can_think_speak_and_call() -> None:
    answer = thinks("hm") + says("Let me look.") + calls("A", call("read", {"path": "x"}, id="r1"))

    assert answer.content == (
        Thinking(thinking="hm"),
        Text(text="Let me look."),
        ToolCall(id="A", name="A", arguments={}),
        ToolCall(id="r1", name="read", arguments={"path": "x"}),
    )
    assert answer.stop_reason == "toolUse"
    assert streamed(answer).content == answer.content


def test_a_failing_answer_keeps_what_had_arrived() -> None:
    *_growth, last = events_of(fails("overloaded", after=says("half")), SCRIPTED_MODEL)

    assert isinstance(last, Failed)
    assert (last.error.stop_reason, last.error.error_message) == ("error", "overloaded")
    assert last.error.content == (Text(text="half"),)


def test_a_cut_off_answer_ends_with_length() -> None:
    last = events_of(cut_off(calls("A")), SCRIPTED_MODEL)[-1]

    assert isinstance(last, Done)
    assert last.message.stop_reason == "length"


def test_usage_is_part_of_the_final_message() -> None:
    usage = Usage(input=3, output=4, total_tokens=7)

    assert says("hi").costing(usage).message().usage == usage


def test_the_tools_of_a_script_are_found_once_each() -> None:
    script = [calls("A", "B"), says("x") + calls("B"), lambda _request: says("made later")]

    assert names_called(script) == ("A", "B")

"""The growing answer: a snapshot shows its own moment, whenever it is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response import AnswerSoFar, answer_begun
from antiphon.core.response_events import (
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from antiphon.core.usage import Usage

BASE = AssistantMessage(
    content=(), api="a", provider="p", model="m", usage=Usage(input=1), stop_reason="pending", timestamp=5
)


def grown(*events: Any) -> AnswerSoFar:
    answer = answer_begun(BASE)
    for event in events:
        answer = answer.grow(event)
    return answer


def test_text_grows_and_its_end_has_the_last_word() -> None:
    answer = grown(
        TextStart(content_index=0), TextDelta(content_index=0, delta="a"), TextDelta(content_index=0, delta="b")
    )
    assert answer.content == (Text(text="ab"),)
    assert answer.grow(TextEnd(content_index=0, content="AB")).content == (Text(text="AB"),)
    signed = Text(text="ab", text_signature="s")
    assert answer.grow(TextEnd(content_index=0, content="ab", block=signed)).content == (signed,)


def test_thinking_grows_beside_text() -> None:
    answer = grown(
        ThinkingStart(content_index=0),
        ThinkingDelta(content_index=0, delta="h"),
        TextStart(content_index=1, block=Text(text="x", text_signature="s")),
        ThinkingDelta(content_index=0, delta="m"),
        TextDelta(content_index=1, delta="y"),
    )
    assert answer.content == (Thinking(thinking="hm"), Text(text="xy", text_signature="s"))
    assert answer.grow(ThinkingEnd(content_index=0, content="hm!")).content[0] == Thinking(thinking="hm!")
    hidden = Thinking(thinking="", thinking_signature="s", redacted=True)
    assert answer.grow(ThinkingStart(content_index=2, block=hidden)).content[2] == hidden
    assert answer.grow(ThinkingEnd(content_index=0, content="", block=hidden)).content[0] == hidden


def test_arguments_can_be_read_while_they_stream() -> None:
    answer = grown(
        ToolCallStart(content_index=0, id="c", name="n"),
        ToolCallDelta(content_index=0, delta='{"path": "a/b", "te'),
        ToolCallDelta(content_index=0, delta='xt": "ha'),
    )
    call = answer.content[0]
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.arguments) == ("c", "n", {"path": "a/b", "text": "ha"})
    whole = ToolCall(id="c", name="n", arguments={"path": "a/b"})
    assert answer.grow(ToolCallEnd(content_index=0, tool_call=whole)).content == (whole,)
    own = answer.grow(ToolCallDelta(content_index=0, delta="x", arguments={"given": 1}))
    assert own.content[0].arguments == {"given": 1}  # type: ignore[union-attr]


def test_arguments_that_were_handed_out_never_change() -> None:
    answer = grown(
        ToolCallStart(content_index=0, id="c", name="n"), ToolCallDelta(content_index=0, delta='{"a": [1, [2')
    )
    seen = answer.content[0].arguments  # type: ignore[union-attr]
    before = repr(seen)
    answer.grow(ToolCallDelta(content_index=0, delta=", 3], 4]}")).content  # noqa: B018
    assert repr(seen) == before


def test_what_never_started_is_shown_all_the_same() -> None:
    assert grown(TextDelta(content_index=1, delta="x")).content == (Text(text=""), Text(text="x"))
    assert grown(ThinkingDelta(content_index=0, delta="x")).content == (Thinking(thinking="x"),)
    assert grown(ToolCallDelta(content_index=0, delta='{"a":1}')).content == (
        ToolCall(id="", name="", arguments={"a": 1}),
    )
    reopened = grown(TextEnd(content_index=0, content="a"), TextDelta(content_index=0, delta="b"))
    assert reopened.content == (Text(text="ab"),)
    thought = grown(ThinkingEnd(content_index=0, content="a"), ThinkingDelta(content_index=0, delta="b"))
    assert thought.content == (Thinking(thinking="ab"),)


def test_it_reads_like_an_answer() -> None:
    answer = grown(TextDelta(content_index=0, delta="x"))
    assert (answer.role, answer.stop_reason) == ("assistant", "pending")
    assert (answer.api, answer.provider, answer.model) == ("a", "p", "m")
    assert (answer.usage.input, answer.timestamp) == (1, 5)
    frozen = answer.freeze()
    assert isinstance(frozen, AssistantMessage)
    assert (frozen.content, frozen.stop_reason) == ((Text(text="x"),), "pending")
    assert answer == grown(TextDelta(content_index=0, delta="x"))
    assert answer != grown(TextDelta(content_index=0, delta="y"))
    assert answer != 5


DELTAS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["text", "thinking"]), st.text(max_size=3)), min_size=1, max_size=12
)


@given(DELTAS, st.randoms(use_true_random=False))
def test_snapshots_show_their_moment_in_any_order_of_looks(pieces: list[tuple[int, str, str]], random: Any) -> None:
    make = {"text": TextDelta, "thinking": ThinkingDelta}
    events = [make[kind](content_index=index, delta=delta) for index, kind, delta in pieces]
    snapshots = [answer_begun(BASE)]
    for event in events:
        snapshots.append(snapshots[-1].grow(event))
    alone = [grown(*events[:n]).content for n in range(len(events) + 1)]
    order = list(range(len(snapshots)))
    random.shuffle(order)
    for place in order:
        assert snapshots[place].content == alone[place]


def test_a_snapshot_that_grows_twice_parts_into_two_answers() -> None:
    start = grown(TextDelta(content_index=0, delta="a"))
    left, right = start.grow(TextDelta(content_index=0, delta="l")), start.grow(TextDelta(content_index=0, delta="r"))
    assert (left.content, right.content, start.content) == ((Text(text="al"),), (Text(text="ar"),), (Text(text="a"),))


@pytest.mark.parametrize("count", [100, 10_000])
def test_a_delta_costs_no_copy_of_the_text_so_far(count: int) -> None:
    """Nobody looks, so nothing is joined: the log holds the pieces, and only the last look pays."""
    answer = grown(TextStart(content_index=0), *[TextDelta(content_index=0, delta="x")] * count)
    assert answer.log.fold is None
    assert len(answer.log.events) == count + 1
    assert answer.content == (Text(text="x" * count),)

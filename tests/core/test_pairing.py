"""Every call gets exactly one result, directly behind its answer; what is whole stays untouched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.pairing import repaired, unanswered


def answer(*ids: str) -> AssistantMessage:
    return AssistantMessage(
        content=tuple(ToolCall(id=i, name=f"t{i}", arguments={}) for i in ids), stop_reason="toolUse" if ids else "stop"
    )


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="t", content=(Text(text="ok"),), is_error=False)


def test_a_whole_transcript_stays_as_it_is() -> None:
    messages = (UserMessage(content="go"), answer("a", "b"), result("a"), result("b"), answer())
    assert unanswered(messages) == ()
    assert repaired(messages) == messages


def test_a_missing_result_stands_behind_the_others_of_its_answer() -> None:
    said = UserMessage(content="next")
    fixed = repaired((answer("a", "b"), result("a"), said), at=7)
    assert [getattr(m, "tool_call_id", m.role) for m in fixed] == ["assistant", "a", "b", "user"]
    made = fixed[2]
    assert isinstance(made, ToolResultMessage)
    assert (made.is_error, made.timestamp, made.details) == (True, 7, {"cutOff": True, "reason": "fault"})
    assert "tb" in made.content[0].text  # type: ignore[union-attr]


def test_an_open_end_is_closed() -> None:
    assert [c.id for c in unanswered((answer("a"),))] == ["a"]
    assert len(repaired((answer("a", "b"),))) == 3


def test_a_result_answers_the_last_call_of_its_id() -> None:
    """Ids may repeat across answers; the second answer's call is the open one."""
    assert [c.id for c in unanswered((answer("a"), result("a"), answer("a")))] == ["a"]


def test_equal_ids_in_one_answer_need_a_result_each() -> None:
    assert len(repaired((answer("a", "a"), result("a")))) == 3


PIECES = st.sampled_from(["user", "answer a", "answer a b", "answer", "result a", "result b"])


@given(st.lists(PIECES, max_size=12))
def test_repair_pairs_every_call_and_a_second_repair_changes_nothing(pieces: list[str]) -> None:
    messages: list[Message] = []
    for piece in pieces:
        kind, *ids = piece.split()
        messages.append(
            UserMessage(content="u") if kind == "user" else answer(*ids) if kind == "answer" else result(ids[0])
        )
    fixed = repaired(messages)
    assert unanswered(fixed) == ()
    assert repaired(fixed) == fixed
    assert len(fixed) == len(messages) + len(unanswered(messages))

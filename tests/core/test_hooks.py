"""What hooks are told."""

from __future__ import annotations

from antiphon.core.content import Text, ToolCall
from antiphon.core.hooks import BeforeToolCall, Context, position_of
from antiphon.core.messages import AssistantMessage


def test_a_call_is_known_by_its_place_not_by_its_id() -> None:
    first, second, nested = (ToolCall(id="same", name="look", arguments={}) for _ in range(3))
    answer = AssistantMessage(content=(Text(text="so"), first, second), stop_reason="toolUse")

    places = [position_of(BeforeToolCall(answer, call, {}, Context())) for call in (first, second, nested)]

    assert places == [0, 1, None]

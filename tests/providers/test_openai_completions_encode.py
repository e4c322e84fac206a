"""Chat Completions requests: what servers differ in, and what a history turns into."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.providers.asking import model, request

from antiphon.core.content import Image, Text, Thinking, ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, SystemMessage, ToolResultMessage, user
from antiphon.core.model import Model
from antiphon.providers.house_texts import BRIDGE, IMAGES_FOLLOW, NO_RESULT
from antiphon.providers.openai_completions.client import OpenAICompletions
from antiphon.providers.options import read_options


def sent(asked: Model, messages: Any = (user("Hi"),), **options: Any) -> Any:
    wanted = request(asked, messages, **options)
    return OpenAICompletions().prepare(wanted, read_options(wanted)).request


def body(asked: Model, messages: Any = (user("Hi"),), **options: Any) -> Any:
    return json.loads(sent(asked, messages, **options).body)


def calls(*ids: str, **more: Any) -> AssistantMessage:
    content = (*more.pop("before", ()), *(ToolCall(id=id_, name="look", arguments={"n": 1}) for id_ in ids))
    fields: dict[str, Any] = {"api": "openai-completions", "provider": "example", "model": "small", **more}
    return AssistantMessage(content=content, stop_reason="toolUse", **fields)


def result(id_: str, *content: Any) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=id_, tool_name="look", content=content or (Text(text="ok"),), is_error=False)


PICTURE = Image(data="AAAA", mime_type="image/png")


def test_images_of_a_run_of_results_follow_it_once() -> None:
    asked = model(input=("text", "image"))
    history = [user("go"), calls("a", "b"), result("a", PICTURE), result("b", Text(text="t"), PICTURE), user("so?")]

    messages = body(asked, history)["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert [part.get("text") for part in messages[4]["content"]] == [IMAGES_FOLLOW, None, None]


def test_a_bridge_stands_wherever_a_user_would_follow_a_result() -> None:
    asked = model(compat={"requiresAssistantAfterToolResult": True})

    messages = body(asked, [user("go"), calls("a"), result("a"), user("so?")])["messages"]

    assert [message.get("content") for message in messages] == ["go", "", "ok", BRIDGE, "so?"]


def test_an_unanswered_call_is_answered_before_the_next_word_and_at_the_end() -> None:
    messages = body(model(), [user("go"), calls("a", "b"), result("b"), user("stop"), calls("c")])["messages"]

    assert [message["role"] for message in messages] == [
        "user", "assistant", "tool", "tool", "user", "assistant", "tool",
    ]  # fmt: skip
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["ok", NO_RESULT, NO_RESULT]


def test_reasoning_goes_back_in_the_field_it_came_in_but_only_to_its_model() -> None:
    before = (Thinking(thinking="hm", thinking_signature="reasoning_content"),)

    own = body(model(), [user("go"), calls("a", before=before)])["messages"][1]
    foreign = body(model(id="other"), [user("go"), calls("a", before=before)])["messages"][1]

    assert own["reasoning_content"] == "hm"
    assert "hm" not in json.dumps(foreign)


@pytest.mark.parametrize(
    ("id_", "wire"),
    [
        ("call_1|fc_2", "call_1_fc_2"),
        ("ca.ll|fc/2", "ca_ll_fc_2"),
        ("plain.id with blanks", "plain.id with blanks"),
    ],
)
def test_foreign_ids_fit_and_results_follow_them(id_: str, wire: str) -> None:
    messages = body(model(), [user("go"), calls(id_, api="openai-responses"), result(id_)])["messages"]

    assert (messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]) == (wire, wire)


def test_long_foreign_ids_are_cut_and_stay_different() -> None:
    one, two = "call_" + "x" * 50 + "|fc_1", "call_" + "x" * 50 + "|fc_2"

    messages = body(model(), [user("go"), calls(one, two, api="openai-responses"), result(one), result(two)])[
        "messages"
    ]

    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in messages[2:]]
    assert len(set(ids)) == 2
    assert all(len(id_) <= 40 for id_ in ids)


@pytest.mark.parametrize(
    ("budgets", "level", "cap", "expected"),
    [
        ({}, "high", 50_000, 16_384),
        ({}, "high", 5_000, 3_976),
        ({}, "high", 1_000, None),
        ({"low": 333}, "low", 50_000, 333),
        ({"high": 900}, "xhigh", 50_000, 900),
        ({}, "off", 50_000, None),
    ],
)
def test_a_thinking_budget_leaves_room_for_the_answer(
    budgets: dict[str, int], level: str, cap: int, expected: int | None
) -> None:
    asked = model(
        reasoning=True,
        thinking_level_map={"xhigh": "xhigh"},
        max_tokens=50_000,
        context_window=1_000_000,
        compat={"supportsThinkingTokenBudget": True},
    )

    fields = body(asked, level=level, max_tokens=cap, thinking_budgets=budgets)

    assert fields.get("thinking_token_budget") == expected


def test_the_answer_gets_what_the_window_still_holds() -> None:
    asked = model(context_window=10_000, max_tokens=8_000)

    assert body(asked)["max_completion_tokens"] == 5_903
    assert body(asked, max_tokens=100)["max_completion_tokens"] == 100
    assert "max_completion_tokens" not in body(asked, entry="raw")


def test_lone_surrogates_go_nowhere() -> None:
    half = "x\ud83dy"
    tool = ToolDeclaration(name="t", description=half, parameters={"type": "object", "description": half})
    history = [
        SystemMessage(content=half, tools_added=(tool,)),
        user(half),
        AssistantMessage(
            content=(Text(text=half), ToolCall(id="a", name="t", arguments={"k": half})), stop_reason="toolUse"
        ),
        result("a", Text(text=half)),
    ]

    request_ = sent(model(), history, session_id=half)

    assert b"\\ud83d" not in request_.body
    assert json.loads(request_.body)["messages"][0]["content"] == "xy"


def test_a_tool_that_insists_on_strict_sampling_is_refused_where_it_cannot_have_it() -> None:
    loose = {"type": "object", "properties": {"a": {"oneOf": []}}}
    tool = ToolDeclaration(
        name="t",
        description="d",
        parameters=loose,
        constrained_sampling={"type": "json_schema", "strict": "require"},
    )
    with pytest.raises(Exception, match="tool t requires strict sampling"):
        sent(model(compat={"supportsStrictMode": True}), [SystemMessage(tools_added=(tool,)), user("go")])

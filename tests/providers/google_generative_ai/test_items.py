"""Messages become items of `contents`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.providers.conversations import IMAGE, call, result, said, user
from tests.providers.streams import GEMINI

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import Message
from antiphon.providers import house_texts
from antiphon.providers.google_generative_ai.dialect import GeminiDialect
from antiphon.providers.google_generative_ai.items import ContentItems, ItemRules

RECENT = GeminiDialect(call_ids=True, images_in_results=True, strict_tools=True, thinking_levels=True)
OLD = GeminiDialect(call_ids=False, images_in_results=False, strict_tools=False, thinking_levels=False)
WIRE_IMAGE = {"inlineData": {"mimeType": IMAGE.mime_type, "data": IMAGE.data}}


def items(*messages: Message, dialect: GeminiDialect = RECENT) -> list[dict[str, Any]]:
    fold = ContentItems(ItemRules(dialect))
    return [item for message in messages for item in fold.feed(message)] + fold.finish()


def turn(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def test_user_messages_are_sent_even_if_blank_but_not_if_empty() -> None:
    assert items(user(""), user(), user("a\ud83d", IMAGE)) == [
        turn("user", {"text": ""}),
        turn("user", {"text": "a"}, WIRE_IMAGE),
    ]


def test_answers_carry_valid_signatures_and_ids() -> None:
    message = said(
        GEMINI,
        Thinking(thinking="t", thinking_signature="QUJD"),
        Text(text="b", text_signature="not base64!"),
        Text(text="", text_signature="QUJD"),
        Text(text=" "),
        ToolCall(id="f1", name="read", arguments={"p": 1}, thought_signature="QUI="),
    )

    assert items(message) == [
        turn(
            "model",
            {"thought": True, "text": "t", "thoughtSignature": "QUJD"},
            {"text": "b"},
            {"text": "", "thoughtSignature": "QUJD"},
            {"functionCall": {"name": "read", "args": {"p": 1}, "id": "f1"}, "thoughtSignature": "QUI="},
        )
    ]
    assert items(said(GEMINI, call("f1")), dialect=OLD) == [
        turn("model", {"functionCall": {"name": "read", "args": {}}})
    ]
    assert items(said(GEMINI, " ")) == []


@pytest.mark.parametrize("signature", ["", "abc", "ab=c", "QUJD\n", "QUJ\u0661", "===="])
def test_a_signature_that_is_no_base64_is_left_out(signature: str) -> None:
    (item,) = items(said(GEMINI, Text(text="b", text_signature=signature)))

    assert item["parts"] == [{"text": "b"}]


def test_results_stay_together_and_images_of_older_models_follow() -> None:
    results = (result("a", "1", IMAGE), result("b", IMAGE), result("c", "bad", is_error=True))

    def response(words: str, *, error: bool = False) -> dict[str, Any]:
        return {"functionResponse": {"name": "read", "response": {"error" if error else "output": words}}}

    assert items(*results, user("x"), dialect=OLD) == [
        turn("user", response("1"), response(house_texts.SEE_IMAGE), response("bad", error=True)),
        turn("user", {"text": house_texts.TOOL_IMAGE}, WIRE_IMAGE),
        turn("user", {"text": house_texts.TOOL_IMAGE}, WIRE_IMAGE),
        turn("user", {"text": "x"}),
    ]


def test_images_stand_inside_the_result_where_they_may() -> None:
    (item,) = items(result("a", IMAGE))

    assert item["parts"][0]["functionResponse"] == {
        "name": "read",
        "response": {"output": house_texts.SEE_IMAGE},
        "id": "a",
        "parts": [WIRE_IMAGE],
    }


def test_a_copy_does_not_share_what_is_held_back() -> None:
    fold = ContentItems(ItemRules(RECENT))
    fold.feed(result("a", "1"))
    twin = fold.copy()
    twin.feed(result("b", "2"))

    assert len(fold.finish()[0]["parts"]) == 1
    assert len(twin.finish()[0]["parts"]) == 2

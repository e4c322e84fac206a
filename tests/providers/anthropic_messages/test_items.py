"""Messages become items of the `messages` list."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.providers.conversations import IMAGE, READ, call, result, said, system, user
from tests.providers.streams import CLAUDE

from antiphon.core.content import Foreign, Thinking
from antiphon.core.declarations import ToolName
from antiphon.core.messages import Message
from antiphon.providers import house_texts
from antiphon.providers.anthropic_messages.items import ItemRules, MessageItems, marked
from antiphon.providers.dialects import AnthropicDialect

WIRE_IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": IMAGE.mime_type, "data": IMAGE.data},
}


def rules(**flags: Any) -> ItemRules:
    given: dict[str, Any] = {"strict": True, "tools_in_place": False, "efforts": False, "dialect": AnthropicDialect()}
    return ItemRules(api=CLAUDE.api, provider=CLAUDE.provider, model=CLAUDE.id, **(given | flags))


def items(*messages: Message, given: ItemRules | None = None) -> list[dict[str, Any]]:
    fold = MessageItems(given or rules())
    return [item for message in messages for item in fold.feed(message)] + fold.finish()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_blank_texts_are_not_sent() -> None:
    """The server refuses them; a message that holds nothing else is left out."""
    assert items(user(""), user(" \n"), user("a", " "), said(CLAUDE, " "), user("\ud83d")) == [
        {"role": "user", "content": [text("a")]}
    ]


def test_results_of_a_batch_form_one_user_message() -> None:
    assert items(result("a", "1"), result("b", "2", "3"), user("x")) == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": False},
                {"type": "tool_result", "tool_use_id": "b", "content": "2\n3", "is_error": False},
            ],
        },
        {"role": "user", "content": "x"},
    ]


def test_an_image_result_gets_words_and_an_error_result_gets_its_image_later() -> None:
    (item,) = items(result("a", IMAGE), result("b", "bad", IMAGE, is_error=True), result("c", IMAGE, is_error=True))
    first, second, third, *later = item["content"]

    assert first["content"] == [text(house_texts.SEE_IMAGE), WIRE_IMAGE]
    assert second["content"] == f"bad\n{house_texts.ERROR_IMAGE_LATER}"
    assert third["content"] == house_texts.ERROR_IMAGE_LATER
    assert later == [
        text(house_texts.error_image_caption("b", "read")),
        WIRE_IMAGE,
        text(house_texts.error_image_caption("c", "read")),
        WIRE_IMAGE,
    ]


def test_thinking_goes_back_as_the_server_gave_it() -> None:
    thinking = (
        Thinking(thinking="", thinking_signature="S"),
        Thinking(thinking="hidden", thinking_signature="ENC", redacted=True),
        Thinking(thinking="unsigned", thinking_signature=" "),
        Thinking(thinking=" "),
    )

    (item,) = items(said(CLAUDE, *thinking))
    (lenient,) = items(said(CLAUDE, *thinking), given=rules(dialect=AnthropicDialect(allow_empty_signature=True)))

    assert item["content"] == [
        {"type": "thinking", "thinking": "", "signature": "S"},
        {"type": "redacted_thinking", "data": "ENC"},
        text("unsigned"),
    ]
    assert lenient["content"][2] == {"type": "thinking", "thinking": "unsigned", "signature": ""}


def test_system_messages_wait_for_the_next_answer_that_is_sent() -> None:
    note = system("Note", sections={"a": "new", "b": None})
    expected = {
        "role": "system",
        "content": [text(f"Note\n\n{house_texts.section_updated('a')}\n\nnew\n\n{house_texts.section_removed('b')}")],
    }
    found = items(system("Base"), user("x"), note, user("y"), said(CLAUDE, " "), said(CLAUDE, "z"), user("w"))

    assert [item["role"] for item in found] == ["user", "user", "system", "assistant", "user"]
    assert found[2] == expected
    assert items(system("Base"), user("x"), note)[-1] == expected


def test_a_leading_system_message_is_no_item_and_an_empty_one_says_nothing() -> None:
    assert items(system("Base"), system(""), user("x")) == [{"role": "user", "content": "x"}]


def test_tools_that_change_in_place_are_removed_and_defined() -> None:
    change = system("", tools_added=(READ,), tools_removed=(ToolName(name="old"), ToolName(name="read")))
    (item,) = items(system("Base"), change, given=rules(tools_in_place=True))
    removal, addition = item["content"]

    assert removal == {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "old"}}
    assert addition["tool"]["type"] == "tool_definition"
    assert addition["tool"]["definition"]["name"] == "read"


def test_own_answers_are_preceded_by_the_effort_they_were_made_with() -> None:
    own = said(CLAUDE, "a", provider_thinking_level="low")
    foreign = said(msgspec.structs.replace(CLAUDE, id="other"), "b", provider_thinking_level="low")
    found = items(own, foreign, said(CLAUDE, "c"), given=rules(efforts=True))

    assert found[0] == {"role": "system", "content": [], "output_config": {"effort": "low"}}
    assert [item["role"] for item in found] == ["system", "assistant", "assistant", "assistant"]


def test_a_copy_does_not_share_what_is_held_back() -> None:
    fold = MessageItems(rules())
    fold.feed(result("a", "1"))
    twin = fold.copy()
    twin.feed(result("b", "2"))

    assert len(fold.finish()[0]["content"]) == 1
    assert len(twin.finish()[0]["content"]) == 2


def test_the_mark_goes_on_the_last_block() -> None:
    mark = {"type": "ephemeral"}

    assert marked({"role": "user", "content": "x"}, mark) == {
        "role": "user",
        "content": [{"type": "text", "text": "x", "cache_control": mark}],
    }
    blocks = {"role": "system", "content": [text("a"), text("b")]}
    assert marked(blocks, mark) == {"role": "system", "content": [text("a"), {**text("b"), "cache_control": mark}]}
    assert blocks == {"role": "system", "content": [text("a"), text("b")]}
    answer = {"role": "assistant", "content": [text("a")]}
    assert marked(answer, mark) is answer
    assert marked({"role": "system", "content": [], "output_config": {}}, mark) is None


def test_blocks_of_unknown_kinds_are_left_out() -> None:
    (item,) = items(said(CLAUDE, "a", Foreign(extra={"type": "video"}), call("t", path="x")))  # type: ignore[arg-type]

    assert [block["type"] for block in item["content"]] == ["text", "tool_use"]

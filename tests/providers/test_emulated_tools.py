"""What a server without tools is asked: words and a schema, within the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.providers.conversations import READ, call, result, said, system, user

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import Message
from antiphon.core.model import Model
from antiphon.core.system_state import replay
from antiphon.providers import emulated_tools, guided_tools
from antiphon.providers.emulated_tools import Asked, cut, plain_schema, room, size

MODEL = Model(id="m", provider="p", api="openai-completions")
ADD = ToolDeclaration(
    name="add",
    description="Add two numbers. They may be negative.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["a", "b"],
    },
)
BEGIN = system("Be kind.", tools_added=(READ, ADD))


def ask(*messages: Message, room: int = 100_000, choice: Any = None, guided: bool = False) -> Asked:
    given = [BEGIN, *messages]
    how = guided_tools.ask if guided else emulated_tools.ask
    return how(given, replay(given), room, choice)


def tools_in(asked: Asked) -> list[str]:
    """Tools that the schema admits, `answer` for words."""
    schema = asked.schema or {}
    options: Sequence[Any] = schema.get("anyOf", [schema])
    return [option["properties"]["tool"]["const"] if "tool" in option["properties"] else "answer" for option in options]


def text_of(asked: Asked) -> str:
    return "\n".join(message["content"] for message in asked.messages)


class TestTheModelChooses:
    def test_a_call_or_an_answer_is_admitted(self) -> None:
        assert tools_in(ask(user("Hi"))) == ["read", "add", "answer"]

    def test_prompt_tools_and_arguments_are_told(self) -> None:
        told = ask(user("Hi")).messages[0]
        assert told["role"] == "system"
        for words in ("Be kind.", "read", "path (string)", "add", "note (string, optional)"):
            assert words in told["content"]

    def test_history_is_told_in_the_shape_that_is_asked_for(self) -> None:
        asked = ask(user("Look"), said(MODEL, call("1", path="a")), result("1", "text of a"), said(MODEL, "It says a."))
        roles = [message["role"] for message in asked.messages]
        assert roles == ["system", "user", "assistant", "user", "assistant"]
        assert asked.messages[2]["content"] == '{"tool":"read","arguments":{"path":"a"}}'
        assert asked.messages[3]["content"] == "Result of read:\ntext of a"
        assert asked.messages[4]["content"] == '{"answer":"It says a."}'

    def test_after_a_result_it_may_call_again(self) -> None:
        asked = ask(user("Look"), said(MODEL, call("1", path="a")), result("1", "text of a"))
        assert tools_in(asked) == ["read", "add", "answer"]

    def test_the_same_call_twice_ends_the_calling(self) -> None:
        twice = [said(MODEL, call("1", path="a")), result("1", "x"), said(MODEL, call("2", path="a")), result("2", "x")]
        assert tools_in(ask(user("Look"), *twice)) == ["answer"]
        assert tools_in(ask(user("Look"), *twice, user("Again, please"))) == ["read", "add", "answer"]

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("auto", ["read", "add", "answer"]),
            ("required", ["read", "add"]),
            ({"type": "function", "function": {"name": "add"}}, ["add"]),
        ],
    )
    def test_tool_choice(self, choice: Any, expected: list[str]) -> None:
        assert tools_in(ask(user("Hi"), choice=choice)) == expected

    def test_no_tools_no_schema(self) -> None:
        asked = ask(user("Hi"), choice="none")
        assert asked.schema is None
        assert asked.messages == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]

    def test_an_error_is_told_as_one(self) -> None:
        asked = ask(user("Look"), said(MODEL, call("1", path="a")), result("1", "no such file", is_error=True))
        assert asked.messages[-1]["content"].startswith("Error of read:")


class TestGuided:
    def test_only_the_tool_that_is_meant_is_admitted(self) -> None:
        assert tools_in(ask(user("What is in README.md?"), guided=True)) == ["read"]
        assert tools_in(ask(user("How much is 2 + 3?"), guided=True)) == ["add"]

    def test_arguments_are_held_to_what_was_mentioned(self) -> None:
        schema = ask(user("What is in README.md, and in a/b.txt?"), guided=True).schema or {}
        assert schema["properties"]["arguments"]["properties"] == {"path": {"enum": ["README.md", "a/b.txt"]}}
        schema = ask(user("How much is 2 + 3?"), guided=True).schema or {}
        assert schema["properties"]["arguments"]["properties"] == {"a": {"enum": [2, 3]}, "b": {"enum": [2, 3]}}

    def test_a_question_about_no_tool_is_answered_in_words(self) -> None:
        asked = ask(user("Hello!"), guided=True)
        assert asked.schema is None
        assert [message["role"] for message in asked.messages] == ["system", "user"]

    def test_a_tool_that_is_required_is_admitted_whatever_was_asked(self) -> None:
        assert tools_in(ask(user("Hello!"), guided=True, choice="required")) == ["read", "add"]

    @pytest.mark.parametrize("text", ["18 degrees", "many\nlines\n"])
    def test_a_result_is_answered_in_words_from_one_message(self, text: str) -> None:
        history = (
            user("Hello!"),
            said(MODEL, "Hi."),
            user("And a?"),
            said(MODEL, call("1", path="a")),
            result("1", text),
        )
        asked = ask(*history, guided=True)
        assert asked.schema is None
        (message,) = asked.messages
        assert message["role"] == "user"
        assert "And a?" in message["content"]
        assert text.strip() in message["content"]
        assert "Hello!" not in message["content"]

    def test_several_results_are_told_together(self) -> None:
        calls = said(MODEL, call("1", path="a"), call("2", path="b"))
        asked = ask(user("Both?"), calls, result("1", "first"), result("2", "second"), guided=True)
        assert "first" in text_of(asked)
        assert "second" in text_of(asked)


class TestRoom:
    WORDS = "Whoever reads this is patient. " * 3000

    @pytest.mark.parametrize("guided", [True, False])
    @pytest.mark.parametrize(
        "history",
        [
            (user(WORDS),),
            (user("\u4f60\u597d" * 9000),),
            (user("What is in a.txt?"), said(MODEL, call("1", path="a.txt")), result("1", WORDS)),
            (user(WORDS + " a.txt"), said(MODEL, call("1", path="a.txt")), result("1", WORDS)),
            tuple(message for n in range(300) for message in (user(f"Question {n}"), said(MODEL, f"Answer {n}"))),
        ],
    )
    def test_it_is_kept(self, history: tuple[Message, ...], guided: bool) -> None:
        asked = ask(*history, room=3000, guided=guided)
        assert sum(size(message["content"]) for message in asked.messages) <= 3000
        assert asked.messages[-1]["content"].strip()

    def test_the_newest_words_stay(self) -> None:
        history = [m for n in range(300) for m in (user(f"Question {n}."), said(MODEL, f"Answer {n}."))]
        asked = ask(*history, user("Question last."), room=2000)
        assert "Question last." in text_of(asked)
        assert "Answer 299." in text_of(asked)
        assert "Question 0." not in text_of(asked)
        assert asked.messages[1]["role"] == "user"

    def test_a_long_result_keeps_head_and_tail(self) -> None:
        text = "HEAD " + self.WORDS + " TAIL"
        asked = ask(user("What is in a.txt?"), said(MODEL, call("1", path="a.txt")), result("1", text), guided=True)
        assert "HEAD" in text_of(asked)
        assert "TAIL" in text_of(asked)
        assert len(text_of(asked)) < 3000

    @pytest.mark.parametrize("limit", [0, 1, 8, 9, 50, 51])
    def test_cut_never_exceeds(self, limit: int) -> None:
        assert size(cut("\U0001f600\u4f60a" * 40, limit)) <= limit

    def test_room_leaves_the_answer_its_place(self) -> None:
        assert room(4096, 256, 1) < 4096 - 256
        assert room(0, 256, 2) > 0


class TestPlainSchema:
    def test_references_are_written_out(self) -> None:
        schema = {
            "type": "object",
            "properties": {"p": {"$ref": "#/$defs/point"}},
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number", "minimum": 0}}}},
        }
        point = plain_schema(schema, schema)["properties"]["p"]
        assert point["properties"] == {"x": {"type": "number"}}

    def test_a_circle_ends(self) -> None:
        schema: dict[str, Any] = {"properties": {"next": {"$ref": "#"}}}
        assert plain_schema(schema, schema)["type"] == "object"

    def test_a_reference_to_nothing_admits_anything(self) -> None:
        assert plain_schema({"$ref": "#/nowhere"}, {}) == {}

    def test_a_required_name_without_a_member_is_dropped(self) -> None:
        given = {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
        assert plain_schema(given, given)["required"] == ["a"]

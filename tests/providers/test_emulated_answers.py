"""JSON of our shape becomes a streamed call or streamed words, however it is cut; anything else stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.providers.emulated_answers import ChoiceReader


def chunk(text: str | None = None, finish: str | None = None) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def read(text: str, size: int, finish: str = "stop") -> tuple[str, list[tuple[str, str]], str]:
    """Words, calls (name and argument text), and the finish reason."""
    reader = ChoiceReader()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = [reader.rewrite(chunk(piece)) for piece in pieces] + [reader.rewrite(chunk(finish=finish))]
    words, calls, reason = "", [], ""
    for item in chunks:
        choice = item["choices"][0]
        words += choice["delta"].get("content", "")
        for call in choice["delta"].get("tool_calls", []):
            function = call["function"]
            if "name" in function:
                assert call["id"].startswith("call_")
                calls.append((function["name"], ""))
            calls[-1] = (calls[-1][0], calls[-1][1] + function["arguments"])
        reason = choice["finish_reason"] or reason
    return words, calls, reason


SIZES = [1, 2, 3, 7, 1000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "arguments",
    ['{"path": "README.md"}', "{}", '{ "a": {"b": ["}", "\\"", "\\\\"]}, "c": "{" }', '{"t": "\\ud83d\\ude00 é"}'],
)
@pytest.mark.parametrize(
    "form", ['{{"tool": "read", "arguments": {0}}}', '\n{{\n  "tool":"read" ,"arguments":\n{0} }}\n']
)
def test_a_call(size: int, arguments: str, form: str) -> None:
    assert read(form.format(arguments), size) == ("", [("read", arguments)], "tool_calls")


@pytest.mark.parametrize("size", SIZES)
def test_a_fenced_call(size: int) -> None:
    text = '```json\n{"tool": "read", "arguments": {"path": "a"}}\n```'
    assert read(text, size) == ("", [("read", '{"path": "a"}')], "tool_calls")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("words", ["Hello.", "", 'A "quote", a \\ and\nlines\tand \u2028', "\u4f60\u597d \U0001f600 }"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_an_answer(size: int, words: str, ascii_only: bool) -> None:
    text = json.dumps({"answer": words}, ensure_ascii=ascii_only)
    given, calls, reason = read(text, size)
    assert given.encode("utf-16", "surrogatepass").decode("utf-16") == words
    assert (calls, reason) == ([], "stop")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", ["Just words.", '{"some": "json"}', "{ not json", "``", "[1]", "  indented"])
def test_anything_else_is_text(size: int, text: str) -> None:
    assert read(text, size) == (text, [], "stop")


@pytest.mark.parametrize("size", SIZES)
def test_members_in_another_order(size: int) -> None:
    text = '{"arguments": {"path": "a"}, "tool": "read"}'
    words, calls, reason = read(text, size)
    assert (words, reason) == ("", "tool_calls")
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [("read", {"path": "a"})]


def test_words_come_live() -> None:
    reader = ChoiceReader()
    said = [reader.rewrite(chunk(piece))["choices"][0]["delta"] for piece in ('{"answer": "', "One", " two")]
    assert [delta.get("content", "") for delta in said] == ["", "One", " two"]


def test_a_cut_call_keeps_the_reason() -> None:
    assert read('{"tool": "read", "arguments": {"path": "REA', 5, "length") == (
        "",
        [("read", '{"path": "REA')],
        "length",
    )


def test_what_is_held_back_is_given_when_a_stream_just_ends() -> None:
    reader = ChoiceReader()
    reader.rewrite(chunk('{"too'))
    assert reader.rest() == {"choices": [{"index": 0, "delta": {"content": '{"too'}}]}
    assert reader.rest() is None


def test_chunks_without_choices_pass() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3}}
    assert ChoiceReader().rewrite(usage) is usage


def test_other_members_of_a_delta_pass() -> None:
    given = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm", "content": None}}]}
    assert ChoiceReader().rewrite(given)["choices"][0]["delta"] == {"reasoning_content": "hm"}

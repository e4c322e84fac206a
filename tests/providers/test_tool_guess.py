"""Tools are found by shared words and by what a call cannot do without."""

from __future__ import annotations

import pytest

from antiphon.core.declarations import ToolDeclaration
from antiphon.providers.tool_guess import file_names, guess, numbers


def declared(name: str, description: str, /, **types: str) -> ToolDeclaration:
    properties = {argument: {"type": kind} for argument, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)}
    return ToolDeclaration(name=name, description=description, parameters=schema)


TOOLS = (
    declared("get_weather", "Get the current weather in a city.", city="string"),
    declared("add", "Add two numbers.", a="integer", b="integer"),
    declared("read", "Read a file.", path="string"),
    declared("write", "Write a file: make it, or replace its content.", path="string", content="string"),
)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("What is the weather in Paris?", ["get_weather"]),
        ("What is 17 plus 25?", ["add"]),
        ("What is in README.md?", ["read"]),
        ("Create a file hello.txt that says hello.", ["write"]),
        ("Hello!", []),
        ("Write a short poem about the sea.", []),
        ("What is the capital of France?", []),
        ("Name 3 colors", []),
        ("", []),
    ],
)
def test_words_choose(request_: str, expected: list[str]) -> None:
    assert [tool.name for tool in guess(request_, TOOLS)] == expected


def test_equals_are_all_given() -> None:
    twins = (
        declared("left_door", "Open a door.", name="string"),
        declared("right_door", "Open a door.", name="string"),
    )
    assert guess("open the door", twins) == twins


def test_no_tools_no_guess() -> None:
    assert guess("anything", ()) == ()


def test_a_tool_without_schema_can_be_guessed() -> None:
    bare = ToolDeclaration(name="restart", description="", parameters={})
    assert guess("Please restart it", (bare,)) == (bare,)


def test_file_names_are_things_with_slash_or_extension() -> None:
    text = "See README.md, src/a.py and ~/x/ or .gitignore; not https://a.example/b.html, 3.5 or end. Then README.md!"
    assert file_names(text) == ["README.md", "src/a.py", "~/x/", ".gitignore"]


def test_numbers_are_read_once_each() -> None:
    assert numbers("add 7 and 1000, then 7 again, -2.5 and v1.2.3") == [7, 1000, -2.5]


@pytest.mark.parametrize("piece", ["word/", ".", "-", "a.", "\u4f60", "7", "~/", "a:", "a b "])
def test_a_long_request_costs_linear_time(piece: str) -> None:
    """Something quadratic would take minutes here."""
    assert guess(piece * 200_000, TOOLS) is not None

"""Heads of pages, templates, skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.resources.front_matter import BadFrontMatter, read_head, split_page
from antiphon.resources.skills import NoSkill, called, read_skill
from antiphon.resources.templates import fill, read_template, split_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("# only a remark", {}),
        ("name: a", {"name": "a"}),
        ("name:   a b  # remark", {"name": "a b"}),
        ("name: a#b", {"name": "a#b"}),
        ("name: 中文说明", {"name": "中文说明"}),
        ("n: 12\nf: 1.5\nt: true\nz: null\ne:\nx: ~", {"n": 12, "f": 1.5, "t": True, "z": None, "e": None, "x": None}),
        ('a: "x: \\"y\\" \\n"', {"a": 'x: "y" \n'}),
        ("a: 'it''s: fine'", {"a": "it's: fine"}),
        ("'a b': c\n\"d\": e", {"a b": "c", "d": "e"}),
        ("a: one\n  two\n  three", {"a": "one two three"}),
        ("a: |\n  one\n    two\n\n  three\nb: x", {"a": "one\n  two\n\nthree\n", "b": "x"}),
        ("a: |-\n  one\n  two", {"a": "one\ntwo"}),
        ("a: >\n  one\n  two\n\n  three", {"a": "one two\nthree\n"}),
        ("a: >-\n  one: two\n  # not a remark", {"a": "one: two # not a remark"}),
        ("a:\n  - x\n  - y: 1\n    z: 2\n  -\n    - q", {"a": ["x", {"y": 1, "z": 2}, ["q"]]}),
        ("a:\n- x\n- y\nb: z", {"a": ["x", "y"], "b": "z"}),
        ("a: [x, 'y, z', 3, [q]]", {"a": ["x", "y, z", 3, ["q"]]}),
        ("a: [x,\n  y]", {"a": ["x", "y"]}),
        ("a: {b: 1, 'c': [d]}", {"a": {"b": 1, "c": ["d"]}}),
        ("a: []\nb: {}", {"a": [], "b": {}}),
        ("metadata:\n  author: me\n  deep:\n    x: 1\nb: 2", {"metadata": {"author": "me", "deep": {"x": 1}}, "b": 2}),
        ("a: https://x.test/y", {"a": "https://x.test/y"}),
        ("a-b: x\nc_d: y", {"a-b": "x", "c_d": "y"}),
        ("a: 2024-01-02", {"a": "2024-01-02"}),
        ("a: 007x", {"a": "007x"}),
        ("a: [file] [level]", {"a": "[file] [level]"}),
        ("a: x\n  - y\n b", {"a": "x - y b"}),
    ],
)
def test_heads_that_people_write(text: str, value: dict[str, Any]) -> None:
    assert read_head(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "just words",
        "a: b: c",
        "a: &x y",
        "a: *x",
        "a: @x",
        "a: 'open",
        'a: "open',
        "a: [x",
        "a: 'x' y",
        "a: {x}",
        "\ta: b",
        "a: b\n   c: d",
        "a: 1\na: 2",
        "- a\n- b",
    ],
)
def test_heads_that_make_no_sense_are_refused_with_a_line(text: str) -> None:
    with pytest.raises(BadFrontMatter):
        read_head(text)


def test_a_page_without_a_head_is_all_body() -> None:
    assert split_page("# Title\n---\nx: y\n---\n").head == {}
    assert split_page("---\nnever closed").body == "---\nnever closed"
    page = split_page("---\r\na: b\r\n---\r\nbody\r\n")
    assert (page.head, page.body) == ({"a": "b"}, "body\r\n")
    assert split_page("---\n---\nbody").body == "body"


def test_long_heads_take_linear_time() -> None:
    lines = "".join(f"key{number}: value\n" for number in range(20_000))
    assert len(read_head(lines)) == 20_000
    assert read_head("a: " + "x" * 1_000_000)["a"] == "x" * 1_000_000
    assert len(read_head("a: [" + "x, " * 50_000 + "y]")["a"]) == 50_001


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("a b\tc\nd", ["a", "b", "c", "d"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        ('""', [""]),
        ("'it\\'s' x", ["it's", "x"]),
        ('"a\\"b"', ['a"b']),
        ("it's a b's", ["it's", "a", "b's"]),
        ("'open a", ["'open", "a"]),
        ("一 二", ["一", "二"]),
    ],
)
def test_arguments_are_cut_at_space_and_quotes_count_at_their_beginning(text: str, words: list[str]) -> None:
    assert split_arguments(text) == words


@pytest.mark.parametrize(
    ("body", "arguments", "result"),
    [
        ("$1-$2-$3", ["a", "b"], "a-b-"),
        ("$10", ["a"], ""),
        ("$0", ["a"], ""),
        ("$@|$ARGUMENTS", ["a", "b"], "a b|a b"),
        ("${1:-x}${2:-y}", ["", "b"], "xb"),
        ("${@:-none} ${ARGUMENTS:-none}", [], "none none"),
        ("${@:2}", ["a", "b", "c"], "b c"),
        ("${@:0:2}", ["a", "b", "c"], "a b"),
        ("${@:2:1}", ["a", "b", "c"], "b"),
        ("${@:9}", ["a"], ""),
        ("$1", ["$2", "x"], "$2"),
        ("$$1 \\$1", ["a"], "$a \\a"),
        ("${1} ${2:-a}b}", [], "${1} ab}"),
        ("$x ${y} $", ["a"], "$x ${y} $"),
        ("$99999999999999999999999999", ["a"], ""),
    ],
)
def test_holes_of_a_template(body: str, arguments: list[str], result: str) -> None:
    assert fill(body, arguments) == result


def test_two_dollars_are_one_if_the_page_says_so() -> None:
    assert read_template("---\ndollar-escapes: true\n---\ncost $$1 for $1").expand("x") == "cost $1 for x"
    assert read_template("cost $$1 for $1").expand("x") == "cost $x for x"


def test_a_template_describes_itself_by_its_head_or_its_first_line() -> None:
    page = read_template("---\ndescription: Reviews\nargument-hint: [file] [level]\n---\n\nLook at $1\n")
    assert (page.description, page.body) == ("Reviews", "Look at $1")
    assert read_template("---\nargument-hint: <file>\n---\nx").argument_hint == "<file>"
    assert read_template("\n\n  " + "w" * 70 + "\nmore").description == "w" * 60 + "..."


def test_a_skill_and_its_warnings() -> None:
    path = Path("/s/pdf/SKILL.md")
    skill = read_skill(path, "---\ndescription: |\n  Reads PDFs\nallowed-tools: read, bash\n---\nbody")
    assert (skill.name, skill.description, skill.allowed_tools) == ("pdf", "Reads PDFs", ("read", "bash"))
    assert skill.warnings == ()
    odd = read_skill(path, f"---\nname: Bad__Name\ndescription: {'x' * 2000}\n---\n")
    assert len(odd.warnings) == 3
    assert read_skill(path, "---\ndescription: x\ndisable-model-invocation: true\n---\n").hidden


@pytest.mark.parametrize(
    "text", ["no head", "---\nname: x\n---\n", "---\ndescription: ''\n---\n", "---\na: b: c\n---\n"]
)
def test_no_skill_without_a_description_or_with_a_broken_head(text: str) -> None:
    with pytest.raises(NoSkill):
        read_skill(Path("/s/x/SKILL.md"), text)


def test_a_called_skill_is_a_block_with_its_place() -> None:
    skill = read_skill(Path("/s/x/SKILL.md"), "---\ndescription: d\n---\nDo it.\n")
    text = called(skill, "---\ndescription: d\n---\nDo it.\n", " now ")
    first, second, *rest = text.split("\n")
    assert first == '<skill name="x" location="/s/x/SKILL.md">'
    assert "/s/x" in second
    assert rest == ["", "Do it.", "</skill>", "", "now"]

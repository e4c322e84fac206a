"""What a docstring says to a model."""

from __future__ import annotations

from antiphon.tools.docstring import split_docstring


def test_sections_are_for_arguments_and_programmers() -> None:
    text, notes = split_docstring(
        "Do it: now.\n\nArgs are not a section here.\n\n"
        "Args:\n    a: one\n        and more\n    b (int, optional): two: parts\n\n"
        "Returns:\n    c: nothing\n\nRaises:\n    ValueError: never\n"
    )
    assert text == "Do it: now.\n\nArgs are not a section here."
    assert notes == {"a": "one and more", "b": "two: parts"}


def test_a_plain_docstring_stays() -> None:
    assert split_docstring("Only words.") == ("Only words.", {})
    assert split_docstring("") == ("", {})

"""What a model is told when its text is not in the file."""

from __future__ import annotations

import time

from antiphon.tools.edit_nearest import explain_missing, how_it_differs, nearest

FILE = """import os

def load(path):
    with open(path) as f:
        return f.read()

def Save(path, text):
    with open(path, "w") as f:
        f.write(text)
"""


def test_the_nearest_place_comes_first_with_its_line_numbers() -> None:
    said = explain_missing(FILE, "def load(file):\n    with open(file) as f:\n        return f.read()\n")
    assert said.startswith(
        "Looked for (3 lines):\n"
        "       | def load(file):\n       |     with open(file) as f:\n       |         return f.read()\n\n"
        "Nearest, lines 3-5 (2 of 3 lines differ):\n"
        "     3 | def load(path):\n     4 |     with open(path) as f:\n     5 |         return f.read()"
    )


def test_the_kind_of_difference_is_named() -> None:
    assert how_it_differs(["\tx = 1"], ["    x = 1"]) == " (differs in blanks or tabs only)"
    assert how_it_differs(["def Save():"], ["def save():"]) == " (differs in upper and lower case only)"
    assert how_it_differs(["f( A )"], ["F(a)"]) == " (differs in blanks and case only)"
    assert how_it_differs(["a"], ["b"]) == ""


def test_texts_without_words_have_no_neighbours() -> None:
    assert nearest(["}", "{"], ["})"]) == []
    assert nearest(["a"], ["", " "]) == []
    assert nearest([], ["a"]) == []


def test_long_texts_and_long_lines_are_shortened() -> None:
    said = explain_missing("x = 1\n" * 3, "y" * 1000 + "\n" + "z\n" * 30)
    assert len(said) < 1000
    assert "(19 more lines)" in said
    assert "... [truncated]" in said


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert "\ufffd" in explain_missing("value = '\udcff' here", "value = 'x' here")


def test_a_huge_file_costs_a_moment() -> None:
    text = "".join(f"row number {n} of many, value {n * 7}\n" for n in range(300_000))
    started = time.process_time()
    assert "Nearest" in explain_missing(text, "row number 777 of many, value 1\nrow number 778")
    assert time.process_time() - started < 5

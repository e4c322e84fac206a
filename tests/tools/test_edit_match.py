"""Where edits go and what they leave alone: every byte outside the matched range."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.edit_match import Edit, EditRefused, Original, loose_text, plan, unify


def edited(content: bytes | str, *edits: tuple[str, str]) -> bytes:
    original = Original(content if isinstance(content, bytes) else content.encode())
    return original.replaced(plan(original, [Edit(*edit) for edit in edits], "f"))


def refusal(content: str, *edits: tuple[str, str]) -> str:
    with pytest.raises(EditRefused) as caught:
        edited(content, *edits)
    return str(caught.value)


# -- better than the reference --------------------------------------------------------------------------------------


def test_a_unique_exact_match_is_taken_although_a_look_alike_exists() -> None:
    assert edited('a = "x"\nb\na = “x”\n', ('a = "x"', "z")).decode() == "z\nb\na = “x”\n"
    assert edited("end  \nmid\nend\n", ("end  \n", "END\n")) == b"END\nmid\nend\n"


def test_all_occurrences_of_blanks_are_counted() -> None:
    assert refusal("a  b  c  d\n", ("  ", "x")).startswith("Found 3 occurrences of the text in f.")


def test_a_blank_line_is_found_although_it_holds_blanks() -> None:
    assert edited("a\n  \nb\n", ("\n\n", "\n")) == b"a\nb\n"


def test_occurrences_that_overlap_themselves_count() -> None:
    assert refusal("aaa\n", ("aa", "b")).startswith("Found 2 occurrences of the text in f.")


def test_a_loose_match_changes_the_matched_range_only() -> None:
    before = "let s = “A”; // “keep” — ﬁn  \n"
    assert edited(before, ('let s = "A";', 'let s = "B";')).decode() == 'let s = "B"; // “keep” — ﬁn  \n'


def test_one_loose_edit_leaves_the_exact_ones_exact() -> None:
    before = "a = “x”\nb = 1  \nc = 2\n"
    assert edited(before, ('a = "x"', 'a = "y"'), ("b = 1", "b = 9")).decode() == 'a = "y"\nb = 9  \nc = 2\n'


def test_bytes_that_are_no_utf8_survive() -> None:
    assert edited(b"keep \xff\xfe\nchange\n\xc3", ("change", "CHANGED")) == b"keep \xff\xfe\nCHANGED\n\xc3"
    assert edited(b"\xff say \xe2\x80\x9chi\xe2\x80\x9d \xff\r\n", ('"hi"', "ho")) == b"\xff say ho \xff\r\n"


# -- loose matching -------------------------------------------------------------------------------------------------


def test_part_of_a_ligature_keeps_the_rest_of_it() -> None:
    assert edited("oﬃce é", ("of", "OF")).decode() == "OFfice é"
    assert edited("oﬃce", ("ice", "ICE")).decode() == "offICE"
    assert edited("x…y", ("x.", "X.")).decode() == "X...y"


def test_a_match_at_a_line_end_takes_the_blanks_there_with_it() -> None:
    assert edited("y = “two”  \t\nz", ('y = "two"', "y")).decode() == "y\nz"
    assert edited("a “q”  \nb  \nc", ('"q"\nb', "Q")).decode() == "a Q\nc"


def test_a_match_that_begins_at_a_line_end_leaves_the_blanks_before_it() -> None:
    assert edited("“a”  \nb", ("\nb”".replace("”", ""), "\nB")).decode() == "“a”  \nB"


def test_hangul_and_combined_letters() -> None:
    decomposed = unicodedata.normalize("NFD", "한글 x é")
    assert edited(f"{decomposed} “t”", ('한글 x é "t"', "ok")) == b"ok"
    assert edited(f"a {decomposed}!", ("한", "HAN")).decode() == f"a HAN{unicodedata.normalize('NFD', '글 x é')}!"


def test_an_old_text_of_blanks_alone_is_not_looked_for_loosely() -> None:
    assert refusal("a\nb\n", ("   ", "x")).startswith("Could not find")
    assert refusal("a\nb\n", (" \n \n", "x")).startswith("Could not find")


@given(st.text(alphabet="ab  ﬁ“”é\u0301…\n\t\u00a0", max_size=30), st.data())
def test_a_loose_match_is_where_it_says(text: str, data: st.DataObject) -> None:
    original = Original(text.encode())
    loose = original.loose.text
    assert loose == loose_text(original.text)
    start = data.draw(st.integers(0, len(loose)))
    end = data.draw(st.integers(start, len(loose)))
    found = original.loose.back(start, end)
    assert 0 <= found.start <= found.end <= len(original.text) or start == end
    if start < end:
        replaced = original.text[: found.start] + found.before + "\0" + found.after + original.text[found.end :]
        assert loose_text(replaced).replace("\0", loose[start:end]).split() == loose.split()


# -- line ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        ("a\r\nb", ("b", "b\nc"), "a\r\nb\r\nc"),  # an unterminated last line ends like the one before
        ("b", ("b", "b\nc"), "b\nc"),
        ("a\rb", ("b", "b\nc"), "a\rb\rc"),
        ("a\rb\nc", ("a", "a\nA"), "a\nA\rb\nc"),  # a lone CR is no line end where there are LFs
        ("x\ry\n", ("y", "\ny"), "x\r\r\ny\n"),  # a kept CR and a new LF stay two line ends
        ("a\rX\nb", ("X", ""), "a\r\r\nb"),
        ("a\r\nb\r\n", ("a\r\nb\r\n", "c\n"), "c\r\n"),
        ("a\r\nb\r\n", ("\n", "\n"), None),
        ("\ufeffa\r\n", ("a", "b"), "\ufeffb\r\n"),
    ],
)
def test_line_ends(before: str, edit: tuple[str, str], after: str | None) -> None:
    if after is None:
        assert refusal(before, edit).startswith("Found 2")
    else:
        assert edited(before, edit) == after.encode()


@given(
    st.lists(st.sampled_from(["a", "b", "\r\n", "\n", "\r", "é", "“", "\ufeff"]), max_size=20).map("".join),
    st.lists(st.sampled_from(["a", "b", "\n", "é", '"']), min_size=1, max_size=4).map("".join),
    st.lists(st.sampled_from(["X", "\n", "\r\n"]), max_size=4).map("".join),
)
def test_seen_with_line_feeds_an_edit_is_a_plain_replacement(before: str, old: str, new: str) -> None:
    """What the model thinks it did is what happened, and nothing outside the range has changed."""
    original = Original(before.encode())
    try:
        (found,) = plan(original, [Edit(old, new)], "f")
    except EditRefused:
        return
    after = original.replaced([found])
    body = after[len(original.bom) :].decode()
    assert unify(body) == original.text[: found.start] + found.new + original.text[found.end :]
    if original.text.count(old) == 1:
        assert found.new == unify(new)


# -- several edits --------------------------------------------------------------------------------------------------


def test_edits_see_the_original_and_may_touch_but_not_overlap() -> None:
    assert edited("abcd", ("cd", "x"), ("ab", "cd")) == b"cdx"
    assert refusal("abcd", ("cd", "x"), ("bc", "y")) == (
        "edits[0] and edits[1] overlap in f. Merge them into one edit or target disjoint regions."
    )
    assert "edits[0] and edits[2] overlap" in refusal("abcd xy", ("abc", "1"), ("xy", "2"), ("cd", "3"))


def test_the_number_of_occurrences_is_that_of_the_loose_form() -> None:
    assert refusal('x “a” x “a” x "a"', ("“a”", "b")).startswith("Found 3 occurrences")
    assert refusal("aaaa", ("aa", "b")).startswith("Found 2 occurrences")

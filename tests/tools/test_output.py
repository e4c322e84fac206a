"""Cutting long texts: on borders of lines and characters, with the right reason. Most is pinned by recorded data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.output import (
    Limits,
    count_lines,
    cut_line,
    format_size,
    head_units,
    notice,
    tail_units,
    truncate_head,
    truncate_tail,
)

TEXTS = st.text(alphabet=st.sampled_from("ab\n中😀\ud800"), max_size=60)
LIMITS = st.builds(Limits, st.integers(1, 6), st.integers(1, 24))


def test_a_text_that_is_over_by_its_final_newline_alone_is_cut_by_bytes() -> None:
    """The reference says lines, of which there are not too many."""
    cut = truncate_head("aaaa\nbbbb\n", Limits(10, 9))

    assert (cut.content, cut.cut_by) == ("aaaa\nbbbb", "bytes")
    assert truncate_tail("aaaa\nbbbb\n", Limits(10, 9)).cut_by == "bytes"


def test_persisted_details_do_not_repeat_the_shown_text() -> None:
    assert "content" not in truncate_head("a\nb\nc", Limits(1, 100)).details()


@pytest.mark.requirement("S3-122")
@given(TEXTS, LIMITS)
def test_a_head_is_a_beginning_of_whole_lines_within_both_limits(text: str, limits: Limits) -> None:
    cut = truncate_head(text, limits)

    assert text.startswith(cut.content)
    assert cut.output_bytes == len(cut.content.encode("utf-8", "surrogatepass")) <= limits.max_bytes
    assert cut.output_lines <= limits.max_lines
    assert cut.total_lines == count_lines(text.encode("utf-8", "surrogatepass"))
    if not cut.truncated:
        assert cut.content == text
    elif not cut.first_line_exceeds:
        assert text[len(cut.content)] == "\n"


@given(TEXTS, LIMITS)
def test_a_tail_is_an_end_of_whole_lines_or_the_end_of_the_last(text: str, limits: Limits) -> None:
    cut = truncate_tail(text, limits)
    body = text if not cut.truncated or not text.endswith("\n") else text[:-1]

    assert body.endswith(cut.content)
    assert len(cut.content.encode("utf-8", "surrogatepass")) <= limits.max_bytes
    if cut.truncated and not cut.last_line_partial and len(cut.content) < len(body):
        assert body[: len(body) - len(cut.content)].endswith("\n") or not cut.content


@given(st.text(alphabet="ab中😀", max_size=20), st.integers(-2, 45))
def test_cuts_by_units_never_split_a_pair_and_take_as_much_as_fits(text: str, units: int) -> None:
    def size(part: str) -> int:
        return len(part.encode("utf-16-le")) // 2

    head, tail = head_units(text, units), tail_units(text, units)

    assert text.startswith(head) and text.endswith(tail)
    assert size(head) <= max(units, 0) and size(tail) <= max(units, 0)
    if head != text:
        assert size(text[: len(head) + 1]) > units
    line, was_cut = cut_line(text, max(units, 0))
    assert was_cut == (size(text) > max(units, 0)) and line.startswith(head)


def test_sizes_are_rounded_half_up_on_every_machine() -> None:
    assert [format_size(n) for n in (0, 1023, 1024, 1126, 1127, 1024 * 1024)] == [
        "0B", "1023B", "1.0KB", "1.1KB", "1.1KB", "1.0MB",
    ]  # fmt: skip


def test_a_notice_is_one_bracket_behind_a_blank_line() -> None:
    assert notice("one", "two") == "\n\n[one. two]"
    assert notice() == ""

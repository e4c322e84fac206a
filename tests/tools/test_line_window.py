"""A range of lines from a stream equals the same range of the whole text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.line_window import LineWindow
from antiphon.tools.output import Limits, truncate_head

BIG = Limits(1000, 10_000)


@given(
    st.lists(st.sampled_from([b"a", b"b", b"\n", b"\n", "中".encode(), b"\xe4", b"\xe4\xb8", b"\xff"]), max_size=40),
    st.integers(1, 8),
    st.none() | st.integers(0, 8),
    st.integers(1, 9),
    st.sampled_from([BIG, Limits(2, 100), Limits(100, 5)]),
)
def test_it_equals_cutting_the_whole_text(
    parts: list[bytes], first: int, count: int | None, size: int, limits: Limits
) -> None:
    window = LineWindow(first, count, limits)
    data = b"".join(parts)
    text = data.decode("utf-8", "replace")
    for start in range(0, len(data), size):
        window.feed(data[start : start + size])
    selection = window.selection()
    lines = text.split("\n")

    assert selection.file_lines == len(lines)
    if first > len(lines):
        return
    wanted = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + count]
    behind = max(len(lines) - (first - 1 + len(wanted)), 0)
    body = "\n".join(wanted)
    if count and behind == 1 and lines[-1] == "":
        body, behind = body + "\n", 0
    expected = truncate_head(body, limits)
    assert selection.lines_behind == behind
    assert selection.truncation == expected
    if expected.first_line_exceeds:
        assert selection.first_line_bytes == len(body.split("\n")[0].encode())


def test_what_does_not_fit_is_counted_and_not_kept() -> None:
    window = LineWindow(limits=Limits(10, 100))
    for _ in range(1000):
        window.feed(b"x" * 999 + b"\n")
    selection = window.selection()

    assert len(window._kept) <= 101
    assert (selection.truncation.total_bytes, selection.file_lines) == (1_000_000, 1001)
    assert selection.first_line_bytes == 999

"""The page of requirements: row, tests, status."""

from __future__ import annotations

from docs.writing.markdown import table
from tests.requirements import ROWS, WITHOUT_TEST, marks

PARTS = {
    "S0-": "The course chapter on the loop",
    "S1-": "The chapter of a tutorial",
    "S3-": "The long guide through the minimal loop",
    "X": "Where these three disagree",
}


def requirements() -> str:
    """Every row with the tests that prove it, or the reason why none does."""
    found = marks()
    proved = sum(row in found for row in ROWS)
    parts = [
        "# Requirements\n",
        "What was asked for, row by row, in our words, with the tests that prove it. The mark"
        ' `@pytest.mark.requirement("S3-66")` on a test makes the link; `tests/test_requirements.py` fails if a mark'
        " names an unknown row, or a row has neither a test nor a written reason.\n",
        f"{len(ROWS)} rows: {proved} with a test, {len(ROWS) - proved} open.\n",
    ]
    for prefix, title in PARTS.items():
        rows = [row for row in ROWS if row.startswith(prefix)]
        parts += [f"## {title}\n", table(("row", "statement", "shown by", "status"), [_line(r, found) for r in rows])]
    return "\n".join(parts)


def _line(row: str, found: dict[str, list[str]]) -> tuple[str, str, str, str]:
    tests = list(dict.fromkeys(found.get(row, ())))
    shown = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
    return row, ROWS[row], shown, "proved" if tests else WITHOUT_TEST[row]

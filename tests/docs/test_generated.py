"""Generated pages are fresh, and complete where completeness can be asked for."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.requirements import ROWS

from antiphon.core.events import AgentEvent
from antiphon.core.machine import ROWS as MACHINE_ROWS
from antiphon.core.policy import DEVIATIONS
from antiphon.core.session_events import SessionEvent
from docs import generate

WRITTEN = {path.name: text for path, text in generate.written().items()}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_generated_page_is_fresh(name: str) -> None:
    page = generate.REFERENCE / name

    assert page.is_file() and page.read_text(encoding="utf-8") == WRITTEN[name], "run: python3 dev.py docs"


def test_a_stale_page_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for other in generate.PAGES.keys() - {"errors.md"}:  # they take seconds, and were just written
        monkeypatch.delitem(generate.PAGES, other)
    monkeypatch.setitem(generate.PAGES, "errors.md", lambda: "something else")

    assert generate.main(["--check"]) == 1
    assert "stale: docs/reference/errors.md" in capsys.readouterr().out


def test_every_event_is_on_the_page() -> None:
    tags = {kind.type for kind in (*get_args(AgentEvent), *get_args(SessionEvent))}

    assert [tag for tag in tags if f"### `{tag}`" not in WRITTEN["events.md"]] == []


def test_every_deviation_is_on_the_page() -> None:
    assert [d.id for d in DEVIATIONS if d.reason.replace("|", "\\|") not in WRITTEN["policy.md"]] == []


@pytest.mark.requirement("S3-100", "S3-5")
def test_the_flow_of_a_run_was_walked_and_has_every_state() -> None:
    """The drawing shows each state of the table, so it is the whole chart of a run."""
    drawing = WRITTEN["machine.md"].split("```text\n")[1].split("```")[0]

    assert [s.__name__ for s, _, _ in MACHINE_ROWS if s.__name__ not in drawing] == []
    for line in ("Requesting  ── Start", "Checking    ── Checked", "Finishing   ── Decided", "Steering    ── Drained"):
        assert line in drawing


def test_every_requirement_has_its_line() -> None:
    assert [row for row in ROWS if f"| {row} |" not in WRITTEN["requirements.md"]] == []

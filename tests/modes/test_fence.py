"""What the real command's tools may change, and what they leave behind: `--sandbox`, files of long output."""

from __future__ import annotations

import pytest
from tests.modes.children import Place, run, served
from tests.providers.fake_server import Answer
from tests.tools.test_sandbox import needs_bubblewrap

CALLS = (
    ("write", {"path": "inside", "content": "x"}),
    ("write", {"path": "~/outside", "content": "x"}),
    ("edit", {"path": "~/notes", "edits": [{"oldText": "plain", "newText": "changed"}]}),
    ("bash", {"command": "echo x > by-command; echo x > ~/outside"}),
    ("read", {"path": "~/notes"}),
)


@needs_bubblewrap
@pytest.mark.parametrize(("word", "written"), [("workspace", ["by-command", "inside"]), ("readonly", [])])
async def test_nothing_is_changed_outside_of_the_folder(word: str, written: list[str], place: Place) -> None:
    (place.root / "tmp").mkdir()
    place.variables["TMPDIR"] = str(place.root / "tmp")
    (place.home / "notes").write_text("plain")
    async with served(place, Answer(calls=CALLS), Answer(text="Done.")):
        done = await run(place, "--sandbox", word, "-p", "go")
    assert (done.code, done.text) == (0, "Done.\n")
    assert sorted(path.name for path in place.cwd.iterdir()) == written
    assert sorted(path.name for path in place.home.iterdir()) == ["notes", "project"]
    results = [line["message"] for line in place.session_lines() if line.get("message", {}).get("role") == "toolResult"]
    assert [each["isError"] for each in results] == ["inside" not in written, True, True, True, False]
    assert "outside the folders in which files may be changed" in results[1]["content"][0]["text"]
    assert results[4]["content"][0]["text"] == "plain"


@pytest.mark.parametrize(("words", "left"), [((), 1), (("--no-session",), 0)])
async def test_long_output_goes_with_a_session_that_is_kept_nowhere(
    words: tuple[str, ...], left: int, place: Place
) -> None:
    (place.root / "tmp").mkdir()
    place.variables["TMPDIR"] = str(place.root / "tmp")
    call = ("bash", {"command": "seq 5000"})
    async with served(place, Answer(calls=(call,)), Answer(text="Done.")):
        done = await run(place, *words, "-p", "count")
    assert done.text == "Done.\n"
    assert len(list((place.root / "tmp").glob("antiphon-*.log"))) == left

"""A whole bug fix in a small repository: read, test, edit, test, answer. Transcript, diff and page are right."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.modes.children import Place, run, served
from tests.providers.fake_server import Answer

BUGGY = 'def mean(numbers):\n    """The mean."""\n    return sum(numbers) / (len(numbers) - 1)\n'
TEST = "import unittest\nfrom stats import mean\n\n\nclass Mean(unittest.TestCase):\n" + (
    "    def test_mean(self):\n        self.assertEqual(mean([1, 2, 3]), 2)\n"
)
RUN_TESTS = f"{sys.executable} -m unittest -q test_stats 2>&1"
SCRIPT = (
    Answer(text="I look at the code & its test first.", calls=(("read", {"path": "stats.py"}), ("ls", {}))),
    Answer(calls=(("bash", {"command": RUN_TESTS}),)),
    Answer(
        text="It divides by n <minus> one.",
        calls=(
            (
                "edit",
                {"path": "stats.py", "edits": [{"oldText": "(len(numbers) - 1)", "newText": "len(numbers)"}]},
            ),
        ),
    ),
    Answer(calls=(("bash", {"command": RUN_TESTS}),)),
    Answer(text="Fixed: `mean` divided by *n - 1*."),
)


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def repository(place: Place) -> Path:
    folder = place.cwd
    (folder / "stats.py").write_text(BUGGY)
    (folder / "test_stats.py").write_text(TEST)
    (folder / ".gitignore").write_text("__pycache__\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "Begin")
    return folder


async def test_a_bug_is_found_fixed_and_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    folder = repository(place)
    async with served(place, *SCRIPT) as server:
        done = await run(place, "-p", "--tools", "read,ls,bash,edit", "Fix the failing test of stats.py")
        requests = [seen.body["messages"] for seen in server.seen]

    assert (done.code, done.text, done.err) == (0, "Fixed: `mean` divided by *n - 1*.\n", "")
    changed = [line for line in git(folder, "diff", "-U0").split("\n") if re.match(r"[-+][^-+]", line)]
    assert changed == [
        "-    return sum(numbers) / (len(numbers) - 1)",
        "+    return sum(numbers) / len(numbers)",
    ]
    assert git(folder, "status", "--porcelain") == " M stats.py\n"

    messages = [line["message"] for line in place.session_lines() if line["type"] == "message"]
    assert [m["role"] for m in messages] == [
        *("system", "user", "assistant", "toolResult", "toolResult", "assistant", "toolResult", "assistant"),
        *("toolResult", "assistant", "toolResult", "assistant"),
    ]
    results = [m for m in messages if m["role"] == "toolResult"]
    assert [(m["toolName"], m["isError"]) for m in results] == [
        ("read", False),
        ("ls", False),
        ("bash", True),
        ("edit", False),
        ("bash", False),
    ]
    texts = ["".join(block["text"] for block in m["content"]) for m in results]
    assert texts[0].rstrip("\n") == BUGGY.rstrip("\n")
    assert "stats.py" in texts[1]
    assert "AssertionError: 3.0 != 2" in texts[2]
    assert "OK" in texts[4]
    assert len(requests[-1]) == len(messages) - 1, "the model saw everything but its own last answer"

    await page_tells_it_all(place, texts)
    replayed = await run(place, "replay", place.session_lines()[0]["id"])
    assert (replayed.code, replayed.text) == (0, "12 messages in 1 run(s): the same conversation\n")


async def page_tells_it_all(place: Place, results: list[str]) -> None:
    """The exported page holds every text, and nothing of it as markup."""
    (path,) = place.session_files()
    done = await run(place, "--export", str(path), "page.html")
    assert done.code == 0
    page = (place.cwd / "page.html").read_text()
    shown = html.unescape(re.sub(r"<[^>]*>", "", page))
    for text in ("Fix the failing test", "I look at the code & its test first.", "n <minus> one", "Fixed:", *results):
        for line in text.split("\n"):
            assert line.strip() in shown, line
    assert "<minus>" not in page
    assert "len(numbers) - 1" in shown
    assert "https://" not in re.sub(r">[^<]*<", "><", page), "the page loads nothing"


@pytest.mark.slow
@pytest.mark.model
async def test_the_embedded_model_in_the_same_repository(tmp_path: Path) -> None:
    """It is far too small to fix anything; the conversation is whole all the same, and goes on."""
    pytest.importorskip("xllamacpp")
    place = Place(tmp_path, {"ANTIPHON_LOCAL_MODEL": os.environ.get("ANTIPHON_LOCAL_MODEL", "")})
    place.variables = {name: value for name, value in place.variables.items() if value}
    repository(place)
    first = await run(place, "--mode", "json", "--model", "local/smollm2-135m", "What is in stats.py?", seconds=200)
    assert first.code == 0, first.err
    last = [r for r in first.records if r["type"] == "message_end"][-1]["message"]
    assert last["role"] == "assistant"
    assert last["stopReason"] in ("stop", "length"), last
    again = await run(place, "-c", "-p", "--model", "local/smollm2-135m", "Say yes.", seconds=200)
    assert again.code in (0, 1), again.err
    roles = place.roles()
    assert roles.count("user") == 2
    assert roles[-1] == "assistant"
    exported = await run(place, "--export", str(place.session_files()[0]), "page.html")
    assert exported.code == 0
    assert "What is in stats.py?" in (place.cwd / "page.html").read_text()

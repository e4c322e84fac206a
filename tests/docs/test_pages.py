"""Pages that were asked for are there with what they have to say; what they cite exists."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.markdown_pages import PAGES, ROOT, blocks, links, name

requirement = pytest.mark.requirement
EXPLANATION = ROOT / "docs" / "explanation"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def text_of(page: str) -> str:
    return (EXPLANATION / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_test_that_a_page_cites_exists(page: Path) -> None:
    missing: list[str] = []
    for file, test in TEST.findall(page.read_text(encoding="utf-8")):
        path = ROOT / file
        if not path.is_file() or (test and test not in _tests_of(path)):
            missing.append(f"{file}::{test}" if test else file)

    assert missing == []


def _tests_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@requirement("S3-107", "S3-106", "S3-1", "S3-108")
def test_questions_have_answers_that_cite_a_test() -> None:
    """Fourteen questions to check oneself, four deeper ones, nine abilities; each answer names its proof."""
    page = text_of("questions.md")
    answers = re.findall(r"^\*\*\d+\. .+?(?=^\*\*\d+\. |^## |\Z)", page, re.M | re.S)

    assert len(answers) == 14 + 4
    assert [answer.split("\n")[0] for answer in answers if not TEST.search(answer)] == []
    assert len(re.findall(r"^- \[ \] ", page, re.M)) == 9
    assert {"## In 30 seconds", "## In two minutes"} <= set(re.findall(r"^## .+$", page, re.M))


@requirement("S3-105")
def test_the_glossary_tells_twelve_pairs_apart() -> None:
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")

    assert len(re.findall(r"^### .+ and .+$", page, re.M)) == 12


@requirement("S1-24", "S3-104")
def test_the_reading_route_names_files_that_exist_in_three_passes() -> None:
    page = EXPLANATION / "reading-route.md"
    sources = [link for link in links(page) if link.endswith(".py")]

    assert len(re.findall(r"^## (First|Second|Third) pass", page.read_text(encoding="utf-8"), re.M)) == 3
    assert len(sources) >= 12
    assert all((page.parent / link).resolve().is_file() for link in sources)


SNIPPETS_NOT_NEEDED = {"questions.md", "reading-route.md", "no-io-in-the-core.md", "leash.md"}


def test_every_explanation_cites_a_test_and_those_of_the_guide_run_something() -> None:
    """`test_snippets.py` runs what is found here and compares what it prints."""
    pages = sorted(EXPLANATION.glob("*.md"))
    assert [page.name for page in pages if not TEST.search(page.read_text(encoding="utf-8"))] == []
    silent = {page.name for page in pages if not any(block.note == "output" for block in blocks(page))}
    assert silent == SNIPPETS_NOT_NEEDED


def test_the_tour_shows_every_room_and_every_extra_has_its_reason() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    floors = "".join(line for line in tour.split("\n") if line.startswith("|"))
    rooms = [path.parent.name for path in (ROOT / "src" / "antiphon").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}`" not in floors] == []

    decision = (ROOT / "docs" / "decisions" / "0003-few-dependencies.md").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [extra for extra in extras if f"`{extra}`" not in decision] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")]

    listed_elsewhere = ("decisions/", "course/chapter-", "course/glossary", "course/questions", "course/reading")
    missing = [page for page in pages if f" {page}\n" not in navigation]
    assert [page for page in missing if not page.startswith(listed_elsewhere)] == []


@requirement("S3-110")
def test_the_page_on_results_shows_why_they_are_messages() -> None:
    page = text_of("results-are-messages.md")

    assert all(word in page for word in ("stateless", "resume", "provider"))

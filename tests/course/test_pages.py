"""The pages of the course in two languages: same programs, same proofs, each links to the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.course.kit.chapters import CHAPTERS

DOCS = Path(__file__).resolve().parents[2] / "docs"
COURSE = DOCS / "course"
CITED = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)?)`")
PAIRS = {
    COURSE / "index.md": COURSE / "index.zh.md",
    **{COURSE / f"chapter-{n}.md": COURSE / f"chapter-{n}.zh.md" for n in CHAPTERS},
    DOCS / "explanation" / "questions.md": COURSE / "questions.zh.md",
    DOCS / "explanation" / "reading-route.md": COURSE / "reading-route.zh.md",
    DOCS / "reference" / "glossary.md": COURSE / "glossary.zh.md",
}
pairs = pytest.mark.parametrize(("english", "chinese"), PAIRS.items(), ids=[page.stem for page in PAIRS])


def test_every_page_has_its_pair() -> None:
    assert set(COURSE.glob("*.md")) <= {*PAIRS, *PAIRS.values()}


@pairs
def test_both_languages_cite_the_same_tests(english: Path, chinese: Path) -> None:
    assert CITED.findall(chinese.read_text("utf-8")) == CITED.findall(english.read_text("utf-8"))


@pairs
def test_both_languages_show_the_same_programs(english: Path, chinese: Path) -> None:
    def programs(page: Path) -> list[str]:
        return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)

    assert programs(chinese) == programs(english)


@pairs
def test_both_languages_have_the_same_parts(english: Path, chinese: Path) -> None:
    """Level by level the same headings; single words of the English glossary have no counterpart."""

    def levels(page: Path) -> list[str]:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
        return [marks for marks, words in re.findall(r"^(#+) (.+)$", text, re.M) if words != "Single words"]

    assert levels(chinese) == levels(english)


@pairs
def test_the_chinese_page_leads_to_the_english_one(english: Path, chinese: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", chinese.read_text("utf-8"))

    assert english in {(chinese.parent / link).resolve() for link in links}
    if english.parent == COURSE:
        assert f"({chinese.name})" in english.read_text("utf-8")


def test_every_step_of_a_chapter_is_on_its_page() -> None:
    """Chapter 07 tells its steps at length, the others in a table."""
    for chapter in CHAPTERS.values():
        for page in (COURSE / f"chapter-{chapter.number}.md", COURSE / f"chapter-{chapter.number}.zh.md"):
            text = page.read_text("utf-8")
            if chapter.number == "07":
                assert len(re.findall(r"^### (?:Step|第) ?\d", text, re.M)) == 5
            else:
                assert [step.group for step in chapter.steps if f"`{step.group}`" not in text] == []

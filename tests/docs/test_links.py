"""Links hold, and pages name no place outside of this project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.markdown_pages import PAGES, ROOT, anchors, blocks, links, name

EXTERNAL = re.compile(r"https?://")
ALLOWED_HOSTS = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\]|([\w-]+\.)*example\.(com|org|net))([:/]|$)")
MACHINE = re.compile(r"(?<![\w.])/(work|root|home|Users|tmp)/|\bpypi\b|\bnpm(js)?\b|registry\.", re.I)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_hold(page: Path) -> None:
    broken: list[str] = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        if EXTERNAL.match(target):
            continue
        place = (page.parent / path).resolve() if path else page
        held = place.exists() and place.is_relative_to(ROOT)
        if not held or (anchor and (place.suffix != ".md" or anchor not in anchors(place))):
            broken.append(target)

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_page_names_a_machine_or_a_registry(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert MACHINE.findall(text) == []
    assert [u for u in re.findall(r"https?://[^\s)\"'`>]+", text) if not ALLOWED_HOSTS.match(u)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_one_title_and_blocks_with_a_language(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)

    assert len(re.findall(r"^# ", text, re.M)) == 1
    assert [block.line for block in blocks(page) if not block.language] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    """By following links of pages, wherever one starts to read."""
    reached = {ROOT / "docs" / "index.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        for target in links(page):
            place = (page.parent / target.partition("#")[0]).resolve()
            if place.is_dir():
                found = set(place.glob("*.md"))
            else:
                found = {place} if place.suffix == ".md" and place.is_file() else set()
            waiting += found - reached
            reached |= found

    assert [name(page) for page in PAGES if (ROOT / "docs") in page.parents and page not in reached] == []

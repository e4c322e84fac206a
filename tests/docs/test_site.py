"""The site is whole: built without a warning, without a network, with nothing that is loaded from elsewhere."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from docs.writing import site
from tests.docs.markdown_pages import ROOT


def test_links_out_of_the_docs_get_a_target(tmp_path: Path) -> None:
    site.lay_out(ROOT, tmp_path)

    tour = (tmp_path / "tour.md").read_text()
    assert "](files/src/antiphon/core/machine.py.md)" in tour
    shown = (tmp_path / "files/src/antiphon/core/machine.py.md").read_text()
    assert "def step(" in shown
    assert "0001-the-loop-is-a-machine.md" in (tmp_path / "decisions/index.md").read_text()
    assert "](../src/" not in tour


def test_the_site_is_built_without_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (Path(sys.executable).parent / "zensical").is_file():
        pytest.fail("zensical is missing: python3 dev.py test sets it up", pytrace=False)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)

    built = site.build(ROOT, tmp_path)

    assert built == 0, capsys.readouterr().out
    page = (tmp_path / "site" / "index.html").read_text()
    loaded = re.findall(r'<(?:script|img|link rel="(?:stylesheet|icon|preconnect)")[^>]*(?:src|href)="([^"]+)"', page)
    assert [url for url in loaded if url.startswith(("http", "//"))] == []
    assert (tmp_path / "site" / "reference" / "events.html").is_file()
    assert 'site.css"' in page and (tmp_path / "site" / "site.css").is_file()

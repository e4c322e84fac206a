"""The site. Pages are copied to a folder of their own, links out of `docs/` are given a target there, and it is built.

A page beside `docs/` that is linked to (the changelog) is copied along; any other file of the repository becomes a page
that shows it; a folder becomes a list of its pages. So the site is complete in itself, and in the repository the same
pages keep links that work there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PAGES = Path("build", "site-pages")
_LINK = re.compile(r"(?<!!)(\[[^\]\n]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".yml": "yaml", ".sh": "sh", ".json": "json"}


def build(root: Path, at: Path | None = None) -> int:
    """Build the site into `site/` of `at` (the repository itself); 1 if a link does not hold, or anything else is odd.

    `at` holds the `mkdocs.yml` that is used.
    """
    at = at or root
    lay_out(root, at / PAGES)
    program = Path(sys.executable).parent / "zensical"
    if not program.is_file():
        print("zensical is missing; python3 dev.py docs sets it up")
        return 1
    command = (str(program), "build", "--clean", "--strict", "--config-file", str(at / "mkdocs.yml"))
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    said = done.stdout + done.stderr
    if done.returncode or "warning" in said.lower():
        print(said)
        return 1
    print("built: site/index.html")
    return 0


def lay_out(root: Path, into: Path) -> None:
    """Every page of `docs/` and what they link to, with links that hold there."""
    shutil.rmtree(into, ignore_errors=True)
    _Copying(root, into).copy_all()


class _Copying:
    """Which file of the repository became which page."""

    def __init__(self, root: Path, into: Path) -> None:
        self._root = root
        self._into = into
        self._made: dict[Path, Path] = {}

    def copy_all(self) -> None:
        for page in sorted((self._root / "docs").rglob("*.md")):
            self._page(page)
        for page in (self._root / "CHANGELOG.md", self._root / "CONTRIBUTING.md"):
            self._page(page)
        for sheet in sorted((self._root / "docs").glob("*.css")):
            self._write(self._into / sheet.name, sheet.read_text(encoding="utf-8"))

    def _page(self, page: Path) -> Path:
        """A Markdown page, copied once; gives where it lies now."""
        docs = self._root / "docs"
        place = self._into / (page.relative_to(docs) if page.is_relative_to(docs) else page.relative_to(self._root))
        if page not in self._made:
            self._made[page] = place
            text = page.read_text(encoding="utf-8")
            self._write(place, _outside_fences(text, lambda part: self._relinked(part, page, place)))
        return place

    def _relinked(self, text: str, page: Path, place: Path) -> str:
        def held(found: re.Match[str]) -> str:
            words, target, anchor = found[1], found[2], found[3] or ""
            if re.match(r"[a-z]+:", target):
                return found[0]
            aim = self._target((page.parent / target).resolve())
            return f"{words}({Path(os.path.relpath(aim, place.parent)).as_posix()}{anchor})"

        return _LINK.sub(held, text)

    def _target(self, wanted: Path) -> Path:
        """Where a link has to point in the copy."""
        if wanted.is_dir():
            return self._folder(wanted)
        if wanted.suffix == ".md":
            return self._page(wanted)
        if wanted not in self._made:
            name = wanted.relative_to(self._root)
            place = self._made[wanted] = self._into / "files" / f"{name.as_posix()}.md"
            text = wanted.read_text(encoding="utf-8").rstrip()
            self._write(place, f"# {name.as_posix()}\n\n````{_LANGUAGES.get(wanted.suffix, 'text')}\n{text}\n````\n")
        return self._made[wanted]

    def _folder(self, folder: Path) -> Path:
        """A list of the pages of a folder."""
        if folder not in self._made:
            place = self._made[folder] = self._into / folder.relative_to(self._root / "docs") / "index.md"
            lines = [f"- [{_title(page)}]({page.name})" for page in sorted(folder.glob("*.md"))]
            self._write(place, f"# {folder.name.capitalize()}\n\n" + "\n".join(lines) + "\n")
        return self._made[folder]

    def _write(self, place: Path, text: str) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The text with `change` applied to what is no block of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if at % 2 else change(part) for at, part in enumerate(parts))


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.M)
    return found[1] if found else page.stem

"""Ignore files beside resources: `.gitignore`, `.ignore`, `.fdignore`, each for its folder and all below."""

from __future__ import annotations

from pathlib import Path
from typing import final

from antiphon.tools.ignore import IgnoreFile

NAMES = (".gitignore", ".ignore", ".fdignore")
_MOST_LEVELS = 40


@final
class IgnoreRules:
    """Is a path left out? Rule files are read once. Looks up to the repository's root, or to the top."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[IgnoreFile, ...]] = {}

    def __call__(self, path: Path, is_folder: bool) -> bool:
        """What the nearest rule file that says something about the path says."""
        for level, folder in enumerate(path.parents):
            if level >= _MOST_LEVELS:
                break
            name = str(path.relative_to(folder)).encode("utf-8", "surrogateescape")
            for rules in self._of(folder):
                verdict = rules.verdict(name, is_folder=is_folder)
                if verdict is not None:
                    return verdict
            if (folder / ".git").exists():
                break
        return False

    def _of(self, folder: Path) -> tuple[IgnoreFile, ...]:
        known = self._files.get(folder)
        if known is None:
            known = self._files[folder] = tuple(_read(folder / name) for name in NAMES if (folder / name).is_file())
        return known


def _read(path: Path) -> IgnoreFile:
    try:
        return IgnoreFile.parse(path.read_bytes())
    except OSError:
        return IgnoreFile(())

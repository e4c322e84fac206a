"""Which ignore files have a say about an entry, and in which order.

`.ignore` files count everywhere, from the root of the file system down. `.gitignore` files count from the top of their
repository down; a repository inside another begins anew. Any `.ignore` goes before any `.gitignore`, and among files of
one kind the nearest goes first. A repository's own `info/exclude` and the user's excludes come last.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection

from msgspec import Struct, structs

from antiphon.tools.ignore import IgnoreFile
from antiphon.tools.port import Files

_MAX_BYTES = 4 * 1024 * 1024

RuleFiles = tuple[tuple[int, IgnoreFile], ...]
"""Rule files, the nearest first, each with the length of its folder's path, slash included."""


class Level(Struct, frozen=True):
    """The rules that hold for the entries of one folder."""

    own: RuleFiles = ()
    git: RuleFiles = ()
    last: RuleFiles = ()
    in_repository: bool = False

    def rules(self, *, git_everywhere: bool) -> RuleFiles:
        """All that have a say, in order; `.gitignore` files among them in a repository, or if they count everywhere."""
        return (*self.own, *self.git, *self.last) if self.in_repository or git_everywhere else self.own


def judge(rules: RuleFiles, path: bytes, *, is_folder: bool) -> bool | None:
    """True: ignored; false: taken back; None: nothing is said about it. `path` is absolute."""
    for start, file in rules:
        said = file.verdict(path[start:], is_folder=is_folder)
        if said is not None:
            return said
    return None


class LevelReader:
    """Reads ignore files on the way down. `home`: where the user's own excludes are looked for; None: nowhere."""

    def __init__(self, files: Files, home: str | None) -> None:
        self._files = files
        self._home = home
        self._user_rules: IgnoreFile | None = None

    def above(self, folder: str) -> Level:
        """The rules that hold for the folder itself: those of all folders above."""
        parents = [*_parents(folder)]
        level = Level()
        for parent in reversed(parents):
            level = self.inside(level, parent, None)
        return level

    def inside(self, level: Level, folder: str, names: Collection[str] | None) -> Level:
        """The rules for the entries of a folder. `names`: what is in it, if that is known."""
        start = len(os.fsencode(folder.rstrip("/"))) + 1
        if self._has(folder, ".git", names):
            level = structs.replace(level, git=(), last=self._last(folder, start), in_repository=True)
        if self._has(folder, ".ignore", names) and (rules := self._read(f"{folder}/.ignore")) is not None:
            level = structs.replace(level, own=((start, rules), *level.own))
        if self._has(folder, ".gitignore", names) and (rules := self._read(f"{folder}/.gitignore")) is not None:
            level = structs.replace(level, git=((start, rules), *level.git))
        return level

    def _has(self, folder: str, name: str, names: Collection[str] | None) -> bool:
        if names is not None:
            return name in names
        try:
            self._files.stat(f"{folder}/{name}")
        except OSError:
            return False
        return True

    def _read(self, path: str) -> IgnoreFile | None:
        """The rules of a file; None: it has none, or is not there."""
        content = self._content(path)
        rules = None if content is None else IgnoreFile.parse(content)
        return rules or None

    def _content(self, path: str) -> bytes | None:
        with contextlib.suppress(OSError), self._files.open(path) as reader:
            if reader.info.kind == "file":
                return b"".join(iter(lambda: reader.read(_MAX_BYTES), b""))[:_MAX_BYTES]
        return None

    def _last(self, repository: str, start: int) -> RuleFiles:
        both = (self._read(f"{repository}/.git/info/exclude"), self._user())
        return tuple((start, rules) for rules in both if rules)

    def _user(self) -> IgnoreFile:
        if self._user_rules is None:
            path = self._user_path()
            rules = self._read(path) if path is not None else None
            self._user_rules = rules if rules is not None else IgnoreFile(())
        return self._user_rules

    def _user_path(self) -> str | None:
        """Where the user's git keeps excludes: what the setting `core.excludesFile` says, else the usual place."""
        if self._home is None:
            return None
        for place in (".gitconfig", ".config/git/config"):
            path = excludes_file(self._content(f"{self._home}/{place}") or b"")
            if path is not None:
                return f"{self._home}/{path[2:]}" if path.startswith("~/") else path
        return f"{self._home}/.config/git/ignore"


def excludes_file(config: bytes) -> str | None:
    """The value of `core.excludesFile` in a git configuration."""
    section = ""
    found: str | None = None
    for line in config.decode("utf-8", "replace").split("\n"):
        line = line.strip()
        if line.startswith("["):
            section = line.lower()
        elif section == "[core]" and (match := re.match(r'excludesfile\s*=\s*"?([^"]*)"?$', line, re.IGNORECASE)):
            found = match[1].strip()
    return found or None


def _parents(folder: str) -> list[str]:
    """The folders above, the nearest first; the root of the file system as the empty text."""
    out: list[str] = []
    while folder:
        folder = folder.rpartition("/")[0]
        out.append(folder)
    return out

"""Everything below a folder, in a fixed order, less what ignore files hide.

Depth first, each folder's names in the order of their bytes: two walks over the same files give the same list on any
machine. Links are entries like others and are never followed; the folder itself may be reached through one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import final

from msgspec import Struct

from antiphon.tools.faults import OperationAborted, ToolFault, fault_text
from antiphon.tools.ignore_levels import Level, LevelReader, judge
from antiphon.tools.paths import below
from antiphon.tools.port import Entry, Files, Kind


@final
class Found(Struct, frozen=True):
    """An entry below the folder. `path` is relative to it, with `/`, and may hold surrogates for broken bytes."""

    path: str
    kind: Kind


Override = Callable[[bytes, bool], bool | None]
"""What goes before all ignore rules: relative path and "is a folder" → keep, leave out, or nothing said."""


class WalkRules(Struct, frozen=True, kw_only=True):
    """`git_everywhere`: `.gitignore` counts outside repositories too. `home`: where the user's excludes are found."""

    git_everywhere: bool = False
    home: str | None = None
    override: Override | None = None


class Folder(Struct, frozen=True):
    """A folder of a tree. `prefix` goes before its names: empty, or its relative path with a `/`."""

    prefix: str
    level: Level
    entries: Sequence[Entry]


class Tree:
    """What is below a folder, an absolute path.

    Raises:
        OSError: the folder itself cannot be read.
    """

    def __init__(self, files: Files, folder: str, rules: WalkRules) -> None:
        self._files = files
        self._start = below(folder, "")
        self._rules = rules
        self._reader = LevelReader(files, rules.home)
        real = files.real_path(folder)
        self._real = below(real, "")
        self._real_bytes = os.fsencode(real.rstrip("/")) + b"/"
        entries = list(files.scan(folder))
        self.top = Folder("", self._reader.inside(self._reader.above(real), real, _names(entries)), entries)

    def inside(self, folder: Folder, name: str) -> Folder | None:
        """The folder of this name in another; None: it cannot be read."""
        path = folder.prefix + name
        try:
            entries = list(self._files.scan(self._start + path))
        except OSError:
            return None
        return Folder(path + "/", self._reader.inside(folder.level, self._real + path, _names(entries)), entries)

    def kept(self, folder: Folder, wanted: Collection[str] | None = None) -> list[Entry]:
        """The entries that nothing hides, in order. `wanted`: only those of these names."""
        entries = folder.entries if wanted is None else [one for one in folder.entries if one.name in wanted]
        return [*self._shown(folder, _ordered(entries))]

    def folders(self, stopped: Callable[[], bool]) -> Iterator[Folder]:
        """This folder and all below it that nothing hides, in no particular order; quicker than a walk."""
        todo = [self.top]
        while todo:
            if stopped():
                raise OperationAborted
            folder = todo.pop()
            yield folder
            inner = self._shown(folder, (one for one in folder.entries if one.kind == "folder"))
            todo += filter(None, (self.inside(folder, one.name) for one in inner))

    def _shown(self, folder: Folder, entries: Iterable[Entry]) -> Iterable[Entry]:
        """Those that no rule hides."""
        override = self._rules.override
        rules = folder.level.rules(git_everywhere=self._rules.git_everywhere)
        if not rules and override is None:
            return entries

        def is_shown(entry: Entry) -> bool:
            path = os.fsencode(folder.prefix + entry.name)
            is_folder = entry.kind == "folder"
            if override is not None and (said := override(path, is_folder)) is not None:
                return said
            return judge(rules, self._real_bytes + path, is_folder=is_folder) is not True

        return filter(is_shown, entries)


def walk(files: Files, folder: str, rules: WalkRules, stopped: Callable[[], bool]) -> Iterator[Found]:
    """The entries below `folder`, an absolute path. What cannot be read is passed over.

    Raises:
        OperationAborted: it was stopped.
        OSError: the folder itself cannot be read.
    """
    tree = Tree(files, folder, rules)
    todo = [(tree.top, iter(tree.kept(tree.top)))]
    while todo:
        here, entries = todo[-1]
        for entry in entries:
            if stopped():
                raise OperationAborted
            yield Found(here.prefix + entry.name, entry.kind)
            if entry.kind == "folder" and (inner := tree.inside(here, entry.name)) is not None:
                todo.append((inner, iter(tree.kept(inner))))
                break
        else:
            todo.pop()


def place_in_walk(path: str) -> list[bytes]:
    """Relative paths sorted by this are in the order of a walk."""
    return os.fsencode(path).split(b"/")


def kind_at(files: Files, path: str) -> Kind:
    """What there is to search at an absolute path; links count as what they lead to.

    Raises:
        ToolFault: nothing, or nothing that may be looked at.
    """
    try:
        return files.stat(path).kind
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ToolFault(f"Path not found: {path}") from error
    except OSError as error:
        raise ToolFault(fault_text(error, "stat", path)) from error


_IS_UTF8 = sys.getfilesystemencoding() == "utf-8"
_by_name = attrgetter("name")


def _ordered(entries: Sequence[Entry]) -> list[Entry]:
    """By the bytes of their names. In UTF-8 that is the order of characters, unless broken bytes are among them."""
    if _IS_UTF8 and "".join(map(_by_name, entries)).isascii():
        return sorted(entries, key=_by_name)
    return sorted(entries, key=lambda entry: os.fsencode(entry.name))


def _names(entries: Sequence[Entry]) -> frozenset[str]:
    return frozenset(map(_by_name, entries))

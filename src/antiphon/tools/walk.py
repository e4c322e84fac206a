"""Everything below a folder, in a fixed order, less what ignore files hide.

Depth first, each folder's names in the order of their bytes: two walks over the same files give the same list on any
machine. Links are entries like others and are never followed; the folder itself may be reached through one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from antiphon.tools.faults import OperationAborted, ToolFault, fault_text
from antiphon.tools.ignore_levels import Level, LevelReader
from antiphon.tools.port import Entry, Files, Kind


@dataclass(frozen=True, slots=True)
class Found:
    """An entry below the folder. `path` is relative to it, with `/`, and may hold surrogates for broken bytes."""

    path: str
    kind: Kind


Override = Callable[[bytes, bool], bool | None]
"""What goes before all ignore rules: relative path and "is a folder" → keep, leave out, or nothing said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkRules:
    """`git_everywhere`: `.gitignore` counts outside repositories too. `home`: where the user's excludes are found."""

    git_everywhere: bool = False
    home: str | None = None
    override: Override | None = None


def walk(files: Files, folder: str, rules: WalkRules, stopped: Callable[[], bool]) -> Iterator[Found]:
    """The entries below `folder`, an absolute path. What cannot be read is passed over.

    Raises:
        OperationAborted: it was stopped.
        OSError: the folder itself cannot be read.
    """
    reader = LevelReader(files, rules.home)
    real = files.real_path(folder)
    top = _entries(files, folder)
    level = reader.inside(reader.above(real), real, {entry.name for entry in top})
    todo = [_Folder("", iter(top), level)]
    start = os.fsencode(real.rstrip("/")) + b"/"
    while todo:
        if stopped():
            raise OperationAborted
        here = todo[-1]
        entry = next(here.entries, None)
        if entry is None:
            todo.pop()
            continue
        path = here.prefix + entry.name
        is_folder = entry.kind == "folder"
        if _is_hidden(here.level, start, os.fsencode(path), is_folder, rules):
            continue
        yield Found(path, entry.kind)
        if is_folder and (inner := _readable(files, f"{folder}/{path}")) is not None:
            below = reader.inside(here.level, f"{real}/{path}", {each.name for each in inner})
            todo.append(_Folder(path + "/", iter(inner), below))


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


@dataclass(slots=True)
class _Folder:
    prefix: str
    entries: Iterator[Entry]
    level: Level


def _entries(files: Files, folder: str) -> list[Entry]:
    return sorted(files.scan(folder), key=lambda entry: os.fsencode(entry.name))


def _readable(files: Files, folder: str) -> list[Entry] | None:
    try:
        return _entries(files, folder)
    except OSError:
        return None


def _is_hidden(level: Level, start: bytes, path: bytes, is_folder: bool, rules: WalkRules) -> bool:
    if rules.override is not None and (said := rules.override(path, is_folder)) is not None:
        return not said
    return level.verdict(start + path, is_folder=is_folder, git_everywhere=rules.git_everywhere) is True

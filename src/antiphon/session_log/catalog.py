"""Which sessions a folder has, and what each is about: lists and searches that do not read every byte every time.

Facts are remembered in a file of the folder, by size and time of change of each session file. Whoever removes that file
pays with one slow list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import final

import msgspec
from msgspec import Struct

from antiphon.session_log.disk import Disk, FileState
from antiphon.session_log.entries import Header, header_from_line
from antiphon.session_log.index_file import write_cache
from antiphon.session_log.line import BYTE_ORDER_MARK, is_skipped, read_value
from antiphon.session_log.lines import BLOCK_BYTES
from antiphon.session_log.listing import Facts, Gathering, lines_of

DISCOVERY_BYTES = 1 << 20
"""How much of a file is read to find its header."""
PROGRESS_EVERY = 10
CACHE_NAME = ".sessions.cache"
_CACHE_FORMAT = 1
_MOST_CACHE_BYTES = 1 << 28
_SNIPPET = 60
"""Characters shown on each side of a word that was found."""


@final
class Row(Struct, frozen=True, gc=False):
    """One session of a list. `path` is its file; a store that is no folder puts the session id there."""

    path: Path
    facts: Facts


@final
class Hit(Struct, frozen=True, gc=False):
    """A session that has all the words, and some text around the first of them."""

    row: Row
    snippet: str


@final
class _Remembered(Struct, frozen=True, gc=False, array_like=True):
    state: FileState
    facts: Facts | None


@final
class _Cache(Struct, frozen=True, gc=False, array_like=True):
    format: int
    files: dict[str, _Remembered]


_decoder = msgspec.msgpack.Decoder(_Cache)
Progress = Callable[[list[Row]], None]


@final
class Catalog:
    """The session files of one folder."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self._disk = disk

    def files(self) -> dict[Path, FileState]:
        """All session files, by name."""
        try:
            names = sorted(path for path in self.folder.iterdir() if _is_session_name(path.name))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        states = ((path, self._disk.state_of(path)) for path in names)
        return {path: state for path, state in states if state is not None}

    def most_recent(self, cwd: str | None) -> Path | None:
        """The file changed last whose header can be read (and names this working folder, if one is given)."""
        files = self.files()
        for path in sorted(files, key=lambda path: (files[path].mtime_ns, path), reverse=True):
            header = self.header_of(path)
            if header is not None and (cwd is None or header.cwd == cwd):
                return path
        return None

    def header_of(self, path: Path) -> Header | None:
        """The header of a file, from its first bytes; nothing if it is no session."""
        try:
            with path.open("rb") as file:
                start = file.read(DISCOVERY_BYTES)
        except OSError:
            return None
        return first_header(start)

    def listing(self, progress: Progress | None = None) -> list[Row]:
        """Every session, the one in which somebody spoke last first.

        `progress` is given what is known after the first and every tenth file that had to be read.
        """
        known = self._remembered()
        files = self.files()
        found: dict[str, _Remembered] = {}
        rows: list[Row] = []
        read = 0
        for path, state in files.items():
            entry = known.get(path.name)
            if entry is None or entry.state != state:
                entry = _Remembered(state, self._gathered(path, words=False).facts(state.mtime_ns // 1_000_000))
                read += 1
            found[path.name] = entry
            if entry.facts is not None:
                rows.append(Row(path, entry.facts))
            if progress is not None and entry is not known.get(path.name) and (read == 1 or not read % PROGRESS_EVERY):
                progress(newest_first(rows))
        if found != known:
            self._remember(found)
        return newest_first(rows)

    def words_of(self, path: Path) -> list[str]:
        """What users and models said in a file, text by text."""
        return self._gathered(path, words=True).texts

    def search(self, query: str) -> Iterator[Hit]:
        """Sessions, newest first, in which every word of the query was said or is part of the name."""
        words = query.casefold().split()
        for row in self.listing():
            snippet = found_in([row.facts.name or "", *self.words_of(row.path)], words)
            if snippet is not None:
                yield Hit(row, snippet)

    def _gathered(self, path: Path, *, words: bool) -> Gathering:
        gathering = Gathering(words=words)
        with suppress(OSError), path.open("rb") as file:
            gathering.feed(lines_of(iter(partial(file.read, BLOCK_BYTES), b"")))
        return gathering

    def _remembered(self) -> dict[str, _Remembered]:
        try:
            with (self.folder / CACHE_NAME).open("rb") as file:
                cache = _decoder.decode(file.read(_MOST_CACHE_BYTES))
        except (OSError, msgspec.MsgspecError):
            return {}
        return cache.files if cache.format == _CACHE_FORMAT else {}

    def _remember(self, files: dict[str, _Remembered]) -> None:
        storable = {name: entry for name, entry in files.items() if _is_storable(entry)}
        write_cache(self._disk, self.folder / CACHE_NAME, msgspec.msgpack.encode(_Cache(_CACHE_FORMAT, storable)))


def _is_session_name(name: str) -> bool:
    return name.endswith(".jsonl") and not name.startswith(".")


def _is_storable(entry: _Remembered) -> bool:
    """Half characters cannot be stored: such a file is read again every time."""
    try:
        msgspec.msgpack.encode(entry)
    except UnicodeEncodeError:
        return False
    return True


def newest_first(rows: list[Row]) -> list[Row]:
    """The rows by when somebody spoke last."""
    return sorted(rows, key=lambda row: row.facts.modified_ms, reverse=True)


def found_in(texts: list[str], words: list[str]) -> str | None:
    """Text around the first word, if every word is in one of the texts."""
    folded = [text.casefold() for text in texts]
    if not words or not all(any(word in text for text in folded) for word in words):
        return None
    for text, fold in zip(texts, folded, strict=True):
        at = fold.find(words[0])
        if at >= 0:
            return " ".join(text[max(0, at - _SNIPPET) : at + len(words[0]) + _SNIPPET].split())
    return None


def first_header(start: bytes) -> Header | None:
    """The first readable line of a file that begins like this, if it is a header."""
    for line in start.removeprefix(BYTE_ORDER_MARK).split(b"\n"):
        readable, value = read_value(line)
        if readable and not is_skipped(value):
            return header_from_line(line)
    return None

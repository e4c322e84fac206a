"""`antiphon session`: what is stored, without a model: list, show, search, check, repair, export, import, fork."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from antiphon.core.wire import encode, to_wire
from antiphon.errors import ConfigurationError, SessionError
from antiphon.modes.commands.words import Words, read_words
from antiphon.modes.output import Output, one_line
from antiphon.modes.session_places import FoundSession, SessionPlaces, find_session, session_places
from antiphon.modes.tables import cut, table
from antiphon.resources.paths import places, working_folder
from antiphon.session_log.catalog import Row
from antiphon.session_log.log import SessionLog
from antiphon.session_log.port import Store
from antiphon.session_log.store import SessionStore
from antiphon.session_log.totals import totals

_SHOWN_COLUMNS = 60
_FLAGS = frozenset(("--all", "--json", "--whole", "--force"))


def run(words: Sequence[str], output: Output) -> int:
    """Carry out one of the commands; gives the exit code."""
    given = read_words(_parser(), _flags_last(words), output)
    if given is None:
        return 0
    where = session_places(places(Path(working_folder()), os.environ), os.environ, given.session_dir)
    code: int = given.do(where, given, output)
    return code


def _flags_last(words: Sequence[str]) -> list[str]:
    """The words with flags behind everything else: `argparse` finds no second name behind a flag."""
    end = words.index("--") if "--" in words else len(words)
    free, bound = words[:end], words[end:]
    return [*(w for w in free if w not in _FLAGS), *(w for w in free if w in _FLAGS), *bound]


def _parser() -> Words:
    parser = Words("antiphon session", description="Look at, copy and repair stored sessions. SESSION is a path or id.")
    parser.add_argument("--session-dir", metavar="DIR", help="where the sessions lie")
    parts = parser.add_subparsers(required=True, metavar="list|show|search|check|repair|export|import|fork")

    def command(name: str, do: object, about: str, *, session: bool = True) -> argparse.ArgumentParser:
        part = parts.add_parser(name, help=about, description=about)
        part.set_defaults(do=do)
        if session:
            part.add_argument("session", metavar="SESSION")
        return part

    part = command("list", _list, "Sessions of this folder, the newest first", session=False)
    part.add_argument("--all", action="store_true", help="of every folder")
    part.add_argument("--json", action="store_true", help="one JSON record a line")
    part = command("search", _search, "Sessions in which every word was said", session=False)
    part.add_argument("words", nargs="+", metavar="WORD")
    part.add_argument("--json", action="store_true", help="one JSON record a line")
    command("show", _show, "A session as Markdown")
    command("check", _check, "Read a session and say what is wrong with it; 1 if anything is")
    command("repair", _repair, "Make a session fit to go on: old versions, half lines, unanswered calls")
    part = command("export", _export, "A session as a file: .html, .md or .jsonl; - is standard output")
    part.add_argument("target", metavar="FILE", nargs="?", help="default: antiphon-session-ID.html")
    part.add_argument("--whole", action="store_true", help="every branch, byte for byte (.jsonl or -)")
    part.add_argument("--force", action="store_true", help="write over a file that is there")
    part = command("import", _import, "Copy a session file from elsewhere into this folder's sessions", session=False)
    part.add_argument("file", metavar="FILE")
    part = command("fork", _fork, "Copy a session into a new one of this folder")
    part.add_argument("--at", metavar="ENTRY", help="only the path up to this entry")
    part.add_argument("--id", metavar="ID", help="id of the copy")
    return parser


# ---- looking --------------------------------------------------------------------------------------------------------


def _list(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    rows = where.rows_everywhere() if given.all else where.rows_here()
    if given.json:
        for row in rows:
            output.write(_record(row) + b"\n")
        return 0
    if not rows:
        output.say("no sessions here yet; --all looks in every folder\n")
        return 0
    lines = [("last spoken", "messages", "id", *(["folder"] if given.all else []), "about")]
    lines += [_line(row, folder=given.all) for row in rows]
    output.text(table(lines))
    return 0


def _line(row: Row, *, folder: bool) -> tuple[str, ...]:
    facts = row.facts
    moment = datetime.fromtimestamp(facts.modified_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    about = cut(one_line(facts.name or facts.first_message), _SHOWN_COLUMNS)
    return (moment, str(facts.message_count), facts.id, *([facts.cwd] if folder else []), about)


def _record(row: Row, **more: str) -> bytes:
    return encode({"path": str(row.path), **to_wire(row.facts), "modified": row.facts.modified, **more})


def _search(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    here = where.shared_by
    found = [hit for hit in where.store().search(" ".join(given.words)) if here in (None, hit.row.facts.cwd)]
    for hit in found:
        if given.json:
            output.write(_record(hit.row, snippet=hit.snippet) + b"\n")
        else:
            output.text(f"{hit.row.facts.id}  {one_line(hit.snippet)}\n")
    if not found and not given.json:
        output.say("nothing found\n")
    return 0 if found else 1


def _show(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    from antiphon.session_log.export import session_markdown

    with opened(where, find_session(where, given.session)) as log:
        output.text(session_markdown(log))
    return 0


def opened(where: SessionPlaces, found: FoundSession, *, write: bool = False) -> SessionLog:
    """The log of a session that was found, wherever it lies."""
    return store_of(where, found).open(found.path, access="write" if write else "read")


def store_of(where: SessionPlaces, found: FoundSession) -> Store:
    """The store that has a session that was found."""
    if not found.path.is_absolute():
        return where.store()
    return SessionStore(found.path.parent, cwd=str(where.where.cwd), durability=where.durability)


def _check(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    found = find_session(where, given.session)
    with opened(where, found) as log:
        open_calls = log.open_calls()
        count = totals(log.entries())
        lines = [f"{found.path}", f"{log.entry_count} entries, {sum(count.messages.values())} messages"]
        lines += [str(damage) for damage in log.report.damages]
        lines += [
            f"the call {open_call.call.name} ({open_call.call.id}) of the last answer has no result"
            for open_call in open_calls
        ]
        bad = bool(log.report.damages or open_calls)
        lines.append("`antiphon session repair` makes it fit to go on" if bad else "nothing is wrong")
    output.text("\n".join(lines) + "\n")
    return 1 if bad else 0


def _repair(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    found = find_session(where, given.session)
    with opened(where, found, write=True) as log:
        done = [*map(str, log.report.damages), *log.report.changed_file]
        log.record_repairs()
        closed = log.close_open_calls()
        if closed:
            done.append(f"{len(closed)} call(s) without a result were closed with an error result")
        log.flush()
    output.text("\n".join([str(found.path), *(done or ["nothing was wrong"])]) + "\n")
    return 0


# ---- copying --------------------------------------------------------------------------------------------------------


def _export(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    found = find_session(where, given.session)
    with opened(where, found) as log:
        target = given.target or f"antiphon-session-{log.session_id}.{'jsonl' if given.whole else 'html'}"
        kind = "x.jsonl" if target == "-" else target
        data = _whole(where, found, kind) if given.whole else exported(log, where, kind)
        if target == "-":
            output.write(data)
            return 0
        path = where.where.cwd / Path(target).expanduser()
        write_export(path, data, force=given.force)
    output.text(f"{path}\n")
    return 0


def _whole(where: SessionPlaces, found: FoundSession, target: str) -> bytes:
    """All of a stored session, byte for byte."""
    if Path(target).suffix.lower() != ".jsonl":
        raise ConfigurationError(f"--whole copies the session file itself; name a file .jsonl instead of {target!r}")
    return store_of(where, found).whole(found.path)


def exported(log: SessionLog, where: SessionPlaces, target: str) -> bytes:
    """A session in the form that the name of a file asks for.

    Raises:
        ConfigurationError: a name of another kind.
    """
    from antiphon.session_log.export import session_html, session_markdown

    match Path(target).suffix.lower():
        case ".html" | ".htm":
            return session_html(log).encode()
        case ".md":
            return session_markdown(log).encode()
        case ".jsonl":
            return where.store().export(log)
        case other:
            raise ConfigurationError(f"cannot export to {other or target!r}; name a file .html, .md or .jsonl")


def write_export(path: Path, data: bytes, *, force: bool) -> None:
    """Write a new file.

    Raises:
        SessionError: it is there already, or cannot be written.
    """
    try:
        with path.open("wb" if force else "xb") as file:
            file.write(data)
    except FileExistsError:
        raise SessionError(f"{path} exists already; choose another name, or give --force") from None
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror or error}") from error


def _import(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    with where.store().import_file(where.where.cwd / Path(given.file).expanduser(), cwd=str(where.where.cwd)) as log:
        output.text(f"{log.path or log.session_id}\n")
    return 0


def _fork(where: SessionPlaces, given: argparse.Namespace, output: Output) -> int:
    found = find_session(where, given.session)
    with fork_of(where, found, given.at, given.id) as log:
        output.text(f"{log.path or log.session_id}\n")
    return 0


def fork_of(
    where: SessionPlaces, found: FoundSession, entry_id: str | None = None, session_id: str | None = None
) -> SessionLog:
    """A new session of this working folder: a copy of another one, all of it or the path to an entry.

    Raises:
        SessionError: it cannot be read, or there is no such entry; nothing was made.
    """
    store = where.store()
    if isinstance(store, SessionStore) and found.path.is_absolute() and entry_id is None:
        if session_id is not None and any(row.facts.id == session_id for row in where.rows_here()):
            raise SessionError(f"there is a session with the id {session_id!r} already; choose another one")
        return store.copy(found.path, cwd=str(where.where.cwd), session_id=session_id)
    if session_id is not None:
        raise ConfigurationError("an id for the copy goes with a whole copy of a session file only")
    with opened(where, found) as log:
        return store.fork(log, log.leaf_id if entry_id is None else entry_id)


__all__ = ["exported", "fork_of", "opened", "run", "write_export"]

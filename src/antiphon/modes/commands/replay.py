"""`antiphon replay SESSION`: the loop of today with the answers and outputs of then; the first difference, if any.

0: the same conversation came out; 1: it did not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from antiphon.core.messages import Message
from antiphon.core.wire import encode, to_wire
from antiphon.modes.commands.sessions import opened
from antiphon.modes.commands.words import Words, read_words
from antiphon.modes.output import Output
from antiphon.modes.session_places import find_session, session_places
from antiphon.resources.paths import places, working_folder
from antiphon.session_log.entries import CustomMessageEntry, Entry, MessageEntry
from antiphon.session_log.projection import custom_message
from antiphon.testing.replay import replay


def run(words: Sequence[str], output: Output) -> int:
    """Play a session again; gives the exit code."""
    given = read_words(_parser(), words, output)
    if given is None:
        return 0
    where = session_places(places(Path(working_folder()), os.environ), os.environ, given.session_dir)
    with opened(where, find_session(where, given.session)) as log:
        messages = recorded(log.path_entries())
    report = asyncio.run(replay(messages))
    if given.json:
        found = report.difference
        difference = None if found is None else {"at": found.at, "what": found.what}
        record = {"messages": report.messages, "runs": report.runs, "difference": difference}
        if found is not None:
            record["recorded"], record["played"] = to_wire(found.recorded), to_wire(found.played)
        output.write(encode(record) + b"\n")
    elif report.difference is None:
        output.text(f"{report.messages} messages in {report.runs} run(s): the same conversation\n")
    else:
        output.text(f"{report.difference}\n")
    return 0 if report.difference is None else 1


def recorded(entries: Sequence[Entry]) -> list[Message]:
    """What was said on the path, notes of extensions and output of the user's commands included."""
    said = (entry for entry in entries if isinstance(entry, MessageEntry | CustomMessageEntry))
    return [entry.message if isinstance(entry, MessageEntry) else custom_message(entry) for entry in said]


def _parser() -> Words:
    parser = Words("antiphon replay", description=__doc__)
    parser.add_argument("session", metavar="SESSION", help="a path, an id, or the beginning of one")
    parser.add_argument("--session-dir", metavar="DIR", help="where the sessions lie")
    parser.add_argument("--json", action="store_true", help="one JSON record")
    return parser

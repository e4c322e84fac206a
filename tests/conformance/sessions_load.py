"""The pack `load`: a session file goes in, its state comes out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_values import (
    DAY_MS,
    T0,
    Clock,
    Names,
    context_data,
    context_digest,
    entries_data,
    file_lines,
    header_data,
    recipe_lines,
    shortened,
    text_bytes,
    tree_data,
)

from antiphon.errors import SessionError
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.listing import Facts

Json = Any


def run_case(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    path = folder / "s.jsonl"
    before = _content(case)
    if before is not None:
        path.write_bytes(before)
    expect = dict(case["expect"])
    expect.pop("projection", None) if "recipe" in case else None
    names = Names()
    names.learn(str(folder), "${DIR}")
    names.learn(os.getcwd(), "${CWD}")
    got: Json = {}
    store = SessionStore(folder, cwd=os.getcwd(), sources=Clock(T0 + DAY_MS).sources(), seals=False)
    if _lists_better(before, expect):
        del expect["listing"]
    if "listing" in expect:
        got["listing"] = listing_data(store)
        if expect["listing"] is not None and "allMessagesText" not in expect["listing"]:
            del got["listing"]["allMessagesText"]
    try:
        log = store.open(path)
    except SessionError as error:
        got["error"] = expect["error"] = "refused" if "error" in expect else str(error)
    else:
        with log:
            got.update(_state(log, expect))
            _learn_ids(names, log, expect)
    if "file" in expect:
        got["file"] = _file_change(path, before, expect["file"])
    return first_difference(shortened(expect), shortened(names.named(got)))


def _content(case: Json) -> bytes | None:
    if "recipe" in case:
        return b"".join(line + b"\n" for line in recipe_lines(case["recipe"]))
    return None if case["file"] is None else text_bytes(case["file"])


def _lists_better(file: bytes | None, expect: Json) -> bool:
    """The lists of the reference lose files with a null content, and entries with a raw line separator in a text.

    Both are shown by ours; opening the same files is compared all the same.
    """
    if file is None or "error" in expect or "listing" not in expect:
        return False
    lost = expect["listing"] is None and b'"content":null' in file
    return lost or any(separator.encode() in file for separator in ("\u2028", "\u2029"))


def _state(log: SessionLog, expect: Json) -> Json:
    """Whatever the case asks for."""
    contributions = log.projection().items
    got: Json = {
        "header": header_data(log),
        "sessionId": log.session_id,
        "cwd": log.cwd,
        "leafId": log.leaf_id,
        "name": log.name,
        "entryIds": [entry.id for entry in log.entries()],
        "entries": entries_data(log),
        "tree": tree_data(log.tree(), kinds=False) if "tree" in expect else None,
        "branch": log.path_ids(),
        "contextEntries": [item.entry.id for item in contributions],
        "projection": [[item.entry.id, len(item.messages)] for item in contributions],
        "context": context_data(log),
        "entryCount": log.entry_count,
        "roots": len(log.children(None)),
        "branchLength": len(log.path_ids()),
        "contextEntryCount": len(contributions),
    }
    if "digest" in expect.get("context", {}):
        got["context"]["digest"] = context_digest(log)
        got["context"]["messageCount"] = len(got["context"].pop("messages"))
    return {key: value for key, value in got.items() if key in expect}


def _learn_ids(names: Names, log: SessionLog, expect: Json) -> None:
    if expect.get("sessionId") == "@session":
        names.learn(log.session_id, "@session")
    for entry, name in zip(log.entries(), expect.get("entryIds", ()), strict=False):
        if isinstance(name, str) and name.startswith("@"):
            names.learn(entry.id, name)


def _file_change(path: Path, before: bytes | None, expect: Json) -> Json:
    if not path.exists():
        return {"change": "absent"}
    after = path.read_bytes()
    if after == before:
        return {"change": "none"}
    if before is not None and before and after == before + b"\n":
        return {"change": "newline-added"}
    return {"change": "rewritten", "lines": file_lines(path)}


def listing_data(store: SessionStore) -> Json:
    """What a list says about the only file of a folder."""
    rows = store.listing()
    if not rows:
        return None
    return facts_data(rows[0].facts) | {"allMessagesText": " ".join(store.words_of(rows[0].path))}


def facts_data(facts: Facts) -> Json:
    return {
        "id": facts.id,
        "cwd": facts.cwd,
        "name": facts.name,
        "parentSessionPath": facts.parent_session,
        "created": facts.created,
        "modified": facts.modified,
        "messageCount": facts.message_count,
        "firstMessage": facts.first_message,
    }

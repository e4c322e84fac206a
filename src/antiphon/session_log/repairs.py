"""What was found wrong with a file, recorded in the log itself: later readers know that history was mended. Pure.

The record is state of an extension to other readers. It is stored when somebody goes on with the session, never by
looking at it, and once: the damaged lines stay in the file and are found again at every opening.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from antiphon.core.wire import JsonObject
from antiphon.session_log.damage import Damage
from antiphon.session_log.entries import CustomEntry, Entry

REPAIRED = "antiphon.repaired"
"""The kind of the record."""
MOST_FINDINGS = 100
"""So many are told one by one; `count` and `digest` cover all."""


def repair_record(damages: Sequence[Damage]) -> JsonObject:
    """The data of the record."""
    told = [
        {"kind": damage.kind, "line": damage.line, "done": damage.done, "entryId": damage.entry_id}
        for damage in damages[:MOST_FINDINGS]
    ]
    return {"count": len(damages), "digest": _digest(damages), "findings": told}


def is_recorded(damages: Sequence[Damage], entries: Iterable[Entry]) -> bool:
    """Is there a record of exactly these findings among the entries?"""
    digest = _digest(damages)
    return any(
        type(entry) is CustomEntry
        and entry.custom_type == REPAIRED
        and isinstance(entry.data, dict)
        and entry.data.get("digest") == digest
        for entry in entries
    )


def _digest(damages: Sequence[Damage]) -> str:
    return f"{zlib.crc32(chr(10).join(map(str, damages)).encode('utf-8', 'surrogatepass')):08x}"

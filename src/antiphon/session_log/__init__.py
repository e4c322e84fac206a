"""The session log: the append-only file that is the one source of truth of a conversation, and what follows from it.

Room on floor 1: imports `core` and `errors`, and the file system (through `disk.Disk`). Start reading in `log.py`:
`SessionStore` (`store.py`) makes and opens a `SessionLog` (`log.py`), which appends entries (`entries.py`) to a file
(`file.py`), keeps a table of them (`tree.py`), and says what the model is told (`projection.py`). Deciding what a file
means (`scan.py`, `upgrade.py`, `compaction/`) is pure.
"""

from antiphon.session_log.damage import Damage, OpenReport
from antiphon.session_log.entries import Entry, Header
from antiphon.session_log.lines import Durability
from antiphon.session_log.log import SessionLog
from antiphon.session_log.projection import Contribution, ModelChoice, Projected, Settings
from antiphon.session_log.stamps import Sources
from antiphon.session_log.store import SessionStore, folder_for

__all__ = [
    "Contribution",
    "Damage",
    "Durability",
    "Entry",
    "Header",
    "ModelChoice",
    "OpenReport",
    "Projected",
    "SessionLog",
    "SessionStore",
    "Settings",
    "Sources",
    "folder_for",
]

"""Every session that a test has written is played again: the loop must make the same conversation of it.

A test whose session cannot be replayed says so with `@pytest.mark.not_replayed("why")`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from antiphon.errors import AntiphonError
from antiphon.modes.commands.replay import recorded
from antiphon.session_log.log import SessionLog
from antiphon.session_log.store import SessionStore
from antiphon.testing.replay import replay


def check_logs(logs: Iterable[SessionLog]) -> None:
    """Play these again.

    Raises:
        AssertionError: the first difference.
    """
    loop = asyncio.new_event_loop()
    try:
        for log in logs:
            report = loop.run_until_complete(replay(recorded(log.path_entries())))
            assert report.difference is None, f"the session of this test does not replay: {report.difference}"
    finally:
        loop.close()


def check_files(folder: Path) -> None:
    """Play every session below a folder again; what is no session is left alone."""
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            log = SessionStore(path.parent, cwd=str(folder)).open(path, access="read")
        except AntiphonError:
            continue
        with log:
            check_logs([log])

"""The disk fails at any moment: memory then equals the file, or the session refuses to write.

Every operation of a life of a session is made to fail once, and from then on, in turn.
"""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.session_log.disks import FaultyDisk, ForgetfulDisk
from tests.session_log.make import calls, counting_sources, history, ids_on_disk, says

from antiphon.core.content import ToolCall
from antiphon.core.messages import user
from antiphon.errors import SessionError
from antiphon.session_log import Durability, SessionLog, SessionStore
from antiphon.session_log.file import FileLines
from antiphon.session_log.refusals import SessionReadOnly, SessionWriteFailed

OLD_FILE = (
    b'{"type":"session","id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/proj"}\n'
    b'{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"hi"}}\n'
    b"{{{\n"
    b'{"type":"message","timestamp":"2026-01-01T00:00:02.000Z","message":{"role":"user","content":"more"}}\n'
)


def store_on(disk: Any, folder: Path, durability: Durability = "sync") -> SessionStore:
    return SessionStore(folder, cwd="/proj", sources=counting_sources(), durability=durability, disk=disk)


def steps() -> list[Callable[[SessionLog], Any]]:
    """What happens to a session in its life."""
    return [
        lambda log: log.append_model_change("p", "m"),
        lambda log: log.append_message(user("one")),
        lambda log: log.append_message(says("first " + "long " * 200)),
        lambda log: log.set_label(log.path_ids()[0], "start"),
        lambda log: log.flush(),
        lambda log: log.append_context_edit(log.path_ids()[1], "edited"),
        lambda log: log.move_to(log.path_ids()[1]),
        lambda log: log.append_message(says("second")),
        lambda log: log.branch_with_summary(log.path_ids()[0], "left"),
        lambda log: log.append_compaction("sum", None, 10),
        lambda log: log.append_message(user("two")),
        lambda log: log.flush(),
    ]


def check_memory_equals_disk(log: SessionLog) -> None:
    """What a fresh reader finds is what the log believes."""
    assert log.path is not None
    ids = log.table.ids
    if log.saved:
        assert ids_on_disk(log.path) == ids
    else:
        assert not log.path.exists()


def live(disk: FaultyDisk, folder: Path) -> bool:
    """A life under a failing disk; whether anything failed. Checks after each step, and heals at the end."""
    log = store_on(disk, folder).create(session_id="life")
    for step in steps():
        before = (log.leaf_id, log.entry_count)
        try:
            step(log)
        except SessionError:
            assert (log.leaf_id, log.entry_count) == before, "a failed step changes nothing in memory"
        if not _is_damaged(log):
            check_memory_equals_disk(log)
    failed = bool(disk.failed)
    disk.heal()
    log.append_message(user("healed"))
    check_memory_equals_disk(log)
    told = history(log)
    log.close()
    assert log.path is not None
    with store_on(disk, folder).open(log.path) as again:
        assert history(again) == told
    return failed


def _is_damaged(log: SessionLog) -> bool:
    """Could what a failed write left not be taken away? Then the log must refuse to write."""
    lines = log.lines
    assert isinstance(lines, FileLines)
    if lines.damaged:
        with pytest.raises(SessionWriteFailed):
            log.append_message(user("must not be stored"))
    return lines.damaged


FAULTS: list[dict[str, Any]] = [
    {"code": errno.ENOSPC},
    {"code": errno.EIO},
    {"code": errno.ENOSPC, "short": True},
    {"code": errno.ENOSPC, "forever": True},
    {"code": errno.EIO, "forever": True, "short": True},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_every_operation_fails_once_or_for_good(tmp_path: Path, fault: dict[str, Any]) -> None:
    at = 1
    while live(FaultyDisk(at, **fault), tmp_path / str(at)):
        at += 1

    print(f"{at - 1} operations, each failed with {fault}")
    assert at > 30, "the life of a session is longer than that"


@pytest.mark.parametrize("short", [False, True])
def test_a_write_that_cannot_be_cut_back_stops_the_session(tmp_path: Path, short: bool) -> None:
    disk = FaultyDisk(-1, errno.EIO, forever=True, short=short, only=("write", "truncate"))
    log = store_on(disk, tmp_path).create()
    log.append_message(user("one"))
    disk.at = disk.count + 1

    for _ in range(3):
        with pytest.raises(SessionWriteFailed):
            log.append_message(says("lost"))
    disk.heal()
    log.append_message(says("kept"))

    check_memory_equals_disk(log)
    assert log.entry_count == 2


def test_what_could_not_be_cut_back_is_cut_at_the_latest_when_the_session_is_closed(tmp_path: Path) -> None:
    """A half line would stay for ever otherwise, although the disk is fine again."""
    disk = FaultyDisk(-1, errno.EIO, forever=True, short=True, only=("write", "truncate"))
    log = store_on(disk, tmp_path).create()
    log.append_message(user("one"))
    disk.at = disk.count + 1
    with pytest.raises(SessionWriteFailed):
        log.append_message(says("lost " * 100))
    disk.heal()
    log.close()

    assert log.path is not None
    with store_on(None, tmp_path).open(log.path) as again:
        assert (again.report.outcome, again.entry_count) == ("clean", 1)


def test_an_upgrade_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """The reference cuts the file first: a kill in between loses what was not yet written again."""
    path = tmp_path / "old.jsonl"
    at, failures = 1, 0
    while True:
        path.write_bytes(OLD_FILE)
        disk = FaultyDisk(at, errno.EIO)
        try:
            log = store_on(disk, tmp_path).open(path)
        except SessionError:
            assert path.read_bytes() == OLD_FILE
            failures += 1
        else:
            failed = bool(disk.failed)
            disk.heal()
            with log:
                assert [message.content for message in log.messages()] == ["hi", "more"]  # type: ignore[union-attr]
            if not failed:
                break
        at += 1
        for leftover in tmp_path.glob("*.bak*"):
            assert leftover.read_bytes() == OLD_FILE
            leftover.unlink()

    print(f"an upgrade: {at - 1} operations, {failures} of them refused it")
    assert failures > 5


def test_a_full_disk_at_the_first_word_leaves_no_file(tmp_path: Path) -> None:
    disk = FaultyDisk(1, errno.ENOSPC, short=True, only=("write",))
    log = store_on(disk, tmp_path).create()
    log.append_model_change("p", "m")

    with pytest.raises(SessionWriteFailed):
        log.append_message(user("one"))

    assert list(tmp_path.iterdir()) == []
    assert log.entry_count == 1
    log.append_message(user("again"))
    check_memory_equals_disk(log)


def test_a_last_line_without_newline_on_a_full_disk_is_ended_later(tmp_path: Path) -> None:
    with store_on(None, tmp_path).create() as log:
        log.append_message(user("one"))
    path = log.path
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    disk = FaultyDisk(1, errno.ENOSPC, only=("write",))

    with store_on(disk, tmp_path).open(path) as log:
        log.append_message(says("two"))
        check_memory_equals_disk(log)
        assert log.entry_count == 2


def spoken(log: SessionLog, acknowledged: list[str]) -> None:
    """A short talk; ids of stored entries are noted as they are acknowledged."""
    for turn in range(6):
        acknowledged.append(log.append_message(user(f"q{turn}")))
        acknowledged.append(log.append_message(says(f"a{turn}")))
        if turn == 3:
            log.flush()
            acknowledged.append("flushed")


@pytest.mark.parametrize("durability", ["fast", "turn", "sync"])
def test_power_loss_keeps_what_was_promised(durability: Durability) -> None:
    """The power fails after every operation of a talk, many times over; what was synced must be there."""
    path = Path("/sessions/power.jsonl")
    for seed in range(60):
        dice = random.Random(seed)
        disk = ForgetfulDisk()
        log = store_on(disk, path.parent, durability).open(path)
        acknowledged: list[str] = []
        limit = dice.randint(1, 60)
        with suppress(_PowerLoss):
            spoken(_failing_after(log, disk, limit), acknowledged)
        said = _ids_written(disk, path)
        after = disk.power_loss(dice)

        survived = _survivors(store_on(after, path.parent, durability), path)

        promised = _promised(acknowledged, durability)
        assert survived[: len(promised)] == promised, seed
        assert [entry_id for entry_id in said if entry_id in survived] == survived, "in order, and nothing else"


class _PowerLoss(BaseException):
    pass


def _failing_after(log: SessionLog, disk: ForgetfulDisk, limit: int) -> SessionLog:
    """The same log, whose disk goes dark after so many operations."""
    _dark_after(disk, limit)
    return log


def _dark_after(disk: ForgetfulDisk, limit: int) -> None:
    """The power fails after so many operations that change something."""
    left = iter(range(limit))
    for name in ("create", "write", "sync", "sync_folder", "truncate", "link", "rename", "remove"):
        act = getattr(disk, name)

        def counted(*args: Any, act: Callable[..., Any] = act) -> Any:
            if next(left, None) is None:
                raise _PowerLoss
            return act(*args)

        setattr(disk, name, counted)


def _survivors(store: SessionStore, path: Path) -> list[str]:
    """Ids of the entries that are found; nothing if there is no file, or none that was ever acknowledged."""
    try:
        with store.open(path) as log:
            return [entry.id for entry in log.entries()]
    except SessionError:
        return []


def _ids_written(disk: ForgetfulDisk, path: Path) -> list[str]:
    """Ids of the entries that were written, acknowledged or not, as a killed process would leave them."""
    data = bytes(disk.names[path].data) if path in disk.names else b""
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    return [line["id"] for line in lines[1:]]


def _promised(acknowledged: list[str], durability: Durability) -> list[str]:
    """The entries that must survive: all, up to the last word of the user's, or up to the last flush."""
    ids = [entry_id for entry_id in acknowledged if entry_id != "flushed"]
    flushed = acknowledged.index("flushed") if "flushed" in acknowledged else 0
    if durability == "sync":
        return ids
    users = 2 * ((len(ids) + 1) // 2) - 1 if ids and durability == "turn" else 0
    return ids[: max(flushed, users)]


@pytest.mark.parametrize(("durability", "once", "kept"), [("turn", True, 1), ("turn", False, 0), ("sync", False, 1)])
def test_that_a_call_starts_survives_if_it_must_not_be_made_twice(
    durability: Durability, once: bool, kept: int
) -> None:
    """Else it would be taken for one that had not begun, and made again."""
    disk, path = ForgetfulDisk(), Path("/sessions/power.jsonl")
    log = store_on(disk, path.parent, durability).open(path)
    log.append_message(user("go"))
    log.append_message(calls("t"))
    log.append_call_started(ToolCall(id="c0", name="t", arguments={}), 0, once=once)

    least = min(len(_survivors(store_on(disk.power_loss(random.Random(n)), path.parent), path)) for n in range(40))

    assert least == 1 + 2 * kept


def test_power_loss_during_an_upgrade_loses_nothing() -> None:
    """Of 12 kills of the reference at this moment 4 left a part of the file."""
    path = Path("/sessions/old.jsonl")
    for seed in range(80):
        dice = random.Random(seed)
        disk = ForgetfulDisk()
        fd = disk.create(path)
        disk.write(fd, OLD_FILE)
        disk.sync(fd)
        disk.sync_folder(path.parent)
        disk.close(fd)
        _dark_after(disk, dice.randint(0, 8))
        with suppress(_PowerLoss):
            store_on(disk, path.parent).open(path)

        with store_on(disk.power_loss(dice), path.parent).open(path) as log:
            assert [message.content for message in log.messages()] == ["hi", "more"]  # type: ignore[union-attr]


def test_a_closed_log_refuses_to_write(tmp_path: Path) -> None:
    log = store_on(None, tmp_path).create()
    log.append_message(user("one"))
    log.close()

    with pytest.raises(SessionReadOnly):
        log.append_message(user("two"))
    assert log.entry_count == 1

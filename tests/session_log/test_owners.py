"""One file, several processes: one owner writes, the others read or fork, and a dead owner is no owner."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.session_log.make import told_texts

from antiphon.core.messages import user
from antiphon.session_log import SessionStore
from antiphon.session_log.refusals import SessionInUse, SessionReadOnly

SRC = Path(__file__).resolve().parents[2] / "src"

WRITER = """
import sys
from pathlib import Path
from antiphon.core.messages import user
from antiphon.session_log import SessionStore
from antiphon.session_log.refusals import SessionInUse

path, me = Path(sys.argv[1]), sys.argv[2]
store = SessionStore(path.parent, cwd="/proj", durability="fast")
print("ready", flush=True)
sys.stdin.readline()
try:
    log, role = store.open(path), "owner"
except SessionInUse:
    log, role = store.fork(store.open(path, access="read"), None), "fork"
for n in range(20):
    log.append_message(user(f"{me} says {n}"))
print(role, log.path, flush=True)
sys.stdin.readline()
"""


class Process:
    """Another process that wants to write to a session; told when by lines on its input."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(SRC)},
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def end(self) -> None:
        self._process.communicate()


@contextmanager
def processes(path: Path, count: int) -> Iterator[list[Process]]:
    started = [Process(path, f"p{number}") for number in range(count)]
    try:
        yield started
    finally:
        for process in started:
            process.end()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    with SessionStore(tmp_path, cwd="/proj").create() as log:
        log.append_message(user("before"))
        assert log.path is not None
        return log.path


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_of_several_processes_one_writes_and_the_others_fork(shared: Path, count: int) -> None:
    """The reference lets all append; afterwards the work of one is the active path, the others' is lost from view."""
    with processes(shared, count) as started:
        for process in started:
            process.go()
        answers = {process.name: process.line().split(" ", 1) for process in started}

    owners = [name for name, (role, _) in answers.items() if role == "owner"]
    assert len(owners) == 1
    store = SessionStore(shared.parent, cwd="/proj")
    for name, (role, path) in answers.items():
        with store.open(path) as log:
            said = [f"{name} says {n}" for n in range(20)]
            assert told_texts(log) == (["before", *said] if role == "owner" else said)
            assert log.report.outcome == "clean"


def test_a_killed_owner_is_replaced_at_once(shared: Path) -> None:
    store = SessionStore(shared.parent, cwd="/proj")
    with processes(shared, 1) as (owner,):
        owner.go()
        assert owner.line().startswith("owner")
        with pytest.raises(SessionInUse):
            store.open(shared)
        owner.kill()

        with store.open(shared) as log:
            assert len(log.messages()) == 21


def test_a_reader_sees_what_is_there_and_changes_nothing(shared: Path) -> None:
    store = SessionStore(shared.parent, cwd="/proj")
    with store.open(shared) as owner, store.open(shared, access="read") as reader:
        owner.append_message(user("after"))

        assert told_texts(reader) == ["before"]
        with pytest.raises(SessionReadOnly):
            reader.append_message(user("not mine"))
        assert told_texts(owner) == ["before", "after"]


def test_a_reader_does_not_mend_the_file(shared: Path) -> None:
    data = shared.read_bytes()[:-1]
    shared.write_bytes(data)

    with SessionStore(shared.parent, cwd="/proj").open(shared, access="read") as log:
        assert told_texts(log) == ["before"]

    assert shared.read_bytes() == data


def test_two_logs_of_one_process_exclude_each_other(shared: Path) -> None:
    store = SessionStore(shared.parent, cwd="/proj")
    with store.open(shared), pytest.raises(SessionInUse):
        store.open(shared)
    store.open(shared).close()


def test_a_session_that_nobody_wrote_to_yet_is_nobodys(tmp_path: Path) -> None:
    """Two new sessions under one name: whoever speaks first has it."""
    store = SessionStore(tmp_path, cwd="/proj")
    path = tmp_path / "mine.jsonl"
    first, second = store.open(path), store.open(path)
    first.append_message(user("first"))

    with pytest.raises(Exception, match="exists already"):
        second.append_message(user("second"))
    assert second.entry_count == 0
    with pytest.raises(SessionInUse):
        store.open(path)

"""A folder of files and a database keep the same sessions: same verbs, same history, same outcome of damage.

What one log can do is in `test_log.py`, random lives are in `test_log_machine.py`; both run over both stores, too.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.session_log.make import forty_entries, history, says, told_texts
from tests.session_log.stores import AnyStore, made, place_of, put
from tests.session_log.test_damage import doubled, dropped, flipped, joined, lines_changed, swapped, truncated, zeroed

from antiphon.core.messages import user
from antiphon.errors import SessionError
from antiphon.session_log import SessionStore
from antiphon.session_log.port import Store
from antiphon.session_log.refusals import EntryRefused, FolderMissing, NotASession, SessionInUse, SessionReadOnly
from antiphon.session_log.sqlite import SqliteStore

KINDS = ["files", "database"]


@pytest.fixture(params=KINDS)
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[AnyStore]:
    store = made(request.param, tmp_path)
    yield store
    if isinstance(store, SqliteStore):
        store.close()


def test_both_are_stores(store: AnyStore) -> None:
    port: Store = store
    assert port.listing() == []


def test_forty_entries_come_back(store: AnyStore) -> None:
    with forty_entries(store) as log:
        told = history(log)

    with store.open(place_of(log)) as again:
        assert history(again) == told
        assert again.report.outcome == "clean"
    recent = store.continue_recent(cwd="/proj")
    assert recent is not None
    recent.close()
    assert store.continue_recent(cwd="/elsewhere") is None


def test_a_fork_drops_marks_of_moves(store: AnyStore) -> None:
    log = store.create()
    first = log.append_message(user("a"))
    log.append_message(says("b"))
    log.move_to(first)
    last = log.append_message(says("c"))

    fork = store.fork(log, last)

    assert told_texts(fork) == ["a", "c"]
    assert [entry.type for entry in fork.entries()] == ["message", "message"]


def test_an_export_can_be_opened(store: AnyStore, tmp_path: Path) -> None:
    with forty_entries(store) as log:
        told = history(log)
        (tmp_path / "out.jsonl").write_bytes(store.export(log))

    with SessionStore(tmp_path, cwd="/").open(tmp_path / "out.jsonl") as exported:
        assert history(exported) == told
        assert exported.report.outcome == "clean"


def test_what_cannot_be_written_as_json_is_refused_before_anything_is_stored(store: AnyStore) -> None:
    log = store.create()
    log.append_message(user("a"))

    with pytest.raises(EntryRefused):
        log.append_custom("x", object())

    assert log.entry_count == 1
    with store.open(place_of(log), access="read") as reader:
        assert reader.entry_count == 1


def test_half_characters_come_back_as_they_were_said(store: AnyStore) -> None:
    """Memory and store agree even about what UTF-8 cannot say."""
    with store.create() as log:
        log.append_message(user("x\ud800y"))

    with store.open(place_of(log)) as again:
        assert told_texts(again) == ["x\ud800y"]
    assert store.listing()[0].facts.first_message == "x\ud800y"


def test_a_session_whose_folder_is_gone_is_not_resumed_by_accident(store: AnyStore, tmp_path: Path) -> None:
    with store.create(cwd=str(tmp_path / "gone")) as log:
        log.append_message(user("a"))

    with pytest.raises(FolderMissing) as refused:
        store.resume(place_of(log))
    assert refused.value.cwd == str(tmp_path / "gone")
    with store.resume(place_of(log), cwd=str(tmp_path)) as here:
        assert here.cwd == str(tmp_path)
    with pytest.raises(NotASession):
        store.resume(tmp_path / "none.jsonl")


def test_a_reader_changes_nothing(store: AnyStore) -> None:
    with store.create() as log:
        log.append_message(user("a"))
        place = place_of(log)
        with pytest.raises(SessionInUse):
            store.open(place)
        with store.open(place, access="read") as reader, pytest.raises(SessionReadOnly):
            reader.append_message(user("no"))
    data = store.whole(place)

    store.open(place, access="read").close()

    assert store.whole(place) == data


def test_lists_and_searches(store: AnyStore) -> None:
    for name in ("alpha", "beta"):
        with store.create() as log:
            log.append_message(user(f"about {name}", store.terms.sources.now_ms()))
            log.set_name(name)

    assert [row.facts.name for row in store.listing()] == ["beta", "alpha"]
    assert store.listing() == store.listing()
    assert [hit.row.facts.name for hit in store.search("BETA about")] == ["beta"]
    assert store.words_of(store.listing()[0].path) == ["about beta"]


def test_an_import_is_checked_first_and_gets_an_id_of_its_own(store: AnyStore, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    with SessionStore(tmp_path, cwd=str(tmp_path)).open(source) as log:
        log.append_message(user("a"))
    for data in (b"garbage\n", b""):
        (tmp_path / "no.jsonl").write_bytes(data)
        with pytest.raises(NotASession):
            store.import_file(tmp_path / "no.jsonl")
    with pytest.raises(NotASession):
        store.import_file(tmp_path / "missing.jsonl")
    assert store.listing() == []

    with store.import_file(source) as first, store.import_file(source) as second:
        assert told_texts(first) == told_texts(second) == ["a"]
        assert first.session_id != second.session_id
    assert len(store.listing()) == 2


# ---- from one to the other ------------------------------------------------------------------------------------------


def odd_file(folder: Path) -> bytes:
    """Forty entries with branches, an unreadable line, a blank one, foreign line ends and no last newline."""
    store = SessionStore(folder, cwd=str(folder), durability="fast")
    with forty_entries(store) as log:
        log.branch(log.path_ids()[4])
        log.append_message(user("another way"))
        path = log.path
    assert path is not None
    lines = path.read_bytes().split(b"\n")
    return b"\n".join([*lines[:5], b"{{{ broken \xff", b"", *lines[5:20], lines[20] + b"\r", *lines[21:]])[:-1]


@pytest.mark.parametrize(("one", "other"), [KINDS, KINDS[::-1]])
def test_a_session_goes_over_and_back_byte_for_byte(tmp_path: Path, one: str, other: str) -> None:
    data = odd_file(tmp_path / "origin")
    here, there = made(one, tmp_path / "a"), made(other, tmp_path / "b")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir(exist_ok=True)
    source = tmp_path / "origin.jsonl"
    place: Any = put(here, data)
    with here.open(place, access="read") as log:
        told, damages, ids = history(log), log.report.damages, list(log.table.ids)

    source.write_bytes(here.whole(place))
    log = there.import_file(source)
    moved = place_of(log)
    with log:
        assert (history(log), log.report.damages, list(log.table.ids)) == (told, damages, ids)

    assert there.whole(moved) in (data, data + b"\n"), "opened for writing, its last line is ended"
    assert data.endswith(b"}")


def test_damage_ends_alike_in_both(tmp_path: Path) -> None:
    """Refused by both, or opened by both with the same findings and the same history."""
    origin = SessionStore(tmp_path / "origin", cwd="/proj", durability="fast")
    with forty_entries(origin) as log:
        path = log.path
    assert path is not None
    data, dice = path.read_bytes(), random.Random(5)
    damaged = [*truncated(data, 1_887), *flipped(data, 1_887), *flipped(data, 1_991, 0x20)]
    for change in (dropped, doubled, swapped, zeroed, joined):
        damaged += dice.sample(list(lines_changed(data, change)), 3)

    outcomes = [_outcome(made(kind, _new(tmp_path)), each) for each in damaged for kind in KINDS]

    assert outcomes[::2] == outcomes[1::2]
    assert {"refused"} < set(map(type_or_text, outcomes)), "some are refused, others opened"


def type_or_text(outcome: Any) -> str:
    return outcome if isinstance(outcome, str) else "opened"


def _new(folder: Path) -> Path:
    made = folder / str(len(list(folder.iterdir())))
    made.mkdir()
    return made


def _outcome(store: AnyStore, data: bytes) -> Any:
    try:
        with store.open(put(store, data)) as log:
            return log.report, history(log)
    except SessionError:
        return "refused"
    finally:
        if isinstance(store, SqliteStore):
            store.close()


# ---- several processes ----------------------------------------------------------------------------------------------

WRITER = """
import sys
from antiphon.core.messages import user
from antiphon.session_log.refusals import SessionInUse
from antiphon.session_log.store import open_store

where, place, me = sys.argv[1:]
store = open_store(where, cwd="/proj", durability="fast")
print("ready", flush=True)
sys.stdin.readline()
try:
    log, role = store.open(place), "owner"
except SessionInUse:
    log, role = store.fork(store.open(place, access="read"), None), "fork"
for n in range(20):
    log.append_message(user(f"{me} says {n}"))
print(role, log.path or log.session_id, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_of_several_processes_one_writes_to_a_database_session_and_the_others_fork(tmp_path: Path, count: int) -> None:
    """All of them write to one database at the same time: nothing is lost, counted from outside."""
    store = SqliteStore(tmp_path / "s.db", cwd="/proj")
    with store.create() as log:
        log.append_message(user("before"))
    words = [sys.executable, "-c", WRITER, f"sqlite:{store.path}", log.session_id]
    env = {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": env}
    started = [subprocess.Popen([*words, f"p{number}"], **pipes) for number in range(count)]
    assert [process.stdout.readline() for process in started if process.stdout] == ["ready\n"] * count
    for process in started:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline().split() for process in started if process.stdout]
    for process in started:
        process.communicate()

    assert [role for role, _ in answers].count("owner") == 1
    for number, (role, place) in enumerate(answers):
        said = [f"p{number} says {n}" for n in range(20)]
        with store.open(place) as log:
            assert told_texts(log) == (["before", *said] if role == "owner" else said)
    assert len(store.listing()) == count
    store.close()

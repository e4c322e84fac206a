"""Where recorded sessions show a flaw of the reference: what we do instead. One test per flaw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.session_log.make import calls, counting_sources, ids_on_disk, result, says, told_texts

from antiphon.core.content import ToolCall
from antiphon.core.messages import message_from_wire, user
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.branches import branch_budget, prepare_branch
from antiphon.session_log.calls import open_calls
from antiphon.session_log.compaction import CompactionSettings, prepare
from antiphon.session_log.entries import CustomEntry
from antiphon.session_log.refusals import NotASession

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/proj"}


def entry(entry_id: str, parent: str | None, text: str, role: str = "user") -> dict[str, Any]:
    content: Any = text if role == "user" else [{"type": "text", "text": text}]
    message = {"role": role, "content": content, "timestamp": 1}
    if role == "assistant":
        message["stopReason"] = "stop"
    stamp = "2026-01-01T00:00:01.000Z"
    return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": stamp, "message": message}


def chain(*ids: str) -> list[dict[str, Any]]:
    """Entries, each the child of the one before, saying their own id."""
    return [entry(entry_id, parent, entry_id) for parent, entry_id in zip([None, *ids], ids, strict=False)]


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, cwd="/proj", sources=counting_sources())


def written(store: SessionStore, *lines: Any) -> Path:
    """A file of these lines: bytes as they are, anything else as JSON."""
    path = store.folder / "s.jsonl"
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in data))
    return path


def kinds(log: SessionLog) -> list[str]:
    return [damage.kind for damage in log.report.damages]


def test_a_byte_order_mark_is_accepted(store: SessionStore) -> None:
    path = written(store, b"\xef\xbb\xbf" + json.dumps(HEADER).encode(), *chain("a", "b"))

    with store.open(path) as log:
        assert told_texts(log) == ["a", "b"]


def test_an_unreadable_line_does_not_hide_the_history_above_it(store: SessionStore) -> None:
    a, b, _, d = chain("a", "b", "c", "d")
    path = written(store, HEADER, a, b, b'{"type":"message","id":"c",', d)

    with store.open(path) as log:
        assert told_texts(log) == ["a", "b", "d"]
        assert kinds(log) == ["unreadable line", "lost parent"]
        assert "linked to b" in str(log.report)


def test_children_of_a_lost_line_stay_where_they_were_when_it_says_its_parent(store: SessionStore) -> None:
    """A line whose end is damaged still tells its id and its parent."""
    a, b, _, d = chain("a", "b", "c", "d")
    other = entry("x", "a", "other branch")
    path = written(store, HEADER, a, b, other, b'{"type":"message","id":"c","parentId":"b","timest', d)

    with store.open(path) as log:
        assert told_texts(log) == ["a", "b", "d"]


def test_an_unknown_parent_without_any_sign_of_loss_is_a_root(store: SessionStore) -> None:
    with store.open(written(store, HEADER, *chain("a", "b"), entry("z", "nowhere", "z"))) as log:
        assert told_texts(log) == ["z"]
        assert kinds(log) == ["lost parent"]


def test_a_bare_value_is_no_entry(store: SessionStore) -> None:
    a, b = chain("a", "b")

    with store.open(written(store, HEADER, a, True, 0, [], "text", b)) as log:
        assert log.table.ids == ["a", "b"]
        assert kinds(log) == ["unreadable line"] * 3


def test_an_entry_without_id_does_not_empty_the_branch(store: SessionStore) -> None:
    nameless = entry("x", "a", "nameless")
    del nameless["id"]

    with store.open(written(store, HEADER, *chain("a"), nameless)) as log:
        assert log.leaf_id == "a"
        assert told_texts(log) == ["a"]
        assert kinds(log) == ["no id"]


@pytest.mark.parametrize("parents", [("b", "a"), ("a", None), ("c", "a")], ids=["two", "itself", "three"])
def test_a_circle_of_parents_ends(store: SessionStore, parents: tuple[str, str]) -> None:
    """The reference walks until its memory is exhausted."""
    a, b = entry("a", parents[0], "a"), entry("b", parents[1], "b")
    with store.open(written(store, HEADER, a, b, entry("c", "b", "c"))) as log:
        assert "cycle" in kinds(log)
        assert log.path_ids()[-1] == "c"
        assert len(log.tree()) >= 1


def test_an_append_behind_a_half_line_is_not_glued_to_it(store: SessionStore) -> None:
    with store.create() as log:
        log.append_message(user("one"))
        assert log.path is not None
        with log.path.open("ab") as file:
            file.write(b'{"half')
        log.append_message(says("two"))
        assert "foreign lines" in kinds(log)

    with store.open(log.path) as again:
        assert told_texts(again) == ["one", "two"]


def test_a_glued_entry_of_another_writer_is_read(store: SessionStore) -> None:
    a, b = chain("a", "b")
    path = written(store, HEADER, a, b'{"half' + json.dumps(b, separators=(",", ":")).encode())

    with store.open(path) as log:
        assert told_texts(log) == ["a", "b"]
        assert kinds(log) == ["glued line"]


def test_lines_of_another_writer_are_taken_in_and_the_leaf_stays(store: SessionStore) -> None:
    with store.create() as log:
        first = log.append_message(user("one"))
        assert log.path is not None
        with log.path.open("ab") as file:
            file.write(json.dumps(entry("foreign", first, "from elsewhere")).encode() + b"\n")
        log.append_message(says("mine"))
        assert told_texts(log) == ["one", "mine"]
        assert log.children(first) == ["foreign", log.leaf_id]

    assert len(ids_on_disk(log.path)) == 3


def test_a_sealed_file_with_foreign_line_ends_is_clean(store: SessionStore) -> None:
    with store.create() as log:
        log.append_message(user("one"))
        assert log.path is not None
    log.path.write_bytes(log.path.read_bytes().replace(b"\n", b"\r\n"))

    with store.open(log.path) as again:
        again.append_message(says("two"))
        assert told_texts(again) == ["one", "two"]
        assert again.report.outcome == "clean"
        assert again.header == log.header


def test_a_removed_file_is_written_again_as_a_whole(store: SessionStore) -> None:
    with store.create() as log:
        log.append_message(user("one"))
        assert log.path is not None
        log.path.unlink()
        log.append_message(says("two"))
        log.append_message(user("three"))

    with store.open(log.path) as again:
        assert told_texts(again) == ["one", "two", "three"]
        assert again.report.outcome == "clean"


def test_a_replaced_file_is_left_alone(store: SessionStore) -> None:
    log = store.create()
    log.append_message(user("one"))
    assert log.path is not None
    log.path.unlink()
    log.path.write_text("somebody else's")

    with pytest.raises(Exception, match="replaced"):
        log.append_message(says("two"))

    assert log.path.read_text() == "somebody else's"
    assert told_texts(log) == ["one"]
    assert told_texts(store.fork(log, log.leaf_id)) == ["one"], "what was said can be saved elsewhere"


def test_a_file_that_was_cut_is_not_written_to(store: SessionStore) -> None:
    log = store.create()
    log.append_message(user("one"))
    log.append_message(says("two"))
    assert log.path is not None
    data = log.path.read_bytes()
    log.path.write_bytes(data[:-10])

    with pytest.raises(Exception, match="cut"):
        log.append_message(user("three"))

    assert log.path.read_bytes() == data[:-10]


@pytest.mark.parametrize("version", [1, 2])
def test_an_upgrade_keeps_unreadable_lines_and_the_old_file(store: SessionStore, version: int) -> None:
    header = {**HEADER, "version": version}
    a, b = chain("a", "b")
    path = written(store, header, a, b"{{{", b, b'{"half')
    before = path.read_bytes()

    with store.open(path) as log:
        assert told_texts(log) == ["a", "b"]
        assert log.header.version == 3

    assert b"{{{" in path.read_bytes()
    assert (store.folder / "s.jsonl.bak").read_bytes() == before
    with store.open(path) as again:
        assert told_texts(again) == ["a", "b"]


def test_an_upgrade_without_unreadable_lines_leaves_nothing_behind(store: SessionStore) -> None:
    path = written(store, {**HEADER, "version": 1}, *chain("a", "b"))

    store.open(path).close()

    assert [file.name for file in store.folder.iterdir()] == ["s.jsonl"]


def test_a_copy_of_an_old_file_keeps_its_history(store: SessionStore) -> None:
    """The reference claims version 3 for lines without ids."""
    a, b = chain("a", "b")
    for line in (a, b):
        del line["id"], line["parentId"]
    source = written(store, {**HEADER, "version": 1}, a, b)
    before = source.read_bytes()

    with store.copy(source, cwd="/other") as log:
        assert told_texts(log) == ["a", "b"]
        assert (log.cwd, log.header.parent_session) == ("/other", str(source))

    assert source.read_bytes() == before


def test_an_import_that_is_refused_leaves_no_copy(store: SessionStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.jsonl").write_text("garbage\n")
    other = SessionStore(tmp_path / "mine", cwd="/proj")

    with pytest.raises(NotASession):
        other.import_file(elsewhere / "x.jsonl")

    assert not other.folder.exists()


def test_importing_twice_makes_two_sessions(store: SessionStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.jsonl").write_text(json.dumps({**HEADER, "cwd": str(tmp_path)}) + "\n" + json.dumps(chain("a")[0]))

    first, second = (store.import_file(elsewhere / "x.jsonl") for _ in range(2))

    assert (first.session_id, first.path) == ("s1", store.folder / "x.jsonl")
    assert second.session_id != "s1"
    assert second.path == store.folder / "x-1.jsonl"
    assert told_texts(first) == told_texts(second) == ["a"]


def test_looking_at_a_session_writes_nothing(store: SessionStore) -> None:
    """The reference appends a thinking level when an older session is only opened."""
    path = written(store, HEADER, *chain("a"))
    before = path.read_bytes()

    store.resume(path, cwd="/proj").close()

    assert path.read_bytes() == before


# -- compaction

SETTINGS = CompactionSettings(True, 100, 100)


def long(text: str, tokens: int) -> str:
    return (text * 4 * tokens)[: 4 * tokens]


def two_turns(log: SessionLog) -> None:
    """Two complete turns of 80 and 160 tokens: the second fits the kept amount of 100 only as a whole."""
    log.append_message(user(long("a", 40)))
    log.append_message(says(long("b", 40)))


def test_settings_before_the_kept_message_do_not_split_a_turn(store: SessionStore) -> None:
    """The reference takes the complete turn before them for the beginning of a split one."""
    log = store.in_memory()
    two_turns(log)
    level = log.append_thinking_level_change("high")
    log.append_message(user(long("c", 60)))
    log.append_message(says(long("d", 60)))

    found = prepare(log.projection(), SETTINGS)

    assert found is not None
    assert found.first_kept_id == level
    assert not found.is_split_turn
    assert len(found.history) == 2


def test_an_omitted_attempt_before_the_kept_message_does_not_split_a_turn(store: SessionStore) -> None:
    log = store.in_memory()
    two_turns(log)
    failed = log.append_message(says("oops"))
    log.append_context_edit(failed, None)
    log.append_message(user(long("c", 60)))
    log.append_message(says(long("d", 60)))

    found = prepare(log.projection(), SETTINGS)

    assert found is not None
    assert not found.is_split_turn
    assert found.turn_prefix == ()


def test_hidden_shell_output_does_not_count_toward_what_is_kept(store: SessionStore) -> None:
    log = store.in_memory()
    two_turns(log)
    kept = log.append_message(user(long("c", 60)))
    log.append_message(says(long("d", 60)))
    shell = {"role": "bashExecution", "command": "x", "output": long("o", 500), "cancelled": False, "truncated": False}
    log.append_message(message_from_wire({**shell, "excludeFromContext": True}))

    found = prepare(log.projection(), SETTINGS)

    assert found is not None
    assert found.first_kept_id == kept


def test_a_long_prompt_does_not_count_toward_what_is_kept(store: SessionStore) -> None:
    """It is never summarised, so the only user message would be summarised away in its stead."""
    log = store.in_memory()
    log.append_message(user(long("a", 20)))
    log.append_message(message_from_wire({"role": "system", "content": long("s", 500)}))

    assert prepare(log.projection(), SETTINGS) is None


def test_a_reserve_above_the_window_limits_a_branch_summary(store: SessionStore) -> None:
    log = store.in_memory()
    for _ in range(10):
        log.append_message(user(long("x", 50)))

    found = prepare_branch(log.path_entries(), branch_budget(1000, 2000))

    assert branch_budget(1000, 2000) == 100
    assert len(found.messages) == 2


# -- interrupted calls


def test_dangling_calls_are_closed_once(store: SessionStore) -> None:
    """Log, context and request agree; a call that had begun is told from one that had not."""
    with store.create() as log:
        log.append_message(user("go"))
        answer = calls("first", "second", "third")
        log.append_message(answer)
        log.append_call_started(answer.content[0], 0)  # type: ignore[arg-type]
        log.append_message(result("c0", "done"))
        log.append_call_started(answer.content[1], 1)  # type: ignore[arg-type]
    assert log.path is not None

    with store.open(log.path) as log:
        assert [(found.call.name, found.progress) for found in log.open_calls()] == [
            ("second", "begun"),
            ("third", "not begun"),
        ]
        assert len(log.close_open_calls()) == 2
        last = told_texts(log)[-2:]
        assert "may have had effects" in last[0]
        assert "Not executed" in last[1]

    with store.open(log.path) as log:
        assert log.open_calls() == []
        assert log.close_open_calls() == []


def test_without_records_nobody_can_tell_whether_a_call_had_begun(store: SessionStore) -> None:
    log = store.in_memory()
    log.append_message(calls("bash"))

    assert [found.progress for found in log.open_calls()] == ["unknown"]


def test_calls_that_were_left_behind_are_not_open(store: SessionStore) -> None:
    log = store.in_memory()
    log.append_message(calls("bash"))
    log.append_message(user("never mind"))

    assert log.open_calls() == []


class Touched(list[Any]):
    """A list that counts how often one of its items is asked for."""

    count = 0

    def __getitem__(self, at: Any) -> Any:
        self.count += len(range(*at.indices(len(self)))) if isinstance(at, slice) else 1
        return super().__getitem__(at)


def test_open_calls_cost_what_is_open(store: SessionStore) -> None:
    """They are asked for at every prompt: a long history must not be looked through each time."""
    log = store.in_memory()
    for number in range(2_000):
        log.append_message(user(str(number)))
    log.append_message(calls("a", "b"))
    log.append_call_started(ToolCall(id="c0", name="a", arguments={}), 0)
    items = Touched(log.projection().items)

    found = open_calls(structs.replace(log.projection(), items=items))

    assert [call.progress for call in found] == ["begun", "not begun"]
    assert items.count < 10


def test_children_asked_again_are_those_that_came_since(store: SessionStore) -> None:
    log = store.in_memory()
    first = log.append_message(user("a"))
    assert (log.children(None), log.children(first)) == ([first], [])

    second = log.append_message(user("b"))
    log.branch(first)
    third = log.append_message(user("c"))
    log.reset_leaf()
    root = log.append_message(user("d"))

    assert (log.children(None), log.children(first)) == ([first, root], [second, third])


@pytest.mark.parametrize("start", [b"[]", b"{}", b"true", b"5"])
def test_a_file_that_begins_with_another_value_is_neither_opened_nor_listed(store: SessionStore, start: bytes) -> None:
    path = written(store, start, HEADER, *chain("a"))

    with pytest.raises(NotASession):
        store.open(path)
    assert store.listing() == []
    assert store.most_recent() is None


def test_a_file_with_a_byte_order_mark_is_listed_and_imported(store: SessionStore, tmp_path: Path) -> None:
    elsewhere = SessionStore(tmp_path / "elsewhere", cwd="/proj")
    elsewhere.folder.mkdir()
    path = written(elsewhere, b"\xef\xbb\xbf" + json.dumps(HEADER).encode(), *chain("hi"))

    for _ in range(2):
        with store.import_file(path, cwd="/proj") as log:
            assert told_texts(log) == ["hi"]

    assert [row.facts.first_message for row in store.listing()] == ["hi", "hi"]
    assert len({row.facts.id for row in store.listing()}) == 2


def test_a_copy_of_a_damaged_session_keeps_its_history(store: SessionStore) -> None:
    """Lines that cannot be read are not copied. What hung on them is linked as in the original."""
    a, _, c = chain("one", "two", "three")
    path = written(store, HEADER, a, b"{{{", c)

    with store.open(path, access="read") as damaged, store.copy(path) as copy:
        assert told_texts(damaged) == ["one", "three"]
        assert told_texts(copy) == ["one", "three"]
        assert copy.report.outcome == "clean"


def test_what_was_mended_is_recorded_once_and_not_by_looking(store: SessionStore) -> None:
    """The damaged line stays in the file and is found at every opening."""
    path = written(store, HEADER, *chain("a", "b"), b"{{{", entry("d", "c", "d"))
    before = path.read_bytes()
    with store.open(path) as log:
        assert kinds(log) == ["unreadable line", "lost parent"]
    assert path.read_bytes() == before

    for _ in range(3):
        with store.open(path) as log:
            log.record_repairs()
            log.append_message(user("on"))

    with store.open(path) as log:
        records = [entry.data for entry in log.entries() if isinstance(entry, CustomEntry)]
        assert told_texts(log) == ["a", "b", "d", "on", "on", "on"]
    assert [record["count"] for record in records] == [2]
    assert records[0]["findings"][0] == {
        "kind": "unreadable line",
        "line": 4,
        "done": "skipped, left in the file",
        "entryId": None,
    }


def test_a_clean_session_has_no_record(store: SessionStore) -> None:
    with store.create() as log:
        log.append_message(user("a"))
        assert log.record_repairs() is None
        assert log.entry_count == 1

"""One conversation as a log: what is appended is stored, comes back, and is what the model is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.session_log.stores import AnyStore, made, place_of

from antiphon.core.messages import AssistantMessage, message_from_wire, message_to_wire, user
from antiphon.core.transcript import Transcript
from antiphon.session_log.refusals import EntryRefused, NoSuchEntry
from antiphon.session_log.sqlite import SqliteStore


def says(text: str, **more: object) -> AssistantMessage:
    wire = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **more}
    message = message_from_wire(wire)
    assert isinstance(message, AssistantMessage)
    return message


@pytest.fixture(params=["files", "database"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[AnyStore]:
    """Everything here holds in a folder of files and in a database."""
    store = made(request.param, tmp_path)
    yield store
    if isinstance(store, SqliteStore):
        store.close()


@pytest.mark.requirement("S1-18")
def test_a_conversation_comes_back_as_it_was(store: AnyStore) -> None:
    with store.create() as log:
        log.append_message(user("hello", 1))
        log.append_message(says("hi", provider="p", model="m", somethingNew={"a": 1}))
        told = log.messages()

    again = store.continue_recent()

    assert again is not None
    with again:
        assert again.messages() == told
        assert message_to_wire(again.messages()[1])["somethingNew"] == {"a": 1}
        assert again.report.outcome == "clean"
        assert again.settings.model is not None
        assert again.settings.model.model_id == "m"


def test_a_session_in_which_nobody_spoke_leaves_no_file(store: AnyStore) -> None:
    with store.create() as log:
        log.append_model_change("p", "m")
        log.set_name("never used")
        assert not log.saved

    assert store.continue_recent() is None
    assert store.listing() == []


def test_what_was_set_before_the_first_word_is_in_the_file(store: AnyStore) -> None:
    with store.create() as log:
        log.append_thinking_level_change("high")
        log.append_message(user("now"))

    again = store.continue_recent()

    assert again is not None
    assert again.settings.thinking_level == "high"
    assert again.entry_count == 2


def test_an_edit_changes_what_the_model_is_told_and_not_the_entry(store: AnyStore) -> None:
    log = store.create()
    target = log.append_message(user("long"))
    before = log.messages()

    log.append_context_edit(target, "short")

    assert log.messages()[0] == user("short")
    assert before[0] == user("long"), "a transcript that was handed out does not change"
    assert message_to_wire(log.entry(target).message)["content"] == "long"  # type: ignore[union-attr]


def test_an_omitted_message_is_not_told(store: AnyStore) -> None:
    log = store.create()
    log.append_message(user("a"))
    failed = log.append_message(says("oops"))

    log.append_context_edit(failed, None)

    assert list(log.messages()) == [user("a")]


def test_an_entry_of_another_branch_cannot_be_edited(store: AnyStore) -> None:
    log = store.create()
    first = log.append_message(user("a"))
    left = log.append_message(says("b"))
    log.branch(first)

    with pytest.raises(EntryRefused):
        log.append_context_edit(left, None)
    with pytest.raises(EntryRefused):
        log.append_context_edit(log.set_name("x"), None)
    with pytest.raises(NoSuchEntry):
        log.append_context_edit("ghost", None)


def test_appending_gives_a_longer_window_on_the_same_storage(store: AnyStore) -> None:
    """No copy per turn: the adapter that caches what it encoded recognises the storage."""
    log = store.create()
    log.append_message(user("a"))
    first = log.messages()

    log.append_message(says("b"))

    assert isinstance(first, Transcript)
    assert log.messages().storage is first.storage
    assert len(first) == 1


def test_a_deliberate_move_is_remembered(store: AnyStore) -> None:
    """The reference forgets where the user stood."""
    log = store.create()
    first = log.append_message(user("a"))
    log.append_message(says("b"))
    log.move_to(first)
    log.close()

    again = store.open(place_of(log))

    assert list(again.messages()) == [user("a")]
    assert again.path_ids()[0] == first


def test_a_move_to_nothing_is_remembered(store: AnyStore) -> None:
    log = store.create()
    log.append_message(user("a"))
    log.move_to(None)
    log.close()

    with store.open(place_of(log)) as again:
        assert list(again.messages()) == []


def test_branching_to_an_unknown_entry_leaves_the_leaf(store: AnyStore) -> None:
    log = store.create()
    log.append_message(user("a"))
    leaf = log.leaf_id

    for move in (log.branch, log.move_to, lambda i: log.branch_with_summary(i, "s")):
        with pytest.raises(NoSuchEntry):
            move("ghost")

    assert log.leaf_id == leaf


def test_a_compaction_keeps_prompt_and_tools(store: AnyStore) -> None:
    log = store.create()
    log.append_message(
        message_from_wire({"role": "system", "content": "be kind", "sections": {"a": "1"}, "timestamp": 1})
    )
    log.append_message(user("a"))
    kept = log.append_message(user("b"))

    log.append_compaction("what was", kept, 100)

    told = [message_to_wire(message) for message in log.messages()]
    assert [m["role"] for m in told] == ["system", "compactionSummary", "user"]
    assert told[0]["sections"] == {"a": "1"}
    assert told[1]["summary"] == "what was"


def test_labels_and_names(store: AnyStore) -> None:
    log = store.create()
    entry = log.append_message(user("a"))
    log.set_label(entry, "here")
    log.set_name(" two\r\nlines ")

    assert log.label(entry) == "here"
    assert log.name == "two lines"

    log.set_label(entry, None)
    log.set_name("")

    assert log.label(entry) is None
    assert log.name is None

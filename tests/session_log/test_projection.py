"""The context is kept up to date entry by entry and is always what a fresh reader works out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.session_log.make import calls, counting_sources, history, result, says, told_texts

from antiphon.core.messages import Message, message_from_wire, message_to_wire, user
from antiphon.core.transcript import Transcript
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.compaction import projected_tokens
from antiphon.session_log.refusals import EntryRefused


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, cwd="/proj", sources=counting_sources(), durability="fast")


def something(log: SessionLog, dice: random.Random) -> None:
    """One random step of a session's life."""
    path = log.path_ids()
    match dice.randrange(14):
        case 0 | 1 | 2:
            log.append_message(user(f"u{log.entry_count}"))
        case 3 | 4:
            usage = {"input": dice.randrange(3) * 100, "output": 1}
            log.append_message(says(f"a{log.entry_count}", provider="p", model=f"m{dice.randrange(3)}", usage=usage))
        case 5:
            log.append_message(calls("t"))
            log.append_message(result("c0", "r"))
        case 6:
            text = f"s{log.entry_count}"
            log.append_message(message_from_wire({"role": "system", "content": text, "sections": {text: text}}))
        case 7 | 8 if path:
            try:
                log.append_context_edit(dice.choice(path), dice.choice([None, "edited"]))
            except EntryRefused:
                log.append_custom("ext")
        case 9 if path and dice.random() < 0.5:
            log.append_compaction(f"k{log.entry_count}", dice.choice([None, *path[-8:]]), 1)
        case 10 if path:
            log.branch(dice.choice(log.table.ids))
        case 11:
            log.append_custom_message("ext", "note", display=True)
        case 12 if path:
            log.branch_with_summary(dice.choice([None, *path]), dice.choice(["", "left"]))
        case _:
            log.append_thinking_level_change(dice.choice(["low", "high"]))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_up_to_date_equals_what_is_worked_out_anew(store: SessionStore, seed: int) -> None:
    """Ask after every step, so that every step is taken incrementally; compare with a log that never was asked."""
    dice = random.Random(seed)
    log = store.create(session_id=f"s{seed}")
    for _ in range(120):
        something(log, dice)
        log.messages()
        tokens = log.context_tokens()
        fresh = (
            store.in_memory(log.lines.blocks().__next__().split(b"\n")[:-1]) if not log.saved else reread(store, log)
        )
        if log.leaf_id is not None:
            fresh.branch(log.leaf_id)
            assert history(fresh) == history(log)
            assert fresh.context_tokens() == tokens
            assert projected_tokens(fresh.projection()) == tokens
            assert log.messages().system.prompt == fresh.messages().system.prompt


def reread(store: SessionStore, log: SessionLog) -> SessionLog:
    assert log.path is not None
    return store.open(log.path, access="read")


def test_earlier_transcripts_do_not_change(store: SessionStore) -> None:
    log = store.in_memory()
    seen: list[tuple[Transcript, list[Message]]] = []
    for number in range(6):
        entry = log.append_message(user(f"u{number}"))
        if number % 2:
            log.append_context_edit(entry, None)
        seen.append((log.messages(), list(log.messages())))

    assert all(list(transcript) == messages for transcript, messages in seen)


def test_a_replaced_part_of_a_transcript() -> None:
    """The core's transcript gives what an edit needs: other messages in a place, all else as it was."""
    host = message_from_wire({"role": "widget"})
    system = message_from_wire({"role": "system", "content": "be kind"})
    before = Transcript([system, user("a"), user("b")])
    before.system  # noqa: B018 - computed once, then carried along

    after = before.replaced(1, 2, [host])

    assert [message_to_wire(message)["role"] for message in after] == ["system", "widget", "user"]
    assert after.has_host_messages
    assert after.system.prompt == "be kind"
    assert after.replaced(0, 1, ()).system.is_empty
    assert not after.replaced(1, 2, [user("c")]).has_host_messages
    assert list(before) == [system, user("a"), user("b")]


def test_settings_follow_the_branch(store: SessionStore) -> None:
    log = store.in_memory()
    first = log.append_message(user("a"))
    log.append_thinking_level_change("high")
    log.append_message(says("b", provider="p", model="m"))
    assert (log.settings.thinking_level, log.settings.model and log.settings.model.model_id) == ("high", "m")

    log.branch(first)

    assert (log.settings.thinking_level, log.settings.model) == ("off", None)


def test_an_edit_before_the_kept_part_no_longer_counts(store: SessionStore) -> None:
    log = store.in_memory()
    log.append_message(user("old"))
    kept = log.append_message(user("kept"))
    log.append_context_edit(kept, "edited")
    last = log.append_message(user("last"))
    log.append_compaction("sum", last, 1)

    assert told_texts(log) == ["sum", "last"]
    log.append_compaction("sum 2", kept, 1)
    assert told_texts(log) == ["sum 2", "edited", "last"]

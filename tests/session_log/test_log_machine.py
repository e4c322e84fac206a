"""Random lives of sessions, in files and in a database: the log and the plainest log say the same after every step.

Twelve lives always; ten thousand by name, in about a quarter of an hour (`-m slow`; `-s` shows the counts).
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.session_log.disks import FaultyDisk
from tests.session_log.make import counting_sources, result, text_of_message
from tests.session_log.plain_log import PlainLog, Told

from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, Message, message_from_wire, message_to_wire, user
from antiphon.core.usage import Usage
from antiphon.errors import SessionError
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.refusals import EntryRefused, NoSuchEntry
from antiphon.session_log.sqlite import SqliteStore

NUMBERS = st.integers(0, 10_000)
WORDS = st.sampled_from(["", "a", "b c", "\u00e9\u2028\U0001f600", "line\nline", "\ud800"])
CALLS = st.lists(st.sampled_from(["c0", "c1"]), max_size=3)
done: Counter[str] = Counter()
"""How often each step was taken, over all lives."""


def answer(text: str, calls: list[str], model: str) -> AssistantMessage:
    blocks: list[Any] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "toolCall", "id": call, "name": "t", "arguments": {}} for call in calls]
    wire = {"role": "assistant", "content": blocks, "stopReason": "stop", "provider": "p", "model": model}
    message = message_from_wire(wire)
    assert isinstance(message, AssistantMessage)
    return message


def told(messages: Any) -> list[Told]:
    return [(message_to_wire(message)["role"], text_of_message(message)) for message in messages]


class Lives(RuleBasedStateMachine):
    """A session in one hand, the plain log in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.sources = counting_sources()
        self.disk: Any = FaultyDisk(-1, errno.ENOSPC)
        self.plain = PlainLog()
        self.store: SessionStore | SqliteStore
        self.log: SessionLog

    @initialize(in_file=st.booleans())
    def begin(self, in_file: bool) -> None:
        if in_file:
            self.store = SessionStore(
                self.folder / "s", cwd="/proj", sources=self.sources, durability="fast", disk=self.disk
            )
        else:
            self.store = SqliteStore(self.folder / "all.db", cwd="/proj", sources=self.sources, durability="fast")
        self.log = self.store.create()

    def teardown(self) -> None:
        try:
            if hasattr(self, "log"):
                self.the_context_is_what_the_plain_log_works_out()
                self.log.close()
            if isinstance(getattr(self, "store", None), SqliteStore):
                self.store.close()  # type: ignore[union-attr]
        finally:
            shutil.rmtree(self.folder)

    # -- what both must agree on

    @invariant()
    def both_stand_at_the_same_place(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.leaf_id == self.plain.leaf
        assert self.log.entry_count == len(self.plain.entries)
        assert self.log.saved == self.plain.was_said

    @rule()
    def the_context_is_what_the_plain_log_works_out(self) -> None:
        assert told(self.log.messages()) == self.plain.context()
        assert [(item.entry.id, len(item.messages)) for item in self.log.projection().items] == [
            (entry.id, len(messages)) for entry, messages in self.plain.projection()
        ]
        model = self.log.settings.model
        assert (self.log.settings.thinking_level, model and model.model_id) == self.plain.settings()
        assert self.log.messages().system.prompt == self.plain.prompt()

    @rule()
    def open_calls_are_known(self) -> None:
        assert [(found.call.id, found.progress) for found in self.log.open_calls()] == self.plain.open_calls()

    @rule(number=NUMBERS)
    def the_tree_is_the_same(self, number: int) -> None:
        assert self.log.name == self.plain.name
        assert self.log.path_ids() == [entry.id for entry in self.plain.path(self.plain.leaf)]
        entry = self.some(number)
        assert self.log.children(entry) == self.plain.children(entry)
        if entry is not None:
            assert self.log.label(entry) == self.plain.label(entry)
            assert self.log.entry(entry).id == entry

    @precondition(lambda self: self.plain.was_said)
    @rule()
    def a_reader_sees_the_same(self) -> None:
        """From the file, at the last entry."""
        with self.opened("read") as other:
            assert [entry.id for entry in other.entries()] == [entry.id for entry in self.plain.entries]
            assert other.report.outcome == "clean" or self.log.lines.damaged  # type: ignore[attr-defined]
            if self.log.leaf_id == other.leaf_id:
                assert other.messages() == self.log.messages()

    # -- what is done to both

    def some(self, number: int) -> str | None:
        """An entry, or (one time in so many) none."""
        entries = self.plain.entries
        number %= len(entries) + 1
        return entries[number].id if number < len(entries) else None

    def opened(self, access: Any) -> SessionLog:
        if isinstance(self.store, SqliteStore):
            return self.store.open(self.log.session_id, access=access)
        assert self.log.path is not None
        return self.store.open(self.log.path, access=access)

    def stored(self, kind: str, text: Any, more: Any, store: Callable[[], str]) -> None:
        done[kind] += 1
        self.plain.add(store(), kind, text, more)

    @rule(text=WORDS)
    def a_user_speaks(self, text: str) -> None:
        self.stored("user", text, None, lambda: self.log.append_message(user(text)))

    @rule(text=WORDS, calls=CALLS, model=st.sampled_from(["m", "n"]))
    def a_model_answers(self, text: str, calls: list[str], model: str) -> None:
        message = answer(text, calls, model)
        self.stored("assistant", text, (model, calls), lambda: self.log.append_message(message))

    @rule(call=st.sampled_from(["c0", "c1"]), text=WORDS)
    def a_tool_answers(self, call: str, text: str) -> None:
        self.stored("toolResult", text, call, lambda: self.log.append_message(result(call, text)))

    @rule(position=st.integers(0, 2))
    def a_call_starts(self, position: int) -> None:
        call = ToolCall(id="c0", name="t", arguments={})
        self.stored("call_started", "", position, lambda: self.log.append_call_started(call, position))

    @rule(text=st.sampled_from(["be kind", "be brief"]))
    def the_prompt_grows(self, text: str) -> None:
        message: Message = message_from_wire({"role": "system", "content": text})
        self.stored("system", text, None, lambda: self.log.append_message(message))

    @rule(text=WORDS)
    def something_is_set(self, text: str) -> None:
        log = self.log
        self.stored("thinking_level_change", text, None, lambda: log.append_thinking_level_change(text))
        self.stored("model_change", text, None, lambda: log.append_model_change("p", text))
        self.stored("usage", "", None, lambda: log.append_usage("k", "p", "m", Usage(input=1)).id)
        self.stored("custom", "", None, lambda: log.append_custom("ext", {"text": text}))
        self.stored("session_info", " ".join(text.split("\n")), None, lambda: log.set_name(text))

    @rule(text=WORDS)
    def an_extension_speaks(self, text: str) -> None:
        self.stored("custom_message", text, None, lambda: self.log.append_custom_message("e", text, display=True))

    @rule(number=NUMBERS, text=WORDS)
    def something_is_labelled(self, number: int, text: str) -> None:
        target = self.some(number)
        if target is None:
            with pytest.raises(NoSuchEntry):
                self.log.set_label("ghost", text)
        else:
            self.stored("label", text, target, lambda: self.log.set_label(target, text))

    @rule(number=NUMBERS, text=st.one_of(st.none(), WORDS))
    def something_is_edited(self, number: int, text: str | None) -> None:
        target = self.some(number)
        if target is not None and self.plain.may_edit(target):
            self.stored("context_edit", text, target, lambda: self.log.append_context_edit(target, text))
            return
        done["edit refused"] += 1
        with pytest.raises(NoSuchEntry if target is None else EntryRefused):
            self.log.append_context_edit(target or "ghost", text)

    @rule(number=NUMBERS, text=WORDS)
    def it_is_compacted(self, number: int, text: str) -> None:
        kept, prompt = self.some(number), self.plain.prompt()
        self.stored("compaction", text, (kept, prompt), lambda: self.log.append_compaction(text, kept, 100))

    @rule(number=NUMBERS)
    def the_user_goes_elsewhere(self, number: int) -> None:
        target = self.some(number)
        done["branch"] += 1
        if target is None:
            self.log.reset_leaf()
        else:
            self.log.branch(target)
        self.plain.leaf = target

    @rule(number=NUMBERS)
    def the_user_goes_elsewhere_for_good(self, number: int) -> None:
        target = self.some(number)
        self.plain.leaf = target
        self.stored("position", "", None, lambda: self.log.move_to(target))

    @rule(number=NUMBERS, text=WORDS)
    def the_user_leaves_a_summary(self, number: int, text: str) -> None:
        target = self.some(number)
        self.plain.leaf = target
        self.stored("branch_summary", text, None, lambda: self.log.branch_with_summary(target, text))

    @rule()
    def open_calls_are_closed(self) -> None:
        calls = self.plain.open_calls()
        done["calls closed"] += len(calls)
        ids = self.log.close_open_calls()
        for entry_id, (call, _) in zip(ids, calls, strict=True):
            self.plain.add(entry_id, "toolResult", text_of_message(self.log.entry(entry_id).message), call)  # type: ignore[union-attr]
        assert self.log.open_calls() == []

    @precondition(lambda self: isinstance(self.store, SessionStore))
    @rule(after=st.integers(0, 2), short=st.booleans())
    def the_disk_is_full(self, after: int, short: bool) -> None:
        """An append that fails, or does not: either way both agree afterwards."""
        disk = self.disk
        disk.at, disk.short, disk.forever = disk.count + 1 + after, short, True
        try:
            entry_id = self.log.append_message(user("on a full disk"))
        except SessionError:
            done["disk full"] += 1
        else:
            self.plain.add(entry_id, "user", "on a full disk")
        disk.heal()

    # -- other lives

    @rule()
    def it_is_opened_again(self) -> None:
        done["reopened"] += 1
        self.log.close()
        if self.plain.was_said:
            self.log = self.opened("write")
            assert self.log.report.outcome == "clean"
            self.plain.reopened()
        else:
            self.log, self.plain = self.store.create(), PlainLog()

    @rule(number=NUMBERS)
    def a_fork_tells_the_same(self, number: int) -> None:
        leaf = self.some(number)
        there = PlainLog(self.plain.entries, leaf)
        with self.store.fork(self.log, leaf) as fork:
            done["fork"] += 1
            assert told(fork.messages()) == there.context() or _moves_what_is_kept(there)
            assert fork.saved == any(entry.kind in ("user", "assistant") for entry in there.path(leaf))

    @precondition(lambda self: self.plain.was_said)
    @rule()
    def a_copy_in_the_other_store_is_the_same_byte_for_byte(self) -> None:
        done["converted"] += 1
        data = b"".join(self.log.lines.blocks())
        with self.store.in_memory(data.split(b"\n")[:-1]) as memory:
            assert [entry.id for entry in memory.entries()] == [entry.id for entry in self.plain.entries]
        database = SqliteStore(self.folder / "other.db", cwd="/proj")
        try:
            if not any(row.facts.id == self.log.session_id for row in database.listing()):
                assert database.whole(database.take(data)) == data
        finally:
            database.close()

    @precondition(lambda self: self.plain.entries)
    @rule()
    def an_export_tells_the_same(self) -> None:
        done["export"] += 1
        with self.store.in_memory(self.store.export(self.log).split(b"\n")[:-1]) as copy:
            assert copy.messages() == self.log.messages()
            assert copy.path_ids() == self.log.path_ids()


def _moves_what_is_kept(plain: PlainLog) -> bool:
    """Does a compaction keep from a label or position on? A fork has no such entry and begins at the next one."""
    marks = [entry.id for entry in plain.path(plain.leaf) if entry.kind in ("label", "position")]
    return any(entry.kind == "compaction" and entry.more[0] in marks for entry in plain.path(plain.leaf))


def live(lives: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Lives,
        settings=settings(max_examples=lives, stateful_step_count=30, deadline=None, suppress_health_check=checks),
    )


def test_some_lives() -> None:
    live(12)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_thousand_lives() -> None:
    live(10_000)
    print(f"{sum(done.values()):,} steps", dict(sorted(done.items())))

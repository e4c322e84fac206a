"""One conversation: the log that is its only source of truth, and everything that may be asked of it or done to it.

Every change is one entry: stored first, then part of memory. If storing fails the error is raised and nothing has
changed. The log decides nothing about a conversation; it keeps the rules of the tree (sessions specification 3 to 5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from antiphon.core.content import Content, ToolCall
from antiphon.core.json_numbers import JS_SPACE
from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.transcript import Transcript
from antiphon.core.usage import Usage
from antiphon.session_log.calls import CALL_STARTED, OpenCall, interrupted_result, open_calls, start_record
from antiphon.session_log.compaction.estimate import ContextTokens, RunningSum, projected_tokens
from antiphon.session_log.damage import Damage, OpenReport
from antiphon.session_log.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    Header,
    KnownEntry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    PositionEntry,
    Replacement,
    SessionInfoEntry,
    ThinkingLevelEntry,
    UsageEntry,
    entry_from_line,
)
from antiphon.session_log.file import FileLines
from antiphon.session_log.fork import forked, relinked
from antiphon.session_log.line import changed, sealed, write_value
from antiphon.session_log.lines import INTENT, Lines, MemoryLines
from antiphon.session_log.projection import Projected, Projection, Settings, as_blocks
from antiphon.session_log.refusals import EntryRefused, NoSuchEntry
from antiphon.session_log.repairs import REPAIRED, is_recorded, repair_record
from antiphon.session_log.scan import Scan
from antiphon.session_log.stamps import Sources, iso, ms_of
from antiphon.session_log.tree import (
    ASSISTANT,
    COMPACTION,
    CUSTOM,
    ROOT,
    TOOL_RESULT,
    USER,
    Head,
    MessageHead,
    Table,
    TreeNode,
    numbers_with_siblings,
    tree_view,
)

_Known = TypeVar("_Known", bound=KnownEntry)
_BREAKS = re.compile(r"[\r\n]+")


@final
class SessionLog:
    """The append-only history of one conversation. Made by a `SessionStore`; close it, or use it in a `with`."""

    def __init__(
        self,
        *,
        header: Header,
        cwd: str,
        lines: Lines,
        table: Table,
        sources: Sources,
        report: OpenReport,
        seals: bool,
        before_close: Callable[[SessionLog], None] | None = None,
    ) -> None:
        self.header = header
        self.cwd = cwd
        self.report = report
        self.lines = lines
        """Where the lines live. Whoever made the log may look; only the log appends."""
        self.table = table
        """What is known of every entry. Read only."""
        self._sources = sources
        self._seals = seals
        self._before_close = before_close
        self._leaf = len(table) - 1
        self._projection = Projection(table, self._read)
        self._projection.move(self._leaf)
        self._counted = RunningSum()
        self._recorded: OpenReport | None = None

    # -- what it is

    @property
    def session_id(self) -> str:
        return self.header.id

    @property
    def path(self) -> Path | None:
        """The file, which may not exist yet; nothing for a session in memory or in a database."""
        return self.lines.path if isinstance(self.lines, FileLines) else None

    @property
    def is_in_memory(self) -> bool:
        """Will it never be kept anywhere else?"""
        return isinstance(self.lines, MemoryLines)

    @property
    def saved(self) -> bool:
        """Is this session kept anywhere but in memory?"""
        return self.lines.saved

    @property
    def name(self) -> str | None:
        """The name given last, on whatever branch."""
        return self.table.name

    @property
    def leaf_id(self) -> str | None:
        """Where the next entry will hang."""
        return None if self._leaf == ROOT else self.table.ids[self._leaf]

    @property
    def entry_count(self) -> int:
        return len(self.table)

    # -- reading

    def messages(self) -> Transcript:
        """What the model is told at the leaf. A value: later appends do not change it."""
        return self._projection.messages()

    def projection(self) -> Projected:
        """The same with its origin: per entry of the context its messages. Valid until the next change."""
        return self._projection.view()

    def context_tokens(self) -> ContextTokens:
        """How long the context is at the leaf. Asked after every turn it costs what is new since the last time."""
        return projected_tokens(self.projection(), self._counted)

    @property
    def settings(self) -> Settings:
        """Thinking level and model in force at the leaf."""
        return self._projection.settings

    def has(self, entry_id: str) -> bool:
        return entry_id in self.table.by_id

    def entry(self, entry_id: str) -> Entry:
        """The entry with this id.

        Raises:
            NoSuchEntry: there is none.
        """
        return self._read(self._number(entry_id))

    def entry_at(self, number: int) -> Entry:
        """The entry with this number: entries are counted from 0 in file order (`table`)."""
        return self._read(number)

    def entries(self) -> Iterator[Entry]:
        """All entries in file order, of every branch."""
        return (self._read(number) for number in range(len(self.table)))

    def copy_lines(self) -> Iterator[bytes]:
        """The line of every entry in file order, byte for byte unless its parent was lost.

        Such a line names the parent it was linked to: a copy does not have the damage that would tell.
        """
        for number, parent in enumerate(self.table.parents):
            line, parent_id = self._raw(number), None if parent == ROOT else self.table.ids[parent]
            kept = self._read(number).parent_id == parent_id if self.report.damages else True
            yield line if kept else changed(line, {"parentId": parent_id})

    def path_ids(self, leaf: str | UnsetType | None = UNSET) -> list[str]:
        """Ids from a root to `leaf` (left out: the current one)."""
        number = self._leaf if leaf is UNSET else self._number(leaf)
        return [self.table.ids[step] for step in self.table.path(number)]

    def path_entries(self, leaf: str | UnsetType | None = UNSET) -> list[Entry]:
        """Entries from a root to `leaf` (left out: the current one)."""
        number = self._leaf if leaf is UNSET else self._number(leaf)
        return [self._read(step) for step in self.table.path(number)]

    def children(self, entry_id: str | None) -> list[str]:
        """Entries whose parent this is, in file order; of nothing: the roots."""
        return [self.table.ids[child] for child in self.table.children(self._number(entry_id))]

    def label(self, entry_id: str) -> str | None:
        mark = self.table.labels.get(entry_id)
        return None if mark is None else mark.label

    def tree(self) -> list[TreeNode]:
        """The whole tree, roots first; siblings by time."""
        times = {number: ms_of(self._read(number).timestamp) for number in numbers_with_siblings(self.table)}
        return tree_view(self.table, times)

    def has_talk(self, leaf: str | None) -> bool:
        """Does a user or a model say something on the path to an entry?"""
        kinds = self.table.kinds
        return any(kinds[step] in (USER, ASSISTANT) for step in self.table.upward(self._number(leaf)))

    def was_compacted(self, answer: AssistantMessage) -> bool:
        """Was the path compacted after this answer? Places tell, not clocks: both may be of one millisecond.

        Costs what was said since the last compaction, and most often finds the answer at the leaf.
        """
        for step in self.table.upward(self._leaf):
            if self.table.kinds[step] == COMPACTION:
                return True
            if self.table.kinds[step] == ASSISTANT:
                entry = self._read(step)
                if isinstance(entry, MessageEntry) and entry.message == answer:
                    return False
        return False

    def fork_lines(self, leaf: str | None) -> list[bytes]:
        """The lines of a new session that begins with the path to an entry."""
        steps = [(self._read(step), self._raw(step)) for step in self.table.path(self._number(leaf))]
        return forked(steps, self.table.labels, self._sources.entry_id, seals=self._seals)

    def export_lines(self) -> list[bytes]:
        """The lines of the active path, each entry the child of the one before it."""
        return relinked((self._read(step), self._raw(step)) for step in self.table.path(self._leaf))

    # -- appending

    def append_message(self, message: Message) -> str:
        """Store a message as a child of the leaf; the id of its entry."""
        return self._append(MessageEntry, message=message).id

    def append_model_change(self, provider: str, model_id: str) -> str:
        return self._append(ModelChangeEntry, provider=provider, model_id=model_id).id

    def append_thinking_level_change(self, level: str) -> str:
        return self._append(ThinkingLevelEntry, thinking_level=level).id

    def append_usage(
        self, kind: str, provider: str, model: str, usage: Usage, note: str | UnsetType = UNSET
    ) -> UsageEntry:
        """Tokens spent outside of messages; they count in totals."""
        return self._append(UsageEntry, kind=kind, provider=provider, model=model, usage=usage, note=note)

    def append_custom(self, custom_type: str, data: Any | UnsetType = UNSET) -> str:
        """State that no model sees."""
        return self._append(CustomEntry, custom_type=custom_type, data=data).id

    def append_custom_message(
        self, custom_type: str, content: str | Content, *, display: bool, details: Any | UnsetType = UNSET
    ) -> str:
        """A message of an extension; the model sees it as the user's."""
        return self._append(
            CustomMessageEntry, custom_type=custom_type, content=content, display=display, details=details
        ).id

    def set_name(self, name: str) -> str:
        """Name the session; line breaks become spaces, an empty name takes it away."""
        return self._append(SessionInfoEntry, name=_BREAKS.sub(" ", name).strip(JS_SPACE)).id

    def set_label(self, target_id: str, label: str | None) -> str:
        """Name an entry of any branch; nothing or an empty text takes the name away."""
        self._number(target_id)
        return self._append(LabelEntry, target_id=target_id, label=label or UNSET).id

    def append_context_edit(self, target_id: str, content: str | Content | None) -> str:
        """Show the model other content for an entry of the active path, or (None) nothing.

        Raises:
            NoSuchEntry: no such entry.
            EntryRefused: not on the active path, or not a message that may be edited.
        """
        number = self._number(target_id)
        kind = self.table.kinds[number]
        if kind not in (USER, ASSISTANT, TOOL_RESULT) and not isinstance(self._read(number), CustomMessageEntry):
            raise EntryRefused(f"entry {target_id} is not a user, assistant, tool result or custom message")
        if not self._projection.holds(target_id) and number not in self.table.upward(self._leaf):
            raise EntryRefused(f"entry {target_id} is not on the active path")
        if content is not None and kind in (ASSISTANT, TOOL_RESULT):
            content = as_blocks(content)
        replacement = None if content is None else Replacement(content=content)
        return self._append(ContextEditEntry, target_id=target_id, replacement=replacement).id

    def append_call_started(self, call: ToolCall, position: int, *, once: bool = True) -> str:
        """Record that a call is about to start: store it before the call is made.

        `position` counts the calls of the last answer from 0. `once`: it must not be made twice, so the record has to
        survive a power loss, too (unless durability is `fast`).
        """
        data = start_record(call, position)
        return self._append(CustomEntry, speaker=INTENT if once else "", custom_type=CALL_STARTED, data=data).id

    def open_calls(self) -> list[OpenCall]:
        """Calls of the last answer that have no result, with what is known of each."""
        return open_calls(self.projection())

    def close_open_calls(self) -> list[str]:
        """Store an error result for each of them, so that log, context and request agree; the ids of the entries.

        For a session that was interrupted: call it before anything else is appended. Done once, there is nothing left
        to do the next time.
        """
        now_ms = self._sources.now_ms()
        return [self.append_message(interrupted_result(found, now_ms)) for found in self.open_calls()]

    def record_repairs(self) -> str | None:
        """Record what was found wrong with the file, unless that was done before; the id of the entry.

        For a session that somebody goes on with: looking at one writes nothing.
        """
        damages = self.report.damages
        if not damages or self._recorded is self.report:
            return None
        self._recorded = self.report
        records = (self._read(number) for number, kind in enumerate(self.table.kinds) if kind == CUSTOM)
        return None if is_recorded(damages, records) else self.append_custom(REPAIRED, repair_record(damages))

    def append_compaction(
        self,
        summary: str,
        first_kept_id: str | None,
        tokens_before: int,
        *,
        details: Any | UnsetType = UNSET,
        from_hook: bool | UnsetType = UNSET,
        usage: Usage | UnsetType = UNSET,
    ) -> str:
        """Let a summary stand for what came before `first_kept_id` (None: for everything).

        Prompt and tools in force are stored with it, so that they need not be read from before.
        """
        now_ms = self._sources.now_ms()
        entry_id = self._sources.entry_id(self.table.by_id)
        system = self.messages().system.as_message(now_ms)
        return self._append(
            CompactionEntry,
            entry_id=entry_id,
            now_ms=now_ms,
            summary=summary,
            first_kept_entry_id=entry_id if first_kept_id is None else first_kept_id,
            tokens_before=tokens_before,
            details=details,
            usage=usage,
            from_hook=from_hook,
            system_message=UNSET if system is None else system,
        ).id

    # -- moving

    def branch(self, entry_id: str) -> None:
        """Continue from an entry of any branch. Remembered as soon as something is appended there.

        Raises:
            NoSuchEntry: no such entry; the leaf stays.
        """
        self._move(self._number(entry_id))

    def reset_leaf(self) -> None:
        """Continue from nothing: the next entry is a root."""
        self._move(ROOT)

    def move_to(self, entry_id: str | None) -> str:
        """The same, and remembered at once: an entry of our own kind marks the place. Its id is the new leaf."""
        before = self._leaf
        self._move(self._number(entry_id))
        try:
            return self._append(PositionEntry).id
        except BaseException:
            self._move(before)
            raise

    def branch_with_summary(
        self,
        entry_id: str | None,
        summary: str,
        *,
        details: Any | UnsetType = UNSET,
        from_hook: bool | UnsetType = UNSET,
        usage: Usage | UnsetType = UNSET,
    ) -> str:
        """Continue from an entry (None: from nothing) with a summary of the branch that is left."""
        before, from_id = self._leaf, self.leaf_id or "root"
        self._move(self._number(entry_id))
        try:
            return self._append(
                BranchSummaryEntry, from_id=from_id, summary=summary, details=details, usage=usage, from_hook=from_hook
            ).id
        except BaseException:
            self._move(before)
            raise

    def _move(self, number: int) -> None:
        if number != self._leaf:
            self._leaf = number
            self._projection.move(number)

    # -- life

    def flush(self) -> None:
        """Make everything stored so far survive a power loss: call it when a run has settled."""
        self.lines.flush()

    def close(self) -> None:
        """Give the file free for others. A session in which nobody said anything leaves no file."""
        if self._before_close is not None:
            self._before_close(self)
        self.lines.close()

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SessionLog {self.session_id} of {self.entry_count} entries>"

    # -- inside

    def _number(self, entry_id: str | None) -> int:
        try:
            return self.table.number(entry_id)
        except KeyError:
            raise NoSuchEntry(entry_id) from None

    def _raw(self, number: int) -> bytes:
        return self.lines.read(self.table.addresses[number], self.table.lengths[number])

    def _read(self, number: int) -> Entry:
        return entry_from_line(self._raw(number))

    def _append(
        self,
        entry_type: type[_Known],
        /,
        *,
        entry_id: str | None = None,
        now_ms: int | None = None,
        speaker: str = "",
        **fields: Any,
    ) -> _Known:
        """Make, store, remember: in this order, so that memory never knows more than the file."""
        self._take_news()
        table = self.table
        entry = entry_type(
            id=entry_id or self._sources.entry_id(table.by_id),
            parent_id=self.leaf_id,
            timestamp=iso(self._sources.now_ms() if now_ms is None else now_ms),
            **fields,
        )
        try:
            line = write_value(entry)
        except TypeError as error:
            raise EntryRefused(f"the {entry.type} entry cannot be written as JSON: {error}") from error
        head = _head_of(entry)
        role = speaker if head.message is UNSET else head.message.role
        stored = sealed(line) if self._seals else line
        address = self.lines.append(stored, role)
        self._leaf = table.add(head, self._leaf, address, len(stored))
        self._projection.append(self._leaf, entry)
        return entry

    def _take_news(self) -> None:
        """Learn what somebody else appended; the leaf stays ours."""
        news = self.lines.news()
        if news is None:
            return
        address, data = news
        scan = Scan(header=self.header, table=self.table, first=len(self.table), size=address)
        scan.feed(data)
        scan.finish()
        found = Damage("foreign lines", 0, f"{len(self.table) - scan.first} entries were read, the leaf stays")
        others = (replace(damage, line=0) for damage in scan.damages)
        self.report = OpenReport((*self.report.damages, found, *others), self.report.changed_file)


def _head_of(entry: KnownEntry) -> Head:
    """What the table keeps of a new entry."""
    match entry:
        case MessageEntry(message=message):
            return Head(entry.id, "message", message=MessageHead(message.role))
        case LabelEntry(target_id=target_id, label=label):
            return Head(entry.id, "label", timestamp=entry.timestamp, target_id=target_id, label=label)
        case SessionInfoEntry(name=name):
            return Head(entry.id, "session_info", name=name)
        case _:
            return Head(entry.id, entry.type)

"""From the path to what the model is told: which entries count, what each contributes, and from where it came.

The rules are small functions over entries. `Projection` keeps their result for the current leaf and brings it up to
date entry by entry: an append or an edit costs the same however long the session is. Only a compaction and a move of
the leaf start over, and they read what is in the context, not what is on the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import final

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.content import Content, Text
from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    host_message,
)
from antiphon.core.transcript import Transcript
from antiphon.core.usage import total_tokens
from antiphon.core.wire import JsonObject, to_wire
from antiphon.session_log.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelEntry,
)
from antiphon.session_log.stamps import ms_of
from antiphon.session_log.tree import ASSISTANT, COMPACTION, MODEL, SYSTEM, THINKING, Table


@final
class Contribution(Struct, frozen=True, gc=False):
    """What one entry of the context says to the model; often nothing."""

    entry: Entry
    messages: tuple[Message, ...]


@final
class Projected(Struct, frozen=True, gc=False):
    """The context of a leaf, entry by entry, in the order in which a model is told.

    `messages`: all of what they say. `compacted`: the first entry is the compaction in force. `after`: the place of the
    first entry behind it (0 without one). `trusted_from`: the place behind the last edit or compaction; usage reported
    before it is of another context. `usage_at`: the place of the last answer behind it that reports usage, if any.
    `reports`: how many entries from `after` on report usage. `changed`: the places that edits have changed since the
    items were put together, in the order of the edits. `custom_types`: kinds of state among the entries.
    """

    items: Sequence[Contribution]
    messages: Transcript
    compacted: bool
    after: int
    trusted_from: int
    usage_at: int | None
    reports: int
    changed: Sequence[int]
    custom_types: Set[str]


@final
class ModelChoice(Struct, frozen=True, gc=False):
    """The model in force on a path."""

    provider: str
    model_id: str


@final
class Settings(Struct, frozen=True, gc=False):
    """What was chosen last on a path."""

    thinking_level: str = "off"
    model: ModelChoice | None = None


def has_usage(message: Message) -> bool:
    """Is this an answer whose usage says how long the context was?"""
    return (
        type(message) is AssistantMessage
        and message.stop_reason not in ("error", "aborted")
        and total_tokens(message.usage) > 0
    )


def contribution(entry: Entry, edit: ContextEditEntry | None, *, leads: bool) -> tuple[Message, ...]:
    """The messages of one context entry. `edit`: the last one aimed at it; `leads`: it is the compaction in force."""
    if edit is not None and edit.replacement is None:
        return ()
    match entry:
        case MessageEntry(message=message):
            return (message if edit is None or edit.replacement is None else edited(message, edit.replacement.content),)
        case CustomMessageEntry():
            message = custom_message(entry)
            return (message if edit is None or edit.replacement is None else edited(message, edit.replacement.content),)
        case BranchSummaryEntry(summary=summary, from_id=from_id) if summary:
            return (host_message("branchSummary", summary=summary, fromId=from_id, timestamp=_time(entry)),)
        case CompactionEntry() if leads:
            return compaction_messages(entry)
        case _:
            return ()


def compaction_messages(entry: CompactionEntry) -> tuple[Message, ...]:
    """The prompt and tools as they stood, if stored, and the summary."""
    summary = host_message(
        "compactionSummary", summary=entry.summary, tokensBefore=entry.tokens_before, timestamp=_time(entry)
    )
    return (summary,) if entry.system_message is UNSET else (entry.system_message, summary)


def custom_message(entry: CustomMessageEntry) -> HostMessage:
    """The message of an extension in its wire form."""
    fields: JsonObject = {
        "customType": entry.custom_type,
        "content": to_wire(entry.content),
        "display": entry.display,
    }
    if entry.details is not UNSET:
        fields["details"] = entry.details
    return host_message("custom", **fields, timestamp=_time(entry))


def edited(message: Message, content: str | Content) -> Message:
    """The message with other content; only kinds that may be edited change."""
    match message:
        case UserMessage():
            return msgspec.structs.replace(message, content=content)
        case AssistantMessage() | ToolResultMessage():
            return msgspec.structs.replace(message, content=as_blocks(content))
        case HostMessage() if message.role == "custom":
            return HostMessage(extra={**message.data, "content": to_wire(content)})
        case _:
            return message


def as_blocks(content: str | Content) -> Content:
    """A content as blocks: a text is one text block."""
    return (Text(text=content),) if isinstance(content, str) else content


def _time(entry: Entry) -> int:
    return ms_of(entry.timestamp) or 0


def context_numbers(table: Table, leaf: int, read: Callable[[int], Entry]) -> tuple[list[int], list[int]]:
    """The entries that count for a model: the compaction in force with what it keeps (or none), and what follows."""
    after: list[int] = []
    head: list[int] = []
    for number in table.upward(leaf):
        if table.kinds[number] == COMPACTION:
            head = [number, *_kept(table, number, read)]
            break
        after.append(number)
    after.reverse()
    return head, after


def _kept(table: Table, compaction: int, read: Callable[[int], Entry]) -> list[int]:
    """Entries before the compaction from the first kept one on, without system messages."""
    entry = read(compaction)
    first = entry.first_kept_entry_id if isinstance(entry, CompactionEntry) else UNSET
    target = table.by_id.get(first) if first is not UNSET else None
    if target is None or target == compaction:
        return []
    kept: list[int] = []
    for number in table.upward(table.parents[compaction]):
        if table.kinds[number] != SYSTEM:
            kept.append(number)
        if number == target:
            kept.reverse()
            return kept
    return []


def last_edits(entries: Iterable[Entry]) -> dict[str, ContextEditEntry]:
    """Of the edits among these entries the last one for each target."""
    return {entry.target_id: entry for entry in entries if type(entry) is ContextEditEntry}


def settings_of(table: Table, leaf: int, read: Callable[[int], Entry]) -> Settings:
    """The last choices on the path to the leaf, compactions notwithstanding."""
    level: str | None = None
    model: ModelChoice | None = None
    for number in table.upward(leaf):
        kind = table.kinds[number]
        if kind == THINKING and level is None:
            level = _level(read(number))
        elif kind in (MODEL, ASSISTANT) and model is None:
            model = model_choice(read(number))
        if level is not None and model is not None:
            break
    return Settings("off" if level is None else level, model)


def _level(entry: Entry) -> str | None:
    return entry.thinking_level if type(entry) is ThinkingLevelEntry else None


def model_choice(entry: Entry) -> ModelChoice | None:
    """The model that an entry chooses, if it does: a change, or an answer of that model."""
    match entry:
        case ModelChangeEntry(provider=provider, model_id=model_id):
            return ModelChoice(provider, model_id)
        case MessageEntry(message=AssistantMessage(provider=provider, model=model)):
            return ModelChoice(provider, model)
        case _:
            return None


@final
class Projection:
    """The context of the current leaf, kept up to date."""

    def __init__(self, table: Table, read: Callable[[int], Entry]) -> None:
        self._table = table
        self._read = read
        self._leaf = -1
        self._forget()

    def _forget(self) -> None:
        self._built = False
        self._list: list[Contribution] = []
        self._place: dict[str, int] = {}
        self._edits: dict[str, ContextEditEntry] = {}
        self._leads: str | None = None
        self._after = 0
        self._trusted_from = 0
        self._usage_at: int | None = None
        self._reports = 0
        self._changed: list[int] = []
        self._custom_types: set[str] = set()
        self._messages: Transcript | None = None
        self._settings: Settings | None = None

    def move(self, leaf: int) -> None:
        """Another leaf. What counts there is worked out when it is first asked for."""
        self._leaf = leaf
        self._forget()

    def append(self, number: int, entry: Entry) -> None:
        """A child of the leaf became the leaf."""
        self._leaf = number
        if self._settings is not None:
            self._settings = _settings_after(self._settings, entry)
        if not self._built:
            return
        if type(entry) is CompactionEntry:
            settings = self._settings
            self._forget()
            self._settings = settings
            return
        self._add(entry)
        if type(entry) is ContextEditEntry:
            self._edit(entry)

    def _add(self, entry: Entry) -> None:
        edit = self._edits.get(entry.id)
        messages = contribution(entry, edit, leads=entry.id == self._leads)
        self._place[entry.id] = len(self._list)
        self._list.append(Contribution(entry, messages))
        if type(entry) is ContextEditEntry:
            self._trusted_from = max(self._trusted_from, len(self._list))
            self._usage_at = None
        elif type(entry) is CustomEntry:
            self._custom_types.add(entry.custom_type)
        elif len(self._list) > self._after and any(map(has_usage, messages)):
            self._usage_at = len(self._list) - 1
            self._reports += 1
        if self._messages is not None and messages:
            self._messages = self._messages.extend(messages)

    def _edit(self, edit: ContextEditEntry) -> None:
        self._edits[edit.target_id] = edit
        place = self._place.get(edit.target_id)
        if place is None:
            return
        before = self._list[place]
        messages = contribution(before.entry, edit, leads=before.entry.id == self._leads)
        self._list[place] = Contribution(before.entry, messages)
        self._changed.append(place)
        if place >= self._after:
            self._reports += any(map(has_usage, messages)) - any(map(has_usage, before.messages))
        if self._messages is not None:
            behind = sum(len(item.messages) for item in self._list[place + 1 :])
            stop = len(self._messages) - behind
            self._messages = self._messages.replaced(stop - len(before.messages), stop, messages)

    def _build(self) -> None:
        if self._built:
            return
        head, after = context_numbers(self._table, self._leaf, self._read)
        entries = [self._read(number) for number in (*head, *after)]
        self._edits = last_edits(entries)
        self._leads = entries[0].id if head else None
        self._after = self._trusted_from = len(head)
        for entry in entries:
            self._add(entry)
        self._built = True

    def view(self) -> Projected:
        """Per context entry its messages. Read only; valid until the next append."""
        self._build()
        return Projected(
            self._list,
            self.messages(),
            self._leads is not None,
            self._after,
            self._trusted_from,
            self._usage_at,
            self._reports,
            self._changed,
            self._custom_types,
        )

    def holds(self, entry_id: str) -> bool:
        """Is the entry known to be in the context? Never true for one that is not; costs nothing."""
        return entry_id in self._place

    def messages(self) -> Transcript:
        """What the model is told. The transcript is a value: later appends do not change it."""
        self._build()
        if self._messages is None:
            self._messages = Transcript([message for item in self._list for message in item.messages])
        return self._messages

    @property
    def settings(self) -> Settings:
        """Thinking level and model in force."""
        if self._settings is None:
            self._settings = settings_of(self._table, self._leaf, self._read)
        return self._settings


def _settings_after(settings: Settings, entry: Entry) -> Settings:
    model = model_choice(entry)
    if model is not None:
        return Settings(settings.thinking_level, model)
    level = _level(entry)
    return settings if level is None else Settings(level, settings.model)

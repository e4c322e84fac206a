"""A session as plainly as it can be told: a list of entries, everything worked out anew whenever it is asked for.

The log keeps tables, addresses and a context that grows; this keeps nothing. Where both agree, the cleverness is right.
Written from the sessions specification, parts 3 to 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Told = tuple[Any, ...]
EDITABLE = ("user", "assistant", "toolResult", "custom_message")


@dataclass
class Plain:
    """One entry. `kind`: the role of a message, else the type of the entry."""

    id: str
    parent: str | None
    kind: str
    text: str = ""
    more: Any = None


@dataclass
class PlainLog:
    entries: list[Plain] = field(default_factory=list)
    leaf: str | None = None

    def add(self, entry_id: str, kind: str, text: str = "", more: Any = None) -> None:
        self.entries.append(Plain(entry_id, self.leaf, kind, text, more))
        self.leaf = entry_id

    def reopened(self) -> None:
        """Another process reads the file: it stands at the last entry."""
        self.leaf = self.entries[-1].id if self.entries else None

    # -- the tree

    def find(self, entry_id: str | None) -> Plain | None:
        return next((entry for entry in self.entries if entry.id == entry_id), None)

    def path(self, leaf: str | None) -> list[Plain]:
        way: list[Plain] = []
        entry = self.find(leaf)
        while entry is not None:
            way.insert(0, entry)
            entry = self.find(entry.parent)
        return way

    def children(self, entry_id: str | None) -> list[str]:
        return [entry.id for entry in self.entries if entry.parent == entry_id]

    @property
    def name(self) -> str | None:
        return next((entry.text or None for entry in reversed(self.entries) if entry.kind == "session_info"), None)

    def label(self, entry_id: str) -> str | None:
        marks = [entry for entry in self.entries if entry.kind == "label" and entry.more == entry_id]
        return marks[-1].text or None if marks else None

    def may_edit(self, entry_id: str) -> bool:
        """Only what a person, a model or a tool said on the active path."""
        return any(entry.id == entry_id and entry.kind in EDITABLE for entry in self.path(self.leaf))

    @property
    def was_said(self) -> bool:
        return any(entry.kind in ("user", "assistant") for entry in self.entries)

    # -- what the model is told

    def context_entries(self) -> list[Plain]:
        path = self.path(self.leaf)
        compactions = [at for at, entry in enumerate(path) if entry.kind == "compaction"]
        if not compactions:
            return path
        at = compactions[-1]
        ids = [entry.id for entry in path[:at]]
        start = ids.index(path[at].more[0]) if path[at].more[0] in ids else at
        return [path[at], *(entry for entry in path[start:at] if entry.kind != "system"), *path[at + 1 :]]

    def projection(self) -> list[tuple[Plain, list[Told]]]:
        entries = self.context_entries()
        edits = {entry.more: entry for entry in entries if entry.kind == "context_edit"}
        return [(entry, self._told(entry, edits.get(entry.id), leads=at == 0)) for at, entry in enumerate(entries)]

    def context(self) -> list[Told]:
        return [told for _, messages in self.projection() for told in messages]

    def _told(self, entry: Plain, edit: Plain | None, *, leads: bool) -> list[Told]:
        if edit is not None and edit.text is None:
            return []
        text = entry.text if edit is None else edit.text
        match entry.kind:
            case "user" | "assistant" | "toolResult":
                return [(entry.kind, text)]
            case "custom_message":
                return [("custom", text)]
            case "system":
                return [("system", entry.text)]
            case "branch_summary" if entry.text:
                return [("branchSummary", entry.text)]
            case "compaction" if leads:
                prompt = entry.more[1]
                return [*([("system", prompt)] if prompt else []), ("compactionSummary", entry.text)]
            case _:
                return []

    def prompt(self) -> str:
        """The prompt as it stands: all system messages, one behind the other."""
        return "\n\n".join(told[1] for told in self.context() if told[0] == "system")

    def settings(self) -> tuple[str, str | None]:
        """Thinking level and model in force."""
        level, model = "off", None
        for entry in self.path(self.leaf):
            if entry.kind == "thinking_level_change":
                level = entry.text
            elif entry.kind == "model_change" or (entry.kind == "assistant" and entry.more is not None):
                model = entry.text if entry.kind == "model_change" else entry.more[0]
        return level, model

    # -- calls

    def open_calls(self) -> list[tuple[str, str]]:
        """Id and progress of the last answer's calls without a result, if nobody has spoken since."""
        items = self.projection()
        for at in range(len(items) - 1, -1, -1):
            entry, told = items[at]
            if not told or entry.kind not in ("user", "assistant"):
                continue
            if entry.kind == "user" or self._edited(entry):
                return []
            return self._open(entry, items[at + 1 :], items[:at])
        return []

    def _edited(self, entry: Plain) -> bool:
        """An answer that was given other words has no calls any more."""
        return any(edit.kind == "context_edit" and edit.more == entry.id for edit in self.context_entries())

    def _open(self, answer: Plain, behind: list[Any], before: list[Any]) -> list[tuple[str, str]]:
        results = [entry.more for entry, told in behind if entry.kind == "toolResult" and told]
        started = {entry.more for entry, _ in behind if entry.kind == "call_started"}
        recorded = bool(started) or any(entry.kind == "call_started" for entry, _ in before)
        found: list[tuple[str, str]] = []
        for position, call_id in enumerate(answer.more[1]):
            if call_id in results:
                results.remove(call_id)
            elif position in started:
                found.append((call_id, "begun"))
            else:
                found.append((call_id, "not begun" if recorded else "unknown"))
        return found

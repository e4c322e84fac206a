"""What was found wrong with a session at opening, and what was done about it: values to show, never exceptions."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

DamageKind: TypeAlias = Literal[
    "unreadable line",  # no JSON object with an id: skipped, the line stays in the file
    "half line",  # the same at the very end: a write was cut short
    "altered line",  # its seal does not fit: used as it is
    "glued line",  # a half line with a whole entry behind it: the entry was read
    "no id",  # an object without an id: skipped
    "lost parent",  # its parent is nowhere: a root, or linked again
    "cycle",  # it is its own ancestor: a root
    "out of order",  # its parent stands behind it
    "repeated id",  # the later entry counts
    "foreign lines",  # somebody else wrote while we had the file
    "interrupted upgrade",  # leftovers of an upgrade were removed
]
Outcome: TypeAlias = Literal["clean", "repaired"]


class Damage(Struct, frozen=True):
    """One finding. `line` counts from 1 (0: it is not about one line); `done` says in words what happened to it."""

    kind: DamageKind
    line: int
    done: str
    entry_id: str | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.kind}; {self.done}"


class OpenReport(Struct, frozen=True):
    """How opening went. The third outcome, refused, is an exception: then nothing was opened or changed.

    `changed_file`: what was done to the file, in the order in which it was done; empty if its bytes are as they were.
    """

    damages: tuple[Damage, ...] = ()
    changed_file: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """`clean`: every line was read, and is what was written as far as seals tell."""
        return "repaired" if self.damages else "clean"

    def __str__(self) -> str:
        return "\n".join([self.outcome, *map(str, self.damages), *self.changed_file])

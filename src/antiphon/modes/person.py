"""Asking the person at the terminal, before a conversation begins. Questions go to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import final

from antiphon.modes.output import Output, one_line, stdin_is_terminal
from antiphon.modes.tables import cut
from antiphon.resources.paths import Places
from antiphon.resources.trust import Answer, TrustDecision
from antiphon.session_log.catalog import Row

_TRUST: dict[str, Answer] = {
    "y": "trust",
    "p": "trust parent",
    "o": "trust once",
    "n": "refuse",
    "": "refuse once",
}
_MOST_SHOWN = 20


@final
class Person:
    """Somebody who reads what we write and types answers."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def ask_trust(self, where: Places, decision: TrustDecision) -> Answer:
        """May the project's own settings and resources be used?"""
        names = ", ".join(os.path.relpath(path, where.cwd) for path in decision.protected)
        self._output.say(
            f"{where.cwd} brings {names} ({decision.reason}).\n"
            "They can change what this program does. Use them?\n"
            f"  y  yes, from now on      p  yes, in all of {where.cwd.parent}\n"
            "  o  yes, this once        n  no, never        Enter  no, not now\n"
        )
        return _TRUST.get(self._line("> ").strip().lower()[:1], "refuse once")

    def agrees(self, question: str) -> bool:
        """Yes or no; Enter is no."""
        return self._line(f"{question} [y/N] ").strip().lower() in ("y", "yes", "是", "好")

    def choose(self, rows: Sequence[Row]) -> Row | None:
        """One of the sessions; nothing if the person did not want to choose."""
        for number, row in enumerate(rows[:_MOST_SHOWN], start=1):
            about = cut(one_line(row.facts.name or row.facts.first_message), 70)
            self._output.say(f"{number:>3}  {row.facts.modified[:16].replace('T', ' ')}  {about}\n")
        answer = self._line("number: ").strip()
        if not (answer.isascii() and answer.isdigit()) or not 0 < int(answer) <= len(rows):
            return None
        return rows[int(answer) - 1]

    def _line(self, prompt: str) -> str:
        self._output.say(prompt)
        return sys.stdin.readline()


def person_at(output: Output, *, interactive: bool) -> Person | None:
    """The person at the terminal, if there is one and they may be asked."""
    return Person(output) if interactive and stdin_is_terminal() and output.err_is_terminal else None

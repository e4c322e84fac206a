"""Free text input of a grammar tool, told as the JSON text of the tool's single argument."""

from __future__ import annotations

import json
from typing import final

from antiphon.providers.draft import GrowingCall


@final
class CustomInput:
    """Wraps a growing call whose input streams as plain text."""

    __slots__ = ("_argument", "_begun", "_ended", "_pieces", "block")

    def __init__(self, block: GrowingCall, argument: str) -> None:
        self.block = block
        self._argument = argument
        self._pieces: list[str] = []
        self._begun = False
        self._ended = False

    def add(self, piece: str) -> None:
        """Grow by a piece of input; an empty one is told as an empty delta."""
        self._pieces.append(piece)
        text = json.dumps(piece, ensure_ascii=False)[1:-1]
        if piece and not self._begun:
            self._begun = True
            text = self._opening() + text
        self.block.add(text)

    def complete(self, whole: str | None = None) -> bool:
        """The input is complete. False if `whole` contradicts what has come; then nothing is told."""
        if self._ended:
            return whole is None or whole == "".join(self._pieces)
        rest = ""
        if whole is not None:
            before = "".join(self._pieces)
            if not whole.startswith(before):
                return False
            rest = whole[len(before) :]
            self._pieces.append(rest)
        self._ended = True
        opening = "" if self._begun else self._opening()
        self.block.add(opening + json.dumps(rest, ensure_ascii=False)[1:-1] + '"}')
        return True

    def _opening(self) -> str:
        return "{" + json.dumps(self._argument, ensure_ascii=False) + ':"'

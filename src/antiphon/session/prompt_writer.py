"""Keeps the prompt of a conversation true: what is stored, what it should say, and the patch between the two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import final

from antiphon.core.messages import SystemMessage
from antiphon.core.ports import Tool
from antiphon.errors import MisuseError
from antiphon.session.ports import Resources
from antiphon.session.system_prompt import PromptFacts, patch, sections_of

_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@final
class PromptWriter:
    """Sections of one conversation. They are put together again only when something they are made of has changed."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._custom: dict[str, str] = {}
        self._guidelines: tuple[str, ...] = ()
        self._made_of: tuple[object, ...] = ()
        self._sections: Mapping[str, str] = {}

    def set_section(self, name: str, text: str | None) -> None:
        """Add a section of one's own, replace it, or (None, empty) take it away.

        Raises:
            MisuseError: the name is no section name, or the preamble's.
        """
        if _NAME.fullmatch(name) is None or name == "preamble":
            raise MisuseError(f"{name!r} cannot name a section: lower case letters, digits, - and _, not preamble")
        if text:
            self._custom[name] = text
        else:
            self._custom.pop(name, None)

    def set_guidelines(self, guidelines: tuple[str, ...]) -> None:
        """Rules besides those of the tools."""
        self._guidelines = guidelines

    def wanted(self, resources: Resources, tools: tuple[Tool, ...], hidden: frozenset[str]) -> Mapping[str, str]:
        """What the prompt should say. Read only."""
        custom = tuple(self._custom.items())
        parts = (resources, tools, hidden, custom, self._guidelines)
        if len(self._made_of) != len(parts) or any(a is not b and a != b for a, b in zip(self._made_of, parts)):  # noqa: B905
            shown = tuple(tool for tool in tools if tool.name not in hidden)
            self._sections = sections_of(PromptFacts(resources, shown, self._cwd, self._guidelines, custom))
            self._made_of = parts
        return self._sections


def patch_message(stored: Mapping[str, str], wanted: Mapping[str, str], timestamp: int) -> SystemMessage | None:
    """The message that makes the stored sections the wanted ones; nothing if they are."""
    if stored == wanted:
        return None
    changed = patch(stored, wanted)
    return SystemMessage(sections=changed, timestamp=timestamp) if changed else None

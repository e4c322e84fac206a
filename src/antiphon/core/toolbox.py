"""The tools of a run, found by name in O(1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from antiphon.core.ports import Tool


@final
class Toolbox:
    """An immutable set of tools. Of equal names the first one counts. `tools` None: none were given."""

    __slots__ = ("_index", "tools", "unique")

    def __init__(self, tools: Sequence[Tool] | None = None) -> None:
        self.tools: tuple[Tool, ...] | None = None if tools is None else tuple(tools)
        index: dict[str, Tool] = {}
        for tool in self.tools or ():
            index.setdefault(tool.name, tool)
        self._index = index
        self.unique = len(index) == len(self.tools or ())

    def find(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._index.get(name)

    def wants_order(self, name: str) -> bool:
        """Does this tool ask that the calls of its batch run one by one?"""
        return getattr(self._index.get(name), "execution_mode", None) == "sequential"


NO_TOOLS = Toolbox()

"""Which tools there are, which of them the model is told of, and which other tools may call.

A tool says how it wants to be exposed in its attribute `exposure`:

    direct (default)  declared while active; callable by other tools while active
    model-only        declared while active; never callable by other tools
    codemode          declared only if activated by name; always callable, listed for scripts
    deferred          declared only after it was searched for; always callable
    hidden            neither; the way to withdraw a tool
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, cast, final

from msgspec import Struct

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.ports import Tool
from antiphon.core.system_state import declaration_of
from antiphon.core.wire import JsonObject

Exposure: TypeAlias = Literal["direct", "model-only", "codemode", "deferred", "hidden"]
ToolSource: TypeAlias = Literal["builtin", "extension", "sdk", "mcp"]

DEFAULT_ACTIVE = ("read", "bash", "edit", "write")


@final
class ToolSelection(Struct, frozen=True, kw_only=True):
    """What the host wants. `allow`: names or `*` patterns, or only `+name`/`-name` edits; None: no wish.

    `exclude` is applied last and keeps tools out altogether. `defaults` None: the product's default set.
    """

    allow: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    none: Literal["all", "builtin"] | None = None
    defaults: tuple[str, ...] | None = None


@final
class ToolInfo(Struct, frozen=True):
    """What is known of a registered tool."""

    name: str
    description: str
    parameters: JsonObject
    exposure: Exposure
    source: ToolSource
    active: bool


@final
class Loadout(Struct):
    """The declared tools, as an active tool with `prepare_loadout` may change them. `hidden` ones stay callable."""

    declarations: dict[str, ToolDeclaration]
    hidden: set[str]


@final
class ToolRegistry:
    """Tools by name; a later registration replaces an earlier one, and keeps its place."""

    def __init__(self, selection: ToolSelection | None = None) -> None:
        self.selection = selection or ToolSelection()
        self._tools: dict[str, tuple[Tool, ToolSource]] = {}
        self._active: dict[str, None] = {}
        self._pending: set[str] = set()
        self._wanted = self._default_names()
        self._declared: tuple[Tool, ...] | None = None
        self.hidden: frozenset[str] = frozenset()
        """Declared tools that requests leave out."""
        self.bind: Callable[[Tool], Tool] = _as_it_is
        """Called with each tool that is registered; gives the tool to keep."""

    # -- what there is --------------------------------------------------------------------------------------------

    def register(self, tool: Tool, source: ToolSource) -> None:
        """Add a tool, or replace the one of that name. Excluded ones are left out."""
        if self._is_excluded(tool.name, source):
            return
        is_new = tool.name not in self._tools
        self._tools[tool.name] = (self.bind(tool), source)
        self._declared = None
        if tool.name in self._pending or (is_new and self._starts_active(tool, source)):
            self._pending.discard(tool.name)
            self._active[tool.name] = None

    def unregister(self, name: str) -> None:
        """Forget a tool. The model is told before its next request."""
        self._tools.pop(name, None)
        self._active.pop(name, None)
        self._declared = None

    def find(self, name: str) -> Tool | None:
        entry = self._tools.get(name)
        return None if entry is None else entry[0]

    def infos(self) -> tuple[ToolInfo, ...]:
        return tuple(
            ToolInfo(name, tool.description, tool.parameters, exposure_of(tool), source, name in self._active)
            for name, (tool, source) in self._tools.items()
        )

    # -- what is active -------------------------------------------------------------------------------------------

    @property
    def active_names(self) -> tuple[str, ...]:
        return tuple(self._active)

    def set_active(self, names: Iterable[str]) -> tuple[str, ...]:
        """Make exactly these active: those that were keep their order, new ones follow. Gives the unknown names."""
        wanted = dict.fromkeys(names)
        unknown = tuple(name for name in wanted if name not in self._tools)
        kept = [name for name in self._active if name in wanted]
        new = [name for name in wanted if name in self._tools and name not in self._active]
        if [*kept, *new] != list(self._active):
            self._active = dict.fromkeys([*kept, *new])
            self._declared = None
        return unknown

    def activate(self, names: Iterable[str]) -> tuple[str, ...]:
        """Make these active besides the others; gives those that were not."""
        new = tuple(name for name in names if name in self._tools and name not in self._active)
        if new:
            self.set_active([*self._active, *new])
        return new

    def restore(self, declared: Sequence[str]) -> None:
        """Take over the tools that a transcript declares, unless the host names others.

        Those not registered yet become active when they are.
        """
        allow = self.selection.allow
        if not declared or (allow is not None and not is_edit(allow)):
            return
        declared = edited(declared, allow)
        never_mentioned = [
            name
            for name, (tool, source) in self._tools.items()
            if source in ("extension", "sdk") and name not in declared and self._starts_active(tool, source)
        ]
        self.set_active([*(name for name in declared if name in self._tools), *never_mentioned])
        self._pending = {name for name in declared if name not in self._tools}

    def forget_pending(self) -> None:
        """A run starts: what is not registered by now is not waited for."""
        self._pending.clear()

    def declared(self) -> tuple[Tool, ...]:
        """The tools of the next request, in a stable order; the same tuple as long as nothing changes."""
        if self._declared is None:
            active = [self._tools[name][0] for name in self._active]
            self._declared = self._prepared([tool for tool in active if exposure_of(tool) != "hidden"])
        return self._declared

    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that other tools may call."""
        return tuple(tool for name, (tool, _) in self._tools.items() if self._is_callable(name, tool))

    def searchable(self) -> tuple[Tool, ...]:
        """Tools that a search may find and activate."""
        return tuple(
            tool
            for name, (tool, _) in self._tools.items()
            if exposure_of(tool) in ("codemode", "deferred") and name not in self._active
        )

    def _is_callable(self, name: str, tool: Tool) -> bool:
        match exposure_of(tool):
            case "direct":
                return name in self._active
            case "codemode" | "deferred":
                return True
            case _:
                return False

    def _prepared(self, tools: list[Tool]) -> tuple[Tool, ...]:
        """The tools as those among them want to have them declared."""
        preparers = [tool for tool in tools if getattr(tool, "prepare_loadout", None) is not None]
        if not preparers:
            self.hidden = frozenset()
            return tuple(tools)
        loadout = Loadout({tool.name: declaration_of(tool) for tool in tools}, set())
        for tool in preparers:
            cast("Any", tool).prepare_loadout(loadout)
        self.hidden = frozenset(loadout.hidden)
        return tuple(_described(tool, loadout.declarations.get(tool.name)) for tool in tools)

    # -- what the host wants --------------------------------------------------------------------------------------

    def _default_names(self) -> dict[str, None]:
        names = edited(DEFAULT_ACTIVE, self.selection.defaults)
        return dict.fromkeys(edited(names, self.selection.allow) if is_edit(self.selection.allow) else names)

    def _starts_active(self, tool: Tool, source: ToolSource) -> bool:
        allow = self.selection.allow
        exposure = exposure_of(tool)
        if allow is not None and not is_edit(allow):
            named = any(tool.name == name for name in allow)
            return exposure != "hidden" and (named or (exposure in ("direct", "model-only") and fits(tool.name, allow)))
        if source == "builtin":
            return tool.name in self._wanted
        if f"-{tool.name}" in (allow or ()):
            return False
        wished = getattr(tool, "default_active", True) is not False or tool.name in self._wanted
        return exposure in ("direct", "model-only") and wished

    def _is_excluded(self, name: str, source: ToolSource) -> bool:
        chosen = self.selection
        if fits(name, chosen.exclude) or chosen.none == "all" or (chosen.none == "builtin" and source == "builtin"):
            return True
        if chosen.allow is None or is_edit(chosen.allow) or fits(name, chosen.allow):
            return False
        only_servers = any(pattern.startswith("mcp__") for pattern in chosen.allow)
        return source != "mcp" or only_servers or not chosen.allow


@final
class _Redescribed:
    """A tool under another description."""

    def __init__(self, tool: Tool, declaration: ToolDeclaration) -> None:
        self._tool = tool
        self.name = tool.name
        self.description = declaration.description
        self.parameters = declaration.parameters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)


def _described(tool: Tool, declaration: ToolDeclaration | None) -> Tool:
    if declaration is None or declaration.description == tool.description:
        return tool
    return cast("Tool", _Redescribed(tool, declaration))


def exposure_of(tool: Tool) -> Exposure:
    """How a tool wants to be exposed."""
    return cast("Exposure", getattr(tool, "exposure", None) or "direct")


def is_edit(names: Sequence[str] | None) -> bool:
    """Do these names only change a list, with `+name` and `-name`?"""
    return bool(names) and all(name[:1] in ("+", "-") for name in names or ())


def edited(base: Sequence[str], changes: Sequence[str] | None) -> tuple[str, ...]:
    """The list after changes: plain names replace it, then `+name` and `-name` apply in order."""
    if changes is None:
        return tuple(base)
    plain = [name for name in changes if name[:1] not in ("+", "-")]
    names = dict.fromkeys(plain if plain or not changes else base)
    for change in changes:
        if change.startswith("+"):
            names[change[1:]] = None
        elif change.startswith("-"):
            names.pop(change[1:], None)
    return tuple(names)


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Is the name one of these, or does it fit one of the patterns?"""
    return any(name == pattern or ("*" in pattern and fnmatchcase(name, pattern)) for pattern in patterns)


def _as_it_is(tool: Tool) -> Tool:
    return tool

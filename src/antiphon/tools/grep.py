"""The `grep` tool: lines that match a pattern, below a folder or in one file, in a fixed order.

Source: tools specification, 7; pinned by conformance/tools/grep.json. The dialect is that of ripgrep (`regex/`), the
order that of the walk (`walk.py`), and nothing depends on whether `rg` is installed: it only makes large trees faster.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, field

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.wire import JsonObject
from antiphon.tools.define import FunctionTool, ToolContext, tool
from antiphon.tools.faults import OperationAborted, ToolFault
from antiphon.tools.glob import BadGlob, compile_glob
from antiphon.tools.ls import shown_name
from antiphon.tools.output import (
    DEFAULT_LIMITS,
    MAX_LINE_UNITS,
    NO_LINE_LIMIT,
    Limits,
    cut_line,
    format_size,
    notice,
    truncate_head,
)
from antiphon.tools.paths import below
from antiphon.tools.port import Workspace
from antiphon.tools.process import LocalProcesses
from antiphon.tools.regex import BadPattern, Pattern
from antiphon.tools.ripgrep import batches, find_ripgrep, is_shared_dialect, sift
from antiphon.tools.search_lines import Budget, Line, search_lines
from antiphon.tools.walk import Folder, Override, Tree, WalkRules, kind_at, place_in_walk, walk
from antiphon.tools.workspace import stopper

DEFAULT_LIMIT = 100
_FEW_FILES = 800

RipgrepChoice: TypeAlias = Literal["auto", "never"]

DESCRIPTION = (
    "Search files for lines that match a regular expression (Rust syntax; no look-around, no back references). "
    "Files hidden by ignore files, and binary files, are left out. At most {limit} matches or {size}; "
    f"lines are cut at {MAX_LINE_UNITS} characters."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "What to look for: a regular expression, or a text if literal"},
        "path": {"type": "string", "description": "Folder or file to search; by default the working folder"},
        "glob": {"type": "string", "description": "Only files that fit, e.g. '*.py' or 'src/**/*.ts'; '!' excludes"},
        "ignoreCase": {"type": "boolean", "description": "Upper and lower case are the same (default false)"},
        "literal": {"type": "boolean", "description": "The pattern is a plain text (default false)"},
        "context": {"type": "number", "description": "Lines to show before and after each match (default 0)"},
        "limit": {"type": "number", "description": f"How many matches to show (default {DEFAULT_LIMIT})"},
    },
    "required": ["pattern"],
}


def grep_tool(
    workspace: Workspace, *, ripgrep: RipgrepChoice = "auto", limits: Limits = DEFAULT_LIMITS
) -> FunctionTool[..., Any]:
    """The tool `grep`. `ripgrep`: whether `rg` may sift large trees if it is there; results are the same."""
    description = DESCRIPTION.format(limit=DEFAULT_LIMIT, size=format_size(limits.max_bytes))

    @tool(name="grep", label="grep", description=description, parameters=SCHEMA, replay="safe", workspace=workspace)
    async def grep(
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignoreCase: bool = False,  # noqa: N803 - the name on the wire
        literal: bool = False,
        context: float | None = None,
        limit: float | None = None,
        *,
        ctx: ToolContext,
    ) -> ToolResult:
        wish = Wish(
            pattern=_pattern(pattern, literal=literal, ignore_case=ignoreCase),
            literal=literal,
            ignore_case=ignoreCase,
            override=glob_override(glob) if glob else None,
            context=max(0, int(context or 0)),
            limit=DEFAULT_LIMIT if limit is None else max(1, int(limit)),
        )
        place = await workspace.locate(path, ctx.signal)
        return await _Grep(workspace, wish, ctx, limits).run(place, ripgrep)

    return grep


class Wish(Struct, frozen=True, kw_only=True):
    """The arguments of a call, understood."""

    pattern: Pattern
    literal: bool
    ignore_case: bool
    override: Override | None
    context: int
    limit: int


def _pattern(source: str, *, literal: bool, ignore_case: bool) -> Pattern:
    try:
        return Pattern(source, literal=literal, ignore_case=ignore_case)
    except BadPattern as error:
        raise ToolFault(str(error)) from error


def glob_override(glob: str) -> Override:
    """What a `glob` argument says about entries: it goes before all ignore files.

    Raises:
        ToolFault: the pattern is broken.
    """
    negated = glob.startswith("!")
    text = glob.removeprefix("!").removeprefix("./")
    only_folders = text.endswith("/")
    text = text.removesuffix("/")
    about_names = "/" not in text
    try:
        fits = compile_glob(text.removeprefix("/")).fullmatch
    except BadGlob as error:
        raise ToolFault(str(error)) from error

    def override(path: bytes, is_folder: bool) -> bool | None:
        name = path[path.rfind(b"/") + 1 :] if about_names else path
        if (is_folder or not only_folders) and fits(name):
            return not negated
        return None if negated or is_folder else False

    return override


class _Grep:
    def __init__(self, workspace: Workspace, wish: Wish, ctx: ToolContext, limits: Limits) -> None:
        self._workspace = workspace
        self._files = workspace.files
        self._wish = wish
        self._signal = ctx.signal
        self._stopped = stopper(ctx.signal)
        self._limits = limits
        self._report = Report(Budget(wish.limit))

    async def run(self, place: str, ripgrep: RipgrepChoice) -> ToolResult:
        workspace, signal = self._workspace, self._signal
        if await workspace.call(kind_at, signal, self._files, place) != "folder":
            await workspace.call(self._search_file, signal, place, os.path.basename(place), any_bytes=True)
        elif (program := self._sieve(ripgrep)) is not None:
            await self._run_with_sieve(place, program)
        else:
            await workspace.call(self._search_folder, signal, place)
        return self._report.result(self._wish.limit, self._limits)

    def _sieve(self, ripgrep: RipgrepChoice) -> str | None:
        """Where `rg` is, if it may help here."""
        if ripgrep == "never" or not is_shared_dialect(self._wish.pattern.source):
            return None
        return find_ripgrep() if isinstance(self._workspace.processes, LocalProcesses) else None

    async def _run_with_sieve(self, folder: str, program: str) -> None:
        """The first files are searched at once; they may be enough. The rest is sifted before."""
        workspace, signal = self._workspace, self._signal
        walked = walk(self._files, folder, self._rules(), self._stopped)
        files = (found.path for found in walked if found.kind == "file")
        first = await workspace.call(lambda: [*islice(files, _FEW_FILES)], signal)
        await workspace.call(self._search, signal, folder, first)
        if len(first) < _FEW_FILES or self._report.budget.more:
            return
        tree = await workspace.call(Tree, signal, self._files, folder, self._rules())
        folders = await workspace.call(lambda: [*tree.folders(self._stopped)], signal)
        hopeful: list[str] = []
        for batch in batches([one.prefix for one in folders]):
            sifted = await self._sifted(program, folder, batch)
            if sifted is None:
                await workspace.call(self._search, signal, folder, files)
                return
            hopeful += sifted
        rest = await workspace.call(_in_order, signal, tree, folders, hopeful, first[-1])
        await workspace.call(self._search, signal, folder, rest)

    async def _sifted(self, program: str, folder: str, prefixes: Sequence[str]) -> set[str] | None:
        wish = self._wish
        return await sift(
            self._workspace.run,
            program,
            folder,
            prefixes,
            wish.pattern.source,
            self._signal,
            literal=wish.literal,
            ignore_case=wish.ignore_case,
        )

    def _rules(self) -> WalkRules:
        return WalkRules(home=self._workspace.home, override=self._wish.override)

    def _search_folder(self, folder: str) -> None:
        walked = walk(self._files, folder, self._rules(), self._stopped)
        self._search(folder, (found.path for found in walked if found.kind == "file"))

    def _search(self, folder: str, paths: Iterable[str]) -> None:
        """Search files given by relative paths, as long as more matches are wanted."""
        start = below(folder, "")
        for path in paths:
            if self._stopped():
                raise OperationAborted
            self._search_file(start + path, path, any_bytes=False)
            if self._report.budget.more:
                return

    def _search_file(self, path: str, name: str, *, any_bytes: bool) -> None:
        """Search one file; one that cannot be read has no matches, unless it was asked for by name."""
        report, wish = self._report, self._wish
        try:
            with self._files.open(path, stopped=self._stopped) as reader:
                if not any_bytes and reader.info.kind != "file":
                    return
                lines = search_lines(
                    reader, wish.pattern, report.budget, self._stopped, context=wish.context, any_bytes=any_bytes
                )
                report.add(name, lines)
        except OSError as error:
            if any_bytes:
                raise ToolFault(f"Cannot read {path}: {error.strerror}") from error


def _in_order(tree: Tree, folders: Iterable[Folder], paths: Iterable[str], last: str) -> Sequence[str]:
    """Those of the files that nothing hides and a walk reaches behind `last`, in its order."""
    names: dict[str, set[str]] = {}
    for path in paths:
        prefix, _, name = path.rpartition("/")
        names.setdefault(prefix and prefix + "/", set()).add(name)
    kept = (
        folder.prefix + entry.name
        for folder in folders
        if folder.prefix in names
        for entry in tree.kept(folder, names[folder.prefix])
        if entry.kind == "file"
    )
    start = place_in_walk(last)
    return sorted((path for path in kept if place_in_walk(path) > start), key=place_in_walk)


class Report(Struct):
    """What is to be shown. Long lines are cut on the way in; the whole is cut at the end."""

    budget: Budget
    lines: list[str] = field(default_factory=list[str])
    cut_lines: bool = False

    def add(self, name: str, lines: Iterable[Line]) -> None:
        shown = None
        for line in lines:
            shown = shown_name(name) if shown is None else shown
            text, was_cut = cut_line(_display(line.text))
            self.cut_lines = self.cut_lines or was_cut
            self.lines.append(f"{shown}:{line.number}: {text}" if line.is_match else f"{shown}-{line.number}- {text}")

    def result(self, limit: int, limits: Limits) -> ToolResult:
        """The result for the model."""
        if not self.lines:
            return ToolResult(content=(Text(text="No matches found"),))
        cut = truncate_head("\n".join(self.lines), Limits(NO_LINE_LIMIT, limits.max_bytes))
        notes: list[str] = []
        details: JsonObject = {}
        if self.budget.more:
            notes.append(f"{limit} matches limit reached. Use limit={limit * 2} for more, or refine pattern")
            details["matchLimitReached"] = limit
        if cut.truncated:
            notes.append(f"{format_size(limits.max_bytes)} limit reached")
            details["truncation"] = cut.details()
        if self.cut_lines:
            notes.append(f"Some lines truncated to {MAX_LINE_UNITS} chars. Use read tool to see full lines")
            details["linesTruncated"] = True
        return ToolResult(content=(Text(text=cut.content + notice(*notes)),), details=details or UNSET)


def _display(text: str) -> str:
    """A line without the CR of its line end, broken bytes as U+FFFD."""
    text = text.removesuffix("\r")
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

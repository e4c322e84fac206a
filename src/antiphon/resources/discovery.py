"""Which files are skills, templates or extensions, in which order, and why each counts or does not.

The order: command line, project settings, project folder, own settings, own folder. The first of a name wins. Entries
of settings lists that begin with `!`, `+` or `-` do not add but filter what their own layer brings: `!glob` leaves out,
`-path` leaves out exactly, `+path` keeps in spite of `!`. Source: resources specification 9.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from antiphon.resources.diagnostics import Diagnostic, Finding, Scope, SourceInfo, State, warning
from antiphon.resources.paths import SHARED_DIR, Places, resolved
from antiphon.resources.settings_layers import Layer, Resolved
from antiphon.resources.skills import PAGE
from antiphon.resources.trust import shared_skill_folders

Kind: TypeAlias = Literal["skill", "template", "extension"]
Ignores: TypeAlias = Callable[[Path, bool], bool]
"""Is this path (and is it a folder?) left out by an ignore file?"""

FOLDER: dict[Kind, str] = {"skill": "skills", "template": "prompts", "extension": "extensions"}
SETTING: dict[Kind, str] = {"skill": "skills", "template": "prompts", "extension": "extensions"}
_DEEPEST = 12


class Candidate(Struct, frozen=True):
    """A file that may be a resource. `off`: why it does not count, if it does not."""

    path: Path
    source: SourceInfo
    off: str | None = None


class Wish(Struct, frozen=True):
    """What to look for. `given`: paths of the command line; `only_given`: look nowhere else."""

    kind: Kind
    given: Sequence[str] = ()
    only_given: bool = False
    trusted: bool = False


class Names(Struct):
    """The first of each name wins; tells the others why they lost."""

    kind: Kind
    findings: list[Finding] = field(default_factory=list[Finding])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    _by_name: dict[str, Path] = field(default_factory=dict[str, Path])
    _real: set[Path] = field(default_factory=set[Path])

    def admit(self, name: str, candidate: Candidate) -> bool:
        """Does this one count? Says why, either way."""
        real = candidate.path.resolve()
        before = self._by_name.get(name)
        if real in self._real:
            self.note(name, candidate, "shadowed", "it is the same file as one before")
            return False
        if before is not None:
            self.note(name, candidate, "shadowed", f"{before} has the same name and comes first")
            self.diagnostics.append(
                warning(f"two {self.kind}s are called {name}: {before} is used, {candidate.path} is not")
            )
            return False
        self._by_name[name] = candidate.path
        self._real.add(real)
        self.note(name, candidate, "used", where_from(candidate.source))
        return True

    def refuse(self, name: str, candidate: Candidate, why: str, *, silent: bool = False) -> None:
        """This one cannot count."""
        self.note(name, candidate, "refused", why)
        if not silent:
            self.diagnostics.append(warning(f"{candidate.path} is not used: {why}"))

    def note(self, name: str, candidate: Candidate, state: State, why: str) -> None:
        self.findings.append(Finding(kind=self.kind, name=name, state=state, reason=why, path=str(candidate.path)))


def where_from(source: SourceInfo) -> str:
    """The origin in words."""
    places = {
        "cli": "named on the command line",
        "local": f"named in the {'project' if source.scope == 'project' else 'global'} settings",
        "auto": f"found in the {'project' if source.scope == 'project' else 'own'} folder",
        "builtin": "built in",
    }
    return places.get(source.source, source.source)


def candidates(wish: Wish, where: Places, settings: Resolved, ignored: Ignores) -> Iterator[Candidate]:
    """Files that may be resources of a kind, in order of precedence."""
    for text in wish.given:
        yield from _of_entry(wish.kind, resolved(text, where.cwd, where.home), "cli", "temporary", where.cwd, ignored)
    if wish.only_given:
        return
    scopes: list[tuple[Scope, str]] = [("project", "project")] if wish.trusted else []
    scopes.append(("user", "global"))
    for scope, name in scopes:
        layer = next((found for found in settings.layers if found.name == name), Layer(name, ""))
        base = where.project if scope == "project" else where.agent
        entries = [entry for entry in layer.values.get(SETTING[wish.kind], ()) if isinstance(entry, str)]
        rules = [entry for entry in entries if entry[:1] in "!+-"]
        for entry in entries:
            if entry[:1] not in "!+-":
                path = resolved(entry, base, where.home)
                yield from _filtered(_of_entry(wish.kind, path, "local", scope, base, ignored), rules, base)
        for folder in _folders(wish.kind, scope, where):
            yield from _filtered(_of_folder(wish.kind, folder, "auto", scope, ignored), rules, base)


def _folders(kind: Kind, scope: Scope, where: Places) -> Iterator[Path]:
    yield (where.project if scope == "project" else where.agent) / FOLDER[kind]
    if kind == "skill":
        if scope == "project":
            yield from shared_skill_folders(where)
        else:
            yield where.home / SHARED_DIR / "skills"


def _of_entry(kind: Kind, path: Path, source: str, scope: Scope, base: Path, ignored: Ignores) -> Iterator[Candidate]:
    """What a path that somebody wrote stands for: a file, or a folder of them."""
    info = SourceInfo(path=str(path), source=source, scope=scope, base_dir=str(base))
    if kind == "skill" and path.is_dir() and (path / PAGE).is_file():
        yield Candidate(path / PAGE, info)
    elif kind == "extension" and path.is_dir() and (path / "__init__.py").is_file():
        yield Candidate(path / "__init__.py", info)
    elif path.is_dir():
        yield from _of_folder(kind, path, source, scope, ignored)
    else:
        yield Candidate(path, info, None if path.exists() else "there is no such file")


def _of_folder(kind: Kind, folder: Path, source: str, scope: Scope, ignored: Ignores) -> Iterator[Candidate]:
    for path in _FINDERS[kind](folder, ignored):
        yield Candidate(path, SourceInfo(path=str(path), source=source, scope=scope, base_dir=str(folder)))


def _entries(folder: Path) -> list[Path]:
    """What a folder has, by name, without dot names."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _templates(folder: Path, _ignored: Ignores) -> Iterable[Path]:
    return (path for path in _entries(folder) if path.suffix == ".md" and path.is_file())


def _extensions(folder: Path, _ignored: Ignores) -> Iterator[Path]:
    for path in _entries(folder):
        if path.suffix == ".py" and path.is_file() and path.name != "__init__.py":
            yield path
        elif (path / "__init__.py").is_file():
            yield path / "__init__.py"


def _skill_pages(folder: Path, ignored: Ignores, depth: int = 0) -> Iterator[Path]:
    """Pages in a folder of skills: one in each folder that has it, at any depth, and plain pages at the top.

    In a folder shared with other agents plain pages do not count.
    """
    if depth and (folder / PAGE).is_file():
        yield folder / PAGE
        return
    if depth > _DEEPEST:
        return
    plain = depth == 0 and folder.parent.name != SHARED_DIR
    for path in _entries(folder):
        is_folder = path.is_dir()
        if path.name == "node_modules" or ignored(path, is_folder):
            continue
        if is_folder:
            yield from _skill_pages(path, ignored, depth + 1)
        elif plain and path.suffix == ".md":
            yield path


_FINDERS: dict[Kind, Callable[[Path, Ignores], Iterable[Path]]] = {
    "skill": _skill_pages,
    "template": _templates,
    "extension": _extensions,
}


def _filtered(found: Iterable[Candidate], rules: Sequence[str], base: Path) -> Iterator[Candidate]:
    for candidate in found:
        why = _ruled_out(candidate.path, rules, base)
        yield candidate if why is None or candidate.off else Candidate(candidate.path, candidate.source, why)


def _ruled_out(path: Path, rules: Sequence[str], base: Path) -> str | None:
    """Which rule of the settings leaves a path out, if one does."""
    names = _names(path, base)
    if any(rule[0] == "-" and rule[1:].rstrip("/") in names for rule in rules):
        return "the settings leave it out (-path)"
    if any(rule[0] == "+" and rule[1:].rstrip("/") in names for rule in rules):
        return None
    for rule in rules:
        if rule[0] == "!" and any(fnmatch.fnmatchcase(name, rule[1:]) for name in names):
            return f"the settings leave it out ({rule})"
    return None


def _names(path: Path, base: Path) -> set[str]:
    """The ways in which settings may name a file: in full, relative, by its folder, by its last part."""
    relative = os.path.relpath(path, base)
    out = {str(path), relative, path.name, path.stem}
    if path.name in (PAGE, "__init__.py"):
        out -= {path.name, path.stem}
        out |= {str(path.parent), os.path.dirname(relative), path.parent.name}
    return out


def nothing_ignored(_path: Path, _is_folder: bool) -> bool:
    """For callers without ignore rules."""
    return False

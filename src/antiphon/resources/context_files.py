"""What people have written for agents in a folder and above it: `AGENTS.md` and its kin. Needs no trust.

Source: resources specification 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from antiphon.resources.diagnostics import Diagnostic, Finding, State, warning
from antiphon.resources.paths import Places, ancestors
from antiphon.resources.stored import read_bytes

NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
"""Of these, the first one that a folder has counts."""


class ContextFile(Struct, frozen=True):
    """One file: its absolute path and what it says."""

    path: str
    text: str


class ContextFiles(Struct, frozen=True):
    """Outermost first. `findings` also names those that do not count, and why."""

    files: tuple[ContextFile, ...] = ()
    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def read_context_files(where: Places) -> ContextFiles:
    """The files for work in a folder: the person's own, then from the outermost folder to the innermost."""
    files: list[ContextFile] = []
    findings: list[Finding] = []
    diagnostics: list[Diagnostic] = []
    seen: set[Path] = set()
    left_out = _main_checkout(where.cwd)
    for folder in (where.agent, *reversed(ancestors(where.cwd))):
        present = list(_present(folder))
        if not present:
            continue
        first = f"{present[0].name} in the same folder comes first"
        findings += [_finding(path, "shadowed", first) for path in present[1:]]
        path = present[0]
        real = path.resolve()
        if real in seen:
            findings.append(_finding(path, "shadowed", "it is the same file as one before"))
        elif left_out is not None and folder == left_out.folder and path.name in left_out.names:
            findings.append(_finding(path, "shadowed", "the worktree inside this checkout has its own"))
        else:
            seen.add(real)
            text = _read(path, diagnostics)
            if text is not None:
                files.append(ContextFile(str(path), text))
                findings.append(_finding(path, "used", "yours" if folder == where.agent else f"of {folder}"))
    return ContextFiles(tuple(files), tuple(findings), tuple(diagnostics))


def _present(folder: Path) -> Iterable[Path]:
    """The folder's context files in order of preference; two names of one file count once."""
    real: set[tuple[int, int]] = set()
    for name in NAMES:
        path = folder / name
        try:
            state = path.stat()
        except OSError:
            continue
        if path.is_file() and (state.st_dev, state.st_ino) not in real:
            real.add((state.st_dev, state.st_ino))
            yield path


def _read(path: Path, diagnostics: list[Diagnostic]) -> str | None:
    try:
        return read_bytes(path).decode("utf-8", "replace")
    except OSError as error:
        diagnostics.append(warning(f"{path} cannot be read and is left out: {error.strerror or error}"))
        return None


def _finding(path: Path, state: State, reason: str) -> Finding:
    return Finding(kind="context", name=path.name, state=state, reason=reason, path=str(path))


class _Checkout(Struct, frozen=True):
    folder: Path
    names: tuple[str, ...]


def _main_checkout(cwd: Path) -> _Checkout | None:
    """The main checkout around a linked worktree, with the files that the worktree has itself."""
    worktree = next((folder for folder in ancestors(cwd) if (folder / ".git").is_file()), None)
    if worktree is None:
        return None
    try:
        words = read_bytes(worktree / ".git").decode("utf-8", "replace")
    except OSError:
        return None
    if not words.startswith("gitdir:"):
        return None
    inner = (worktree / words.removeprefix("gitdir:").strip()).resolve()
    if inner.parent.name != "worktrees" or inner.parent.parent.name != ".git":
        return None
    main = inner.parent.parent.parent
    own = next(iter(_present(worktree)), None)
    if own is None or main not in [folder.resolve() for folder in worktree.parents]:
        return None
    folder = next(f for f in worktree.parents if f.resolve() == main)
    return _Checkout(folder, (own.name,))

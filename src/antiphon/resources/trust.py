"""Whether a project's own settings and resources are loaded. Trust says what is loaded, not what tools may do.

A decision is about a folder and all below it; the nearest one counts. With it stands a digest of the project's
executable files, so that a later change of them is asked about again. Source: resources specification 3, R1 to R3.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from antiphon.core.wire import JsonObject
from antiphon.errors import ConfigurationError
from antiphon.resources.paths import CONFIG_DIR, SHARED_DIR, Places, ancestors
from antiphon.resources.settings_layers import Resolved
from antiphon.resources.stored import pretty, read_bytes, read_json, replace_file, sole_writer

PROTECTED = (
    "settings.json",
    "mcp.json",
    "extensions",
    "skills",
    "prompts",
    "themes",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
)
"""What in a project's folder needs trust. Context files such as AGENTS.md do not."""

EXECUTABLE = ("settings.json", "mcp.json", "extensions", "skills")
"""Of these, what can make something run: a digest of it stands with a decision."""

_MOST_FILES = 2_000
_MOST_BYTES = 64 * 1024 * 1024

Answer: TypeAlias = Literal["trust", "trust parent", "trust once", "refuse", "refuse once"]


class Saved(Struct, frozen=True):
    """A decision that was written down. `digest` None: nobody noted what the project held then."""

    folder: str
    trusted: bool
    digest: str | None = None


class TrustFile(Struct, frozen=True):
    """All decisions, by folder. `fault`: why the file does not count."""

    decisions: Mapping[str, Saved]
    fault: str | None = None

    def nearest(self, folder: Path) -> Saved | None:
        """The decision about this folder, or about the nearest one above it."""
        return next((self.decisions[str(f)] for f in ancestors(folder) if str(f) in self.decisions), None)


class TrustDecision(Struct, frozen=True):
    """`trusted`: may the project's resources be loaded? `open`: nobody decided, so a person may be asked."""

    trusted: bool
    reason: str
    protected: tuple[str, ...] = ()
    open: bool = False

    @property
    def skipped(self) -> tuple[str, ...]:
        """What is left out for want of trust."""
        return () if self.trusted else self.protected


def protected_in(where: Places) -> tuple[str, ...]:
    """Paths of the project that need trust. Looks no higher than the repository's root or the home folder."""
    found = [where.project / name for name in PROTECTED]
    if where.project == where.agent or _is_within(where.agent, where.project):
        found = []  # working in the home folder: these are the person's own
    found += shared_skill_folders(where)
    return tuple(str(path) for path in found if path.exists())


def shared_skill_folders(where: Places) -> tuple[Path, ...]:
    """`.agents/skills` of the working folder and of those above it, up to the repository's root, nearest first."""
    root = repository_root(where.cwd)
    out: list[Path] = []
    for folder in ancestors(where.cwd):
        if folder == where.home:
            break
        out.append(folder / SHARED_DIR / "skills")
        if folder == root:
            break
        if root is None and not _is_within(folder, where.home):
            break  # outside of any repository and of the home folder: only here
    return tuple(out)


def repository_root(cwd: Path) -> Path | None:
    """The nearest folder above that has a `.git`."""
    return next((folder for folder in ancestors(cwd) if (folder / ".git").exists()), None)


def _is_within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def digest_of(where: Places) -> str:
    """What the project's executable files are now, as a short text."""
    hashed = hashlib.sha256()
    read = 0
    roots = [where.project / name for name in EXECUTABLE] + list(shared_skill_folders(where))
    for number, path in enumerate(_files(roots)):
        if number >= _MOST_FILES:
            break
        hashed.update(os.fsencode(os.path.relpath(path, where.cwd)) + b"\0")
        try:
            state = path.stat()
            read += state.st_size
            if read > _MOST_BYTES:  # too much to read at every start: its size and time will do
                hashed.update(f"{state.st_size} {state.st_mtime_ns}".encode())
            else:
                hashed.update(hashlib.sha256(read_bytes(path)).digest())
        except OSError:
            hashed.update(b"unreadable")
    return hashed.hexdigest()[:32]


def _files(roots: Iterable[Path]) -> Iterable[Path]:
    for root in roots:
        if root.is_dir():
            for folder, names, files in os.walk(root):
                names[:] = sorted(name for name in names if name != "__pycache__")
                yield from (Path(folder, name) for name in sorted(files))
        elif root.exists():
            yield root


def read_trust(path: Path) -> TrustFile:
    """The decisions in a file. A broken file decides nothing and says why."""
    file = read_json(path)
    decisions: dict[str, Saved] = {}
    for folder, given in file.values.items():
        if isinstance(given, bool):
            decisions[folder] = Saved(folder, given)
        elif isinstance(given, dict) and isinstance(cast("JsonObject", given).get("trusted"), bool):
            table = cast("JsonObject", given)
            digest = table.get("digest")
            decisions[folder] = Saved(folder, table["trusted"], digest if isinstance(digest, str) else None)
    return TrustFile(decisions, file.fault)


def decide(where: Places, global_settings: Resolved, saved: TrustFile, flag: bool | None = None) -> TrustDecision:
    """Is the project trusted? `flag`: what the command line said.

    The order: command line, saved decision, the setting `defaultProjectTrust`; a project with nothing to protect is
    trusted unless somebody refused it.
    """
    protected = protected_in(where)
    cwd = canonical(where.cwd)
    known = saved.nearest(cwd)
    if flag is not None:
        return TrustDecision(flag, f"--{'' if flag else 'no-'}approve", protected)
    if not protected:
        trusted = known is None or known.trusted
        return TrustDecision(trusted, "there is nothing to protect" if trusted else _because(known))
    if known is not None and not _changed(known, where, cwd, global_settings):
        return TrustDecision(known.trusted, _because(known), protected)
    default = global_settings.settings.default_project_trust
    if known is not None:
        return TrustDecision(False, "its executable files have changed since it was trusted", protected, open=True)
    if default != "ask":
        return TrustDecision(default == "always", f'the setting defaultProjectTrust is "{default}"', protected)
    return TrustDecision(False, "nobody decided about this project", protected, open=True)


def _because(known: Saved | None) -> str:
    if known is None:
        return "nobody decided"
    return f"{'trusted' if known.trusted else 'refused'} by the saved decision about {known.folder}"


def _changed(known: Saved, where: Places, cwd: Path, settings: Resolved) -> bool:
    exact = known.trusted and known.digest is not None and known.folder == str(cwd)
    return exact and settings.settings.trust_content and digest_of(where) != known.digest


def canonical(folder: Path) -> Path:
    """The folder without links, as it stands in the file."""
    return folder.resolve()


def save_decision(where: Places, trusted: bool | None, *, parent: bool = False) -> str:
    """Write a decision down (None: forget it); gives the folder that it is about.

    Raises:
        ConfigurationError: the file is broken or cannot be written.
    """
    folder = canonical(where.cwd.parent if parent else where.cwd)
    digest = digest_of(where) if trusted and not parent else None
    try:
        with sole_writer(where.trust):
            file = read_json(where.trust)
            if file.fault is not None:
                raise ConfigurationError(f"{file.fault}; repair or remove it first")
            values = dict(file.values)
            values.pop(str(folder), None)
            if trusted is not None:
                values[str(folder)] = trusted if digest is None else {"trusted": trusted, "digest": digest}
            replace_file(where.trust, pretty(values))
    except OSError as error:
        raise ConfigurationError(f"{where.trust} cannot be written: {error.strerror or error}") from error
    return str(folder)


def apply_answer(where: Places, answer: Answer) -> bool:
    """Carry out what a person answered; is the project trusted now?"""
    if answer == "trust" or answer == "trust parent":
        save_decision(where, True, parent=answer == "trust parent")
    elif answer == "refuse":
        save_decision(where, False)
    return answer.startswith("trust")


def skip_notice(decision: TrustDecision, where: Places) -> str | None:
    """One line that names what was skipped, and what to do; nothing if nothing was."""
    if not decision.skipped:
        return None
    names = [os.path.relpath(path, where.cwd) for path in decision.skipped]
    return (
        f"this project is not trusted ({decision.reason}), so {', '.join(names)} {'is' if len(names) == 1 else 'are'} "
        f"not used; --approve uses {'it' if len(names) == 1 else 'them'} this once, "
        f"`antiphon trust` from now on (nothing outside {CONFIG_DIR} and {SHARED_DIR} is affected)"
    )

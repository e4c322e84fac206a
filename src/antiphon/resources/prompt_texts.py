"""Base prompt and addenda: a text or file given, else the project's (if trusted), else the person's own.

Source: resources specification 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import final

from antiphon.resources.diagnostics import Diagnostic, Finding, State, warning
from antiphon.resources.paths import Places
from antiphon.resources.stored import read_bytes


@final
class PromptTexts:
    """Where base prompt and addenda come from: a text or file given, else the project's, else the person's own."""

    def __init__(self, where: Places, trusted: bool) -> None:
        self._where = where
        self._folders = (where.project, where.agent) if trusted else (where.agent,)
        self.findings: list[Finding] = []
        self.diagnostics: list[Diagnostic] = []

    def base(self, given: str | None) -> str | None:
        """The base prompt; nothing: the built-in one."""
        return self._given("SYSTEM.md", given) if given is not None else self._found("SYSTEM.md")

    def addenda(self, given: Sequence[str]) -> tuple[str, ...]:
        """What is added to the prompt, in order."""
        if given:
            texts = [self._given("APPEND_SYSTEM.md", text) for text in given]
            return tuple(text for text in texts if text)
        found = self._found("APPEND_SYSTEM.md")
        return () if found is None else (found,)

    def _given(self, name: str, given: str) -> str:
        path = named_file(given, self._where.cwd)
        if path is None and looks_like_a_path(given):
            self.diagnostics.append(warning(f"there is no file {given}, so these words themselves are the prompt"))
        text = given if path is None else text_of(path)
        if text is None:
            self.diagnostics.append(warning(f"{path} cannot be read, so its name itself is taken for the prompt"))
            text = given
        self._note(name, "used", "given on the command line", "" if path is None else str(path))
        return text

    def _found(self, name: str) -> str | None:
        winner: str | None = None
        for folder in self._folders:
            path = folder / name
            if not path.is_file():
                continue
            text = text_of(path)
            if text is None:
                self.diagnostics.append(warning(f"{path} cannot be read and is left out"))
            elif winner is None:
                winner = text
                self._note(name, "used", "of the project" if folder == self._where.project else "yours", str(path))
            else:
                self._note(name, "shadowed", "the project has its own", str(path))
        return winner

    def _note(self, name: str, state: State, reason: str, path: str) -> None:
        self.findings.append(Finding(kind="prompt", name=name, state=state, reason=reason, path=path))


def looks_like_a_path(given: str) -> bool:
    """Is this one word with a slash or a suffix, such as `prompts/review.md`?"""
    return bool(given) and not any(c.isspace() for c in given) and ("/" in given or bool(Path(given).suffix))


def named_file(given: str, cwd: Path) -> Path | None:
    """The file that a text names, if it can be the name of one."""
    if "\n" in given or "\0" in given or not given.strip() or len(given) > 1000:
        return None
    path = cwd / Path(given).expanduser()
    try:
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


def text_of(path: Path) -> str | None:
    """What a file says; nothing if it cannot be read."""
    try:
        return read_bytes(path).decode("utf-8", "replace")
    except OSError:
        return None

"""A home folder, a project and an agent folder to try things in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from antiphon.resources.paths import Places


class Home:
    """Folders under one temporary folder; `where` is what the program is told."""

    def __init__(self, root: Path) -> None:
        self.root = root / "home"
        self.agent = self.root / ".antiphon" / "agent"
        self.cwd = self.root / "work" / "project"
        self.cwd.mkdir(parents=True)
        self.agent.mkdir(parents=True)
        (self.cwd / ".git").mkdir()

    @property
    def where(self) -> Places:
        return Places(self.cwd, self.agent, self.root)

    @property
    def project(self) -> Path:
        return self.cwd / ".antiphon"

    def put(self, path: Path | str, content: Any = "") -> Path:
        """A file; a text as it is, anything else as JSON. Relative paths are in the project folder."""
        target = self.cwd / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return target

    def skill(self, folder: Path | str, name: str, description: str = "does it", more: str = "") -> Path:
        return self.put(
            Path(folder) / name / "SKILL.md", f"---\nname: {name}\ndescription: {description}\n{more}---\nDo {name}.\n"
        )

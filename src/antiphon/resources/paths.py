"""Where things lie. Asking creates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from antiphon.errors import ConfigurationError

CONFIG_DIR = ".antiphon"
"""Name of the folder in a project and in the home folder."""

SHARED_DIR = ".agents"
"""Name of the folder that several agents share, in a project and in the home folder."""


def home_dir(environ: Mapping[str, str]) -> Path:
    """The person's home folder."""
    home = environ.get("HOME")
    return Path(home) if home else Path.home()


def agent_dir(environ: Mapping[str, str]) -> Path:
    """The folder of settings, credentials and sessions: `ANTIPHON_AGENT_DIR`, else `~/.antiphon/agent`."""
    chosen = environ.get("ANTIPHON_AGENT_DIR")
    if chosen:
        return expanded(chosen, home_dir(environ))
    return home_dir(environ) / CONFIG_DIR / "agent"


def sessions_dir(environ: Mapping[str, str], chosen: str | None = None, setting: str | None = None) -> Path | None:
    """A folder chosen for sessions: by option, else by `ANTIPHON_SESSION_DIR`, else by setting; none if nobody chose.

    `setting` is an absolute path already.
    """
    folder = chosen or environ.get("ANTIPHON_SESSION_DIR") or setting
    return expanded(folder, home_dir(environ)) if folder else None


def expanded(text: str, home: Path) -> Path:
    """A path a person wrote: `~` is their home folder."""
    if text == "~":
        return home
    return home / text[2:] if text.startswith("~/") else Path(text)


def resolved(text: str, base: Path, home: Path) -> Path:
    """A path in a settings file: relative to `base` unless it is absolute or begins with `~`."""
    return base / expanded(text, home)


class Places(Struct, frozen=True):
    """The folders that matter for work in `cwd`."""

    cwd: Path
    agent: Path
    home: Path

    @property
    def project(self) -> Path:
        """The project's own folder of settings and resources."""
        return self.cwd / CONFIG_DIR

    @property
    def global_settings(self) -> Path:
        return self.agent / "settings.json"

    @property
    def project_settings(self) -> Path:
        return self.project / "settings.json"

    @property
    def credentials(self) -> Path:
        return self.agent / "auth.json"

    @property
    def models(self) -> Path:
        return self.agent / "models.json"

    @property
    def trust(self) -> Path:
        return self.agent / "trust.json"


def places(cwd: Path | str, environ: Mapping[str, str]) -> Places:
    """The folders for this working folder and environment."""
    return Places(Path(cwd), agent_dir(environ), home_dir(environ))


def ancestors(cwd: Path) -> tuple[Path, ...]:
    """The folder and those above it, nearest first."""
    return (cwd, *cwd.parents)


def working_folder() -> str:
    """The current folder.

    Raises:
        ConfigurationError: it is gone.
    """
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise ConfigurationError("the current folder does not exist any more; change to another one") from None

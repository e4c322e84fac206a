"""Where things lie. Asking creates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIG_DIR = ".antiphon"
"""Name of the folder in a project and in the home folder."""


def agent_dir(environ: Mapping[str, str]) -> Path:
    """The folder of settings, credentials and sessions: `ANTIPHON_AGENT_DIR`, else `~/.antiphon/agent`."""
    chosen = environ.get("ANTIPHON_AGENT_DIR")
    if chosen:
        return Path(chosen).expanduser()
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / CONFIG_DIR / "agent"


def sessions_dir(environ: Mapping[str, str], chosen: str | None = None) -> Path | None:
    """A folder chosen for sessions: by option, else by `ANTIPHON_SESSION_DIR`; none if nobody chose."""
    folder = chosen or environ.get("ANTIPHON_SESSION_DIR")
    return Path(folder).expanduser() if folder else None

"""Where sessions lie and how safely they are written, as settings and options say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType

import pytest
from tests.modes.children import Place, run, served
from tests.providers.fake_server import Answer

from antiphon.errors import ConfigurationError
from antiphon.modes.commands import auth, config, sessions, trust
from antiphon.modes.output import Output
from antiphon.modes.session_places import session_places
from antiphon.resources.paths import places


@pytest.mark.parametrize("option", [None, "elsewhere", "sqlite:all.db"])
@pytest.mark.parametrize("chosen", ["fast", "sync", None])
def test_a_setting_says_how_safely_sessions_are_written(tmp_path: Path, option: str | None, chosen: str | None) -> None:
    environ = {"HOME": str(tmp_path), "ANTIPHON_HOME": str(tmp_path / "agent")}
    where = places(tmp_path, environ)
    where.agent.mkdir(parents=True, exist_ok=True)
    settings = {} if chosen is None else {"sessionDurability": chosen}
    (where.agent / "settings.json").write_text(json.dumps(settings))

    store = session_places(where, environ, option).store()

    assert store.terms.durability == (chosen or "turn")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "root"])
async def test_what_is_no_regular_file_is_no_session(place: Place, kind: str) -> None:
    """A pipe would be waited for, a device never ends, a folder has no lines."""
    path = {"device": Path("/dev/zero"), "root": Path("/")}.get(kind, place.cwd / "x")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    done = await run(place, "session", "check", str(path))
    assert (done.code, done.err) == (1, f"Error: {path} is no regular file, so it is no session\n")


async def test_a_file_is_no_folder_for_sessions(place: Place) -> None:
    (place.cwd / "file").write_text("")
    async with served(place, Answer(text="hello")):
        done = await run(place, "--session-dir", "file", "-p", "hi")
    assert done.code == 1
    assert "cannot be made" in done.err
    assert "Not a directory" in done.err


@pytest.mark.parametrize("command", [sessions, config, trust, auth])
def test_a_command_in_a_folder_that_is_gone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: ModuleType
) -> None:
    words = {sessions: ["list"], config: ["explain"], trust: [], auth: ["check"]}[command]
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigurationError, match="the current folder does not exist any more"):
        command.run(words, Output())

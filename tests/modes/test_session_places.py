"""Where sessions lie and how safely they are written, as settings and options say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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

"""`antiphon auth`, `config` and `trust` as children."""

from __future__ import annotations

import json

import pytest
from tests.modes.children import KEY, Place, run

from antiphon.modes.tables import cut, table, width


async def test_keys_are_kept_checked_and_forgotten_and_never_shown(place: Place) -> None:
    assert (await run(place, "auth", "check")).code == 1
    assert (await run(place, "auth", "check", "openai")).code == 1
    done = await run(place, "auth", "login", "openai", given=f" {KEY}\n".encode())
    assert done.code == 0
    path = place.agent / "auth.json"
    assert json.loads(path.read_text()) == {"openai": {"type": "api_key", "key": KEY}}
    assert path.stat().st_mode & 0o777 == 0o600
    checked = await run(place, "auth", "check")
    assert (checked.code, "auth.json" in checked.text) == (0, True)
    told = await run(place, "auth", "check", "--json")
    assert told.records == [{"provider": "openai", "status": "ready", "place": "auth.json (literal text)"}]
    for one in (done, checked, told, await run(place, "config", "explain")):
        assert KEY not in one.text + one.err
    assert (await run(place, "auth", "logout", "openai")).code == 0
    assert (await run(place, "auth", "check", "openai")).code == 1


@pytest.mark.parametrize(
    ("variables", "stored", "code"),
    [
        ({"OPENAI_API_KEY": KEY}, None, 0),
        ({"OPENAI_API_KEY": "sk with spaces"}, None, 2),
        ({"OPENAI_API_KEY": "钥匙"}, None, 2),
        ({}, "$MISSING_VARIABLE", 2),
        ({"THERE": KEY}, "$THERE", 0),
        ({}, "!echo key", 0),
        ({}, "!exit 4", 2),
    ],
)
async def test_the_code_of_a_check(place: Place, variables: dict[str, str], stored: str | None, code: int) -> None:
    place.variables |= variables
    if stored is not None:
        (place.agent / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": stored}}))
        (place.agent / "auth.json").chmod(0o600)
    done = await run(place, "auth", "check", "openai")
    assert (done.code, done.err) == (code, "")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("auth", "check", "nobody"), b""),
        (("auth", "login", "nobody"), b"k"),
        (("auth", "login", "openai"), b""),
        (("auth", "login", "openai"), b"two words"),
        (("auth",), b""),
        (("config", "set", "retry.maxRetries", "many"), b""),
        (("config", "set", "nonsense", "1"), b""),
        (("config", "unset", "nonsense"), b""),
        (("config", "frobnicate"), b""),
        (("trust", "maybe"), b""),
    ],
)
async def test_mistakes_are_a_line(place: Place, words: tuple[str, ...], given: bytes) -> None:
    done = await run(place, *words, given=given)
    assert (done.code, done.out) == (1, b""), done
    assert len(done.error_lines) == 1
    assert list(place.agent.iterdir()) == []


async def test_settings_are_explained_changed_and_taken_back(place: Place) -> None:
    assert (await run(place, "config", "set", "retry.maxRetries", "7")).code == 0
    assert (await run(place, "config", "set", "defaultModel", "gpt-5")).code == 0
    told = await run(place, "config", "explain", "--json", "retry.maxRetries")
    assert told.records == [
        {
            "kind": "setting",
            "name": "retry.maxRetries",
            "state": "used",
            "reason": "7 (global)",
            "path": str(place.agent / "settings.json"),
        }
    ]
    assert (await run(place, "config", "unset", "retry.maxRetries")).code == 0
    assert json.loads((place.agent / "settings.json").read_text()) == {"retry": {}, "defaultModel": "gpt-5"}
    assert json.loads((await run(place, "config", "schema")).text)["title"] == "antiphon settings"


async def test_a_mistyped_setting_is_noticed_by_who_asks(place: Place) -> None:
    place.settings(steeringMod="all", theme="dark")
    told = await run(place, "config", "explain")
    assert "nobody reads steeringMod; did you mean steeringMode?" in told.err


async def test_resources_are_explained_with_winner_and_loser(place: Place) -> None:
    for folder in (place.agent / "skills", place.cwd / ".antiphon" / "skills"):
        (folder / "pdf").mkdir(parents=True)
        (folder / "pdf" / "SKILL.md").write_text("---\ndescription: d\n---\n")
    (place.cwd / "AGENTS.md").write_text("hello")
    told = (await run(place, "config", "explain")).text
    assert "not trusted" not in told
    assert "refused" in told
    assert f"{place.agent}/skills/pdf/SKILL.md" in told
    assert str(place.cwd / "AGENTS.md") in told
    approved = await run(place, "config", "explain", "-a", "--json", "skill")
    states = {record["path"]: record["state"] for record in approved.records if record["kind"] == "skill"}
    assert states[str(place.cwd / ".antiphon/skills/pdf/SKILL.md")] == "used"
    assert states[str(place.agent / "skills/pdf/SKILL.md")] == "shadowed"


async def test_trust_is_given_and_taken_back(place: Place) -> None:
    (place.cwd / ".antiphon").mkdir()
    (place.cwd / ".antiphon" / "settings.json").write_text("{}")
    assert "not trusted" in (await run(place, "trust")).text
    assert "trusted by" in (await run(place, "trust", "yes")).text
    (place.cwd / ".antiphon" / "settings.json").write_text('{"transport": "sse"}')
    assert "changed" in (await run(place, "trust")).text
    assert "refused" in (await run(place, "trust", "no")).text
    assert "nobody decided" in (await run(place, "trust", "forget")).text
    assert "trusted by" in (await run(place, "trust", "yes", "--parent")).text


def test_tables_know_wide_characters() -> None:
    assert width("中文a") == 5
    assert table([("中文", "x"), ("a", "y")]) == "中文  x\na     y\n"
    assert cut("中文字", 5) == "中文…"
    assert cut("short", 5) == "short"
    assert table([]) == ""

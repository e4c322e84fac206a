"""Keys: which place counts, how values are written, that they never show."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from tests.resources.homes import Home

from antiphon.errors import ConfigurationError
from antiphon.resources.credentials import ApiKey, KeyRing, OAuth, read_credentials, store_credential
from antiphon.resources.secret_values import (
    CommandCache,
    Resolution,
    Secret,
    Unresolved,
    form_of,
    resolve,
    run_command,
    variables_in,
)

SECRET = "sk-very-secret-0123456789"
VARIABLES = {"openai": ("OPENAI_API_KEY",), "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY")}


def ring(home: Home, environ: dict[str, str] | None = None, **options: Any) -> KeyRing:
    return KeyRing(read_credentials(home.where), environ or {}, variables=VARIABLES, **options)


def no_command(command: str) -> Resolution:
    raise AssertionError(f"{command} must not be run")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$A", "1"),
        ("${A}", "1"),
        ("x${A}y$B", "x1y2"),
        ("$$A", "$A"),
        ("$!x", "!x"),
        ("a!b", "a!b"),
        ("$", "$"),
        ("5$", "5$"),
        ("$1", "$1"),
        ("${A b}", None),
        ("$MISSING", None),
        ("$A$EMPTY", None),
        ("", None),
    ],
)
def test_the_syntax_of_values(text: str, value: str | None) -> None:
    found = resolve(text, {"A": "1", "B": "2", "EMPTY": ""}, no_command)
    assert (found.reveal() if isinstance(found, Secret) else None) == value


def test_variables_are_named_but_not_shown() -> None:
    assert variables_in("$A-${B}-$A") == ("A", "B")
    assert form_of("Bearer $A") == "variable A"
    assert form_of("!pass show x") == "output of a command"
    assert form_of("sk-123") == "literal text"
    missing = resolve("$NOPE", {"OTHER": SECRET}, no_command)
    assert isinstance(missing, Unresolved)
    assert missing.reason == "variable NOPE is not set"


@pytest.mark.parametrize(
    ("command", "value", "why"),
    [
        ("echo ' key '", "key", ""),
        ("printf ''", None, "printed nothing"),
        ("exit 3", None, "ended with 3"),
        ("sleep 30", None, "did not end within"),
        ("nonexistent-command-xyz", None, "ended with 127"),
        ("", None, "no command"),
    ],
)
def test_commands_give_their_output(command: str, value: str | None, why: str) -> None:
    found = run_command(command, 0.5)
    if value is None:
        assert isinstance(found, Unresolved)
        assert why in found.reason
    else:
        assert isinstance(found, Secret)
        assert found.reveal() == value


def test_a_success_is_kept_and_a_failure_is_tried_again_after_a_pause() -> None:
    now = [0.0]
    answers: list[Resolution] = [Unresolved("locked"), Secret("k")]
    asked: list[str] = []

    def run(command: str) -> Resolution:
        asked.append(command)
        return answers[len(asked) - 1]

    cache = CommandCache(run, lambda: now[0], pause=5)
    assert isinstance(cache("c"), Unresolved)
    assert isinstance(cache("c"), Unresolved)
    assert asked == ["c"]
    now[0] = 5
    assert cache("c") == Secret("k")
    now[0] = 500
    assert cache("c") == Secret("k")
    assert asked == ["c", "c"]


def test_the_order_of_places(home: Home) -> None:
    environ = {"OPENAI_API_KEY": "from-env"}
    assert ring(home, environ).ask("openai").place == "variable OPENAI_API_KEY"
    configured = {"openai": "$CONFIGURED"}
    environ["CONFIGURED"] = "from-models"
    assert ring(home, environ, configured=configured).key("openai") == "from-models"
    home.put(home.where.credentials, {"openai": {"type": "api_key", "key": "stored"}})
    assert ring(home, environ, configured=configured).key("openai") == "stored"
    keys = ring(home, environ, configured=configured)
    keys.give("openai", "given")
    assert keys.key("openai") == "given"
    assert keys.key("anthropic") is None


def test_variables_of_one_provider_win_for_it_alone(home: Home) -> None:
    home.put(
        home.where.credentials,
        {
            "openai": {"type": "api_key", "env": {"OPENAI_API_KEY": "mine", "OPENAI_BASE_URL": "http://x"}},
            "anthropic": {"type": "api_key", "key": "$TOKEN", "env": {"TOKEN": "t"}},
        },
    )
    keys = ring(home, {"OPENAI_API_KEY": "theirs", "TOKEN": "wrong"})
    assert keys.key("openai") == "mine"
    assert keys.key("anthropic") == "t"
    assert keys.environment_of("openai")["OPENAI_BASE_URL"] == "http://x"
    assert "OPENAI_BASE_URL" not in keys.environment_of("anthropic")


def test_asking_whether_there_is_a_key_runs_no_command(home: Home) -> None:
    home.put(home.where.credentials, {"openai": {"type": "api_key", "key": "!echo key"}})
    keys = ring(home, run=no_command)
    assert keys.has("openai")
    assert not keys.has("anthropic")
    assert keys.findings(("openai", "anthropic"))[0].reason == "auth.json (output of a command)"
    assert ring(home).key("openai") == "key"


def test_logins_are_read(home: Home) -> None:
    entry = {"type": "oauth", "access": SECRET, "refresh": "r", "expires": 5, "accountId": "a"}
    home.put(home.where.credentials, {"anthropic": entry})
    found = read_credentials(home.where).entries["anthropic"]
    assert isinstance(found, OAuth)
    assert found.rest == {"accountId": "a"}
    assert ring(home).key("anthropic") == SECRET


@pytest.mark.parametrize(
    "entry",
    [
        5,
        {"type": "api_key"},
        {"type": "api_key", "key": 5},
        {"type": "api_key", "key": SECRET, "env": {"A": 1}},
        {"type": "magic", "key": SECRET},
        {"type": "oauth", "access": SECRET},
    ],
)
def test_an_entry_that_makes_no_sense_is_named_without_its_content(home: Home, entry: Any) -> None:
    home.put(home.where.credentials, {"openai": entry})
    os.chmod(home.where.credentials, 0o600)
    found = read_credentials(home.where)
    assert found.entries == {}
    (diagnostic,) = found.diagnostics
    assert "openai" in diagnostic.message
    assert SECRET not in diagnostic.message


@pytest.mark.parametrize("content", [f'{{"openai": {{"key": "{SECRET}"', f'"{SECRET}"', "[]"])
def test_a_broken_file_is_told_without_its_content(home: Home, content: str) -> None:
    home.put(home.where.credentials, content)
    os.chmod(home.where.credentials, 0o600)
    (diagnostic,) = read_credentials(home.where).diagnostics
    assert str(home.where.credentials) in diagnostic.message
    assert SECRET[:6] not in diagnostic.message


def test_a_file_that_others_can_read_is_told(home: Home) -> None:
    path = home.put(home.where.credentials, {})
    os.chmod(path, 0o644)
    (diagnostic,) = read_credentials(home.where).diagnostics
    assert f"chmod 600 {path}" in diagnostic.message


def test_keys_in_a_project_do_not_count(home: Home) -> None:
    home.put(home.project / "auth.json", {"openai": {"type": "api_key", "key": SECRET}})
    found = read_credentials(home.where)
    assert found.entries == {}
    assert "never belong in a project" in found.diagnostics[0].message


def test_storing_makes_a_private_file_and_keeps_the_rest(home: Home) -> None:
    home.agent.rmdir()
    store_credential(home.where, "openai", ApiKey(SECRET))
    store_credential(home.where, "anthropic", ApiKey("$X", {"X": "1"}))
    path = home.where.credentials
    assert path.stat().st_mode & 0o777 == 0o600
    assert home.agent.stat().st_mode & 0o777 == 0o700
    assert json.loads(path.read_text())["openai"] == {"type": "api_key", "key": SECRET}
    store_credential(home.where, "openai", None)
    assert list(json.loads(path.read_text())) == ["anthropic"]
    assert {entry.name for entry in home.agent.iterdir()} == {"auth.json", ".auth.json.lock"}


def test_storing_makes_an_open_file_private(home: Home) -> None:
    path = home.put(home.where.credentials, {})
    os.chmod(path, 0o666)
    store_credential(home.where, "openai", ApiKey(SECRET))
    assert path.stat().st_mode & 0o777 == 0o600


def test_keys_are_not_stored_in_a_project(home: Home) -> None:
    from antiphon.resources.paths import Places

    inside = Places(home.cwd, home.cwd / "agent", home.root)
    with pytest.raises(ConfigurationError, match="never belong in a project"):
        store_credential(inside, "openai", ApiKey(SECRET))
    assert not (home.cwd / "agent").exists()


def test_a_broken_file_is_never_overwritten(home: Home) -> None:
    path = home.put(home.where.credentials, f'{{"openai": "{SECRET}')
    with pytest.raises(ConfigurationError) as raised:
        store_credential(home.where, "anthropic", ApiKey("x"))
    assert SECRET not in str(raised.value)
    assert SECRET in path.read_text()


def test_secrets_do_not_show_in_any_text(home: Home) -> None:
    home.put(home.where.credentials, {"openai": {"type": "api_key", "key": SECRET, "env": {"A": SECRET}}})
    found = read_credentials(home.where)
    keys = KeyRing(found, {}, variables=VARIABLES)
    answer = keys.ask("openai")
    assert answer.key == SECRET
    for value in (found, found.entries, answer, answer.found, keys, keys.findings(("openai",)), Secret(SECRET)):
        assert SECRET not in repr(value)
        assert SECRET not in str(value)


@pytest.mark.parametrize("key", ["sk-1\r\n", " sk-1 ", "sk-1\n"])
def test_white_space_around_a_key_is_the_files(home: Home, key: str) -> None:
    assert ring(home, {"OPENAI_API_KEY": key}).key("openai") == "sk-1"


@pytest.mark.parametrize("key", ["sk 1", "sk-1\nsk-2", "钥匙", "sk\x7f", " \n"])
def test_a_key_that_cannot_be_sent_is_told_and_not_shown(home: Home, key: str) -> None:
    answer = ring(home, {"OPENAI_API_KEY": key}).ask("openai")
    assert isinstance(answer.found, Unresolved)
    assert "variable OPENAI_API_KEY" in answer.found.reason
    assert "sk" not in answer.found.reason.replace("asks", "")

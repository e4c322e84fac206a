"""Settings: each wrong value costs one line, layers count in order, a file is changed key by key."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.resources.homes import Home

from antiphon.errors import ConfigurationError
from antiphon.resources.settings import Settings
from antiphon.resources.settings_keys import keys, schema, table
from antiphon.resources.settings_layers import edited_names, project_session_dir, read_layers
from antiphon.resources.settings_writing import change_settings


def messages(home: Home, trusted: bool = True) -> list[str]:
    return [found.message for found in read_layers(home.where, trusted=trusted).diagnostics]


def test_defaults_hold_without_any_file(home: Home) -> None:
    found = read_layers(home.where, trusted=True)
    assert found.settings == Settings()
    assert found.diagnostics == ()
    assert {setting.layer for setting in found.by_key.values()} == {"default"}


def test_the_project_goes_over_the_global_file_and_the_command_line_over_both(home: Home) -> None:
    home.put(home.where.global_settings, {"retry": {"maxRetries": 5, "baseDelayMs": 10}, "shellPath": "sh"})
    home.put(home.where.project_settings, {"retry": {"maxRetries": 7}, "sessionDir": "logs"})
    found = read_layers(home.where, trusted=True, overrides={"retry.enabled": False})
    assert (found.settings.retry.max_retries, found.settings.retry.base_delay_ms) == (7, 10)
    assert found.settings.retry.enabled is False
    assert found.by_key["retry.maxRetries"].layer == "project"
    assert found.by_key["retry.baseDelayMs"].layer == "global"
    assert found.by_key["retry.enabled"].layer == "command line"
    assert found.settings.session_dir == str(home.project / "logs")
    assert found.settings.shell_path == str(home.agent / "sh")


def test_an_untrusted_project_has_no_say(home: Home) -> None:
    home.put(home.where.project_settings, {"retry": {"maxRetries": 7}, "sessionDir": "~/logs"})
    assert read_layers(home.where, trusted=False).settings == Settings()
    assert project_session_dir(home.where) == str(home.root / "logs")


WRONG: list[tuple[Any, str, str]] = [
    ({"retry": {"maxRetries": "many"}}, "retry.maxRetries", "a whole number from 0 on"),
    ({"retry": {"maxRetries": -1}}, "retry.maxRetries", "a whole number from 0 on"),
    ({"retry": {"maxRetries": 1.5}}, "retry.maxRetries", "a whole number from 0 on"),
    ({"retry": {"maxRetries": True}}, "retry.maxRetries", "a whole number from 0 on"),
    ({"retry": 3}, "retry", "an object"),
    ({"steeringMode": "bogus"}, "steeringMode", '"all" or "one-at-a-time"'),
    ({"compaction": {"reserveTokens": "lots"}}, "compaction.reserveTokens", "a whole number from 0 on"),
    ({"compaction": {"modelOverrides": {"a/b": {"reserveTokens": "x"}}}}, "compaction.modelOverrides", "an object"),
    ({"defaultThinkingLevel": "hard"}, "defaultThinkingLevel", 'one of "off", "minimal"'),
    ({"defaultTools": "read"}, "defaultTools", "a list, each a text"),
    ({"images": {"autoResize": "yes"}}, "images.autoResize", "true or false"),
    ({"httpIdleTimeoutMs": "never"}, "httpIdleTimeoutMs", '"disabled"'),
    ({"sessionDir": None}, "sessionDir", "a text"),
]


@pytest.mark.parametrize(("content", "path", "kind"), WRONG)
def test_a_wrong_value_costs_one_line_with_file_key_and_type(home: Home, content: Any, path: str, kind: str) -> None:
    file = home.put(home.where.global_settings, content)
    (message,) = messages(home)
    assert message.startswith(f"{file}: {path} must be ")
    assert kind in message
    assert "ignored" in message
    assert read_layers(home.where, trusted=True).settings == Settings()


def test_a_wrong_value_does_not_take_its_neighbours_along(home: Home) -> None:
    home.put(home.where.global_settings, {"retry": {"maxRetries": "many", "baseDelayMs": 5.0}, "transport": "sse"})
    found = read_layers(home.where, trusted=True)
    assert (found.settings.retry.base_delay_ms, found.settings.transport) == (5, "sse")
    assert len(found.diagnostics) == 1


@pytest.mark.parametrize("content", ["{", "[1]", '"x"', "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")])
def test_a_broken_file_is_an_empty_layer(home: Home, content: str) -> None:
    home.put(home.where.global_settings, content)
    (message,) = messages(home)
    assert str(home.where.global_settings) in message
    assert "ignored" in message


def test_a_file_that_nobody_may_read_says_so(home: Home) -> None:
    home.where.global_settings.mkdir()
    (message,) = messages(home)
    assert "cannot be read" in message


def test_a_byte_order_mark_is_not_content(home: Home) -> None:
    home.where.global_settings.write_bytes(b'\xef\xbb\xbf{"transport": "sse"}')
    assert read_layers(home.where, trusted=True).settings.transport == "sse"


def test_old_names_still_count(home: Home) -> None:
    home.put(
        home.where.global_settings,
        {
            "queueMode": "all",
            "websockets": False,
            "skills": {"enableSkillCommands": False, "customDirectories": ["x"]},
            "retry": {"maxDelayMs": 9},
        },
    )
    found = read_layers(home.where, trusted=True)
    assert found.diagnostics == ()
    assert found.settings.steering_mode == "all"
    assert found.settings.transport == "sse"
    assert found.settings.enable_skill_commands is False
    assert found.settings.skills == ("x",)
    assert found.settings.retry.provider.max_retry_delay_ms == 9


def test_unknown_keys_are_kept_and_do_nothing(home: Home) -> None:
    home.put(home.where.global_settings, {"terminal": {"x": 1}, "nonsense": 2})
    found = read_layers(home.where, trusted=True)
    assert found.diagnostics == ()
    assert found.layers[0].unknown == ("terminal", "nonsense")


def test_some_keys_count_globally_only(home: Home) -> None:
    home.put(home.where.project_settings, {"defaultProjectTrust": "always"})
    (message,) = messages(home)
    assert "global settings only" in message


def test_resource_lists_of_both_files_count_the_projects_first(home: Home) -> None:
    home.put(home.where.global_settings, {"skills": ["a"], "enabledModels": ["m"]})
    home.put(home.where.project_settings, {"skills": ["b"], "enabledModels": ["n"]})
    found = read_layers(home.where, trusted=True)
    assert found.settings.skills == ("b", "a")
    assert found.settings.enabled_models == ("n",)
    assert [(entry, layer.name) for entry, layer in found.resource_entries("skills")] == [
        ("b", "project"),
        ("a", "global"),
    ]


@pytest.mark.parametrize(
    ("inherited", "names", "result"),
    [
        (("read", "bash"), ("+grep", "-bash"), ("read", "grep")),
        (("read", "bash"), ("ls",), ("ls",)),
        (("read", "bash"), ("ls", "+find", "-ls"), ("find",)),
        (("read", "bash"), (), ()),
        (("read",), ("+read", "+read"), ("read",)),
    ],
)
def test_lists_of_tools(inherited: tuple[str, ...], names: tuple[str, ...], result: tuple[str, ...]) -> None:
    assert edited_names(inherited, names) == result


def test_edits_of_tools_add_up_over_files(home: Home) -> None:
    home.put(home.where.global_settings, {"defaultTools": ["+grep"]})
    home.put(home.where.project_settings, {"defaultTools": ["-bash"]})
    assert read_layers(home.where, trusted=True).settings.default_tools == ("+grep", "-bash")
    home.put(home.where.global_settings, {"defaultTools": ["read", "bash"]})
    assert read_layers(home.where, trusted=True).settings.default_tools == ("read",)


def test_changing_a_key_leaves_the_rest_of_the_file(home: Home) -> None:
    path = home.put(home.where.global_settings, {"nonsense": [1], "retry": {"enabled": False}})
    os.chmod(path, 0o640)
    change_settings(path, {"retry.maxRetries": 9, "defaultModel": "m"})
    assert json.loads(path.read_text()) == {
        "nonsense": [1],
        "retry": {"enabled": False, "maxRetries": 9},
        "defaultModel": "m",
    }
    assert path.stat().st_mode & 0o777 == 0o640
    change_settings(path, {"defaultModel": UNSET})
    assert "defaultModel" not in json.loads(path.read_text())


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"retry.maxRetries": "x"}, "a whole number"), ({"bogus": 1}, "no setting 'bogus'")],
)
def test_a_change_that_makes_no_sense_is_refused(home: Home, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        change_settings(home.where.global_settings, changes)
    assert not home.where.global_settings.exists()


def test_a_broken_file_is_never_written(home: Home) -> None:
    path = home.put(home.where.global_settings, "{")
    with pytest.raises(ConfigurationError, match="repair it"):
        change_settings(path, {"transport": "sse"})
    assert path.read_text() == "{"


def test_two_writers_lose_nothing(home: Home) -> None:
    path = home.where.global_settings
    names = [f"provider/m{number}" for number in range(20)]

    def write(name: str) -> None:
        change_settings(path, {f"compaction.modelOverrides.{name}": {"reserveTokens": 1}})

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(json.loads(path.read_text())["compaction"]["modelOverrides"]) == set(names)
    assert [entry.name for entry in home.agent.iterdir() if "lock" not in entry.name] == ["settings.json"]


def test_a_link_stays_a_link(home: Home) -> None:
    real = home.put(home.root / "dotfiles" / "settings.json", {})
    home.where.global_settings.symlink_to(real)
    change_settings(home.where.global_settings, {"transport": "sse"})
    assert home.where.global_settings.is_symlink()
    assert json.loads(real.read_text()) == {"transport": "sse"}


def test_every_key_is_explained_and_in_the_schema() -> None:
    assert all(key.about for key in keys().values()), [key.path for key in keys().values() if not key.about]
    assert all(key.kind != "any value" for key in keys().values() if key.path != "packages")
    page = table()
    assert all(f"`{path}`" in page for path in keys())
    made = schema()
    assert "defaultModel" in made["properties"]
    msgspec.json.encode(made)

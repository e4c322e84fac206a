"""Trust: what needs it, who decides, and that a change of executable files is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.resources.homes import Home

from antiphon.errors import ConfigurationError
from antiphon.resources.paths import Places
from antiphon.resources.settings_layers import read_layers
from antiphon.resources.trust import (
    TrustDecision,
    apply_answer,
    decide,
    protected_in,
    read_trust,
    save_decision,
    skip_notice,
)


def decision(home: Home, flag: bool | None = None, where: Places | None = None) -> TrustDecision:
    place = where or home.where
    return decide(place, read_layers(place, trusted=False), read_trust(place.trust), flag)


def test_a_folder_with_nothing_to_protect_is_trusted(home: Home) -> None:
    home.put("AGENTS.md", "hello")
    home.project.mkdir()
    assert decision(home).trusted
    assert not decision(home).open


@pytest.mark.parametrize(
    "name", ["settings.json", "mcp.json", "SYSTEM.md", "APPEND_SYSTEM.md", "extensions/x.py", "skills/a/SKILL.md"]
)
def test_what_needs_trust(home: Home, name: str) -> None:
    home.put(home.project / name, "{}")
    found = decision(home)
    assert (found.trusted, found.open) == (False, True)
    assert found.skipped == (str(home.project / name.split("/")[0]),)


def test_shared_skills_of_parents_count_up_to_the_repository(home: Home) -> None:
    home.skill(home.root / ".agents" / "skills", "mine")
    home.skill(home.root / "work" / ".agents" / "skills", "outside")
    assert protected_in(home.where) == ()
    home.skill(home.cwd / ".agents" / "skills", "inside")
    below = home.cwd / "a" / "b"
    below.mkdir(parents=True)
    assert protected_in(Places(below, home.agent, home.root)) == (str(home.cwd / ".agents" / "skills"),)


def test_a_stray_folder_high_up_protects_nothing(tmp_path: Path) -> None:
    """Outside of any repository only the folder itself is looked at; inside the home folder up to it."""
    (tmp_path / ".agents" / "skills").mkdir(parents=True)
    cwd = tmp_path / "a" / "b"
    cwd.mkdir(parents=True)
    home = tmp_path / "elsewhere"
    assert protected_in(Places(cwd, home / "agent", home)) == ()
    inside = home / "x" / "y"
    inside.mkdir(parents=True)
    (home / "x" / ".agents" / "skills").mkdir(parents=True)
    assert len(protected_in(Places(inside, home / "agent", home))) == 1


def test_the_home_folder_is_ones_own(home: Home) -> None:
    home.put(home.root / ".antiphon" / "settings.json", "{}")
    assert decision(home, where=Places(home.root, home.agent, home.root)).trusted


def test_the_command_line_decides_first(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    save_decision(home.where, False)
    assert decision(home, True).trusted
    save_decision(home.where, True)
    assert not decision(home, False).trusted


def test_the_nearest_saved_decision_counts(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    assert save_decision(home.where, True, parent=True) == str(home.cwd.parent)
    assert decision(home).trusted
    save_decision(home.where, False)
    assert not decision(home).trusted
    assert not decision(home).open
    save_decision(home.where, None)
    assert decision(home).trusted


@pytest.mark.parametrize(("value", "trusted", "open_"), [("always", True, False), ("never", False, False)])
def test_a_setting_decides_when_nobody_else_did(home: Home, value: str, trusted: bool, open_: bool) -> None:
    home.put(home.where.project_settings, "{}")
    home.put(home.where.global_settings, {"defaultProjectTrust": value})
    assert (decision(home).trusted, decision(home).open) == (trusted, open_)


def test_a_change_of_executable_files_is_asked_about_again(home: Home) -> None:
    home.put(home.project / "extensions" / "x.py", "a = 1")
    save_decision(home.where, True)
    assert decision(home).trusted
    home.put("README.md", "unrelated")
    assert decision(home).trusted
    home.put(home.project / "extensions" / "y.py", "evil()")
    found = decision(home)
    assert (found.trusted, found.open) == (False, True)
    assert "changed" in found.reason
    home.put(home.where.global_settings, {"trustContent": False})
    assert decision(home).trusted


def test_plain_decisions_of_other_programs_are_understood(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    home.put(home.where.trust, {str(home.cwd): True, "/elsewhere": False, "/odd": "yes"})
    assert decision(home).trusted
    save_decision(home.where, False)
    kept = json.loads(home.where.trust.read_text())
    assert kept == {str(home.cwd): False, "/elsewhere": False, "/odd": "yes"}


def test_a_link_to_a_project_is_the_project(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    save_decision(home.where, True)
    link = home.root / "link"
    link.symlink_to(home.cwd)
    assert decision(home, where=Places(link, home.agent, home.root)).trusted


def test_a_broken_file_decides_nothing_and_is_not_overwritten(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    home.put(home.where.trust, "{broken")
    assert not decision(home).trusted
    assert read_trust(home.where.trust).fault
    with pytest.raises(ConfigurationError, match="repair or remove"):
        save_decision(home.where, True)
    assert home.where.trust.read_text() == "{broken"


def test_answers_of_a_person(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    assert apply_answer(home.where, "trust once")
    assert not home.where.trust.exists()
    assert not apply_answer(home.where, "refuse once")
    assert apply_answer(home.where, "trust")
    assert decision(home).trusted
    assert not apply_answer(home.where, "refuse")
    assert not decision(home).trusted


def test_what_is_skipped_is_named_in_one_line_with_the_way_out(home: Home) -> None:
    home.put(home.where.project_settings, "{}")
    notice = skip_notice(decision(home), home.where)
    assert notice is not None
    assert "\n" not in notice
    assert ".antiphon/settings.json" in notice
    assert "--approve" in notice
    assert skip_notice(decision(home, True), home.where) is None

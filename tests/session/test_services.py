"""What files of a folder become for a conversation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.resources.loading import Wishes
from antiphon.session.services import NEVER_MS, load_services


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "agent").mkdir()
    (tmp_path / "work").mkdir()
    return {"HOME": str(tmp_path), "ANTIPHON_AGENT_DIR": str(tmp_path / "agent"), "OPENAI_API_KEY": "k"}


def test_settings_reach_the_session(tmp_path: Path, environ: dict[str, str]) -> None:
    given = {
        "retry": {"maxRetries": 9, "baseDelayMs": 1.5, "provider": {"timeoutMs": 5, "maxRetryDelayMs": 7}},
        "compaction": {"reserveTokens": 1, "modelOverrides": {"a/b": {"keepRecentTokens": 2}}},
        "thinkingBudgets": {"low": 100},
        "httpIdleTimeoutMs": "disabled",
        "steeringMode": "all",
        "modelThinkingLevels": {"a/b": "high"},
        "defaultTools": ["+grep"],
        "shellPath": "/bin/sh",
        "images": {"autoResize": False},
    }
    (tmp_path / "agent" / "settings.json").write_text(json.dumps(given))
    found = load_services(tmp_path / "work", environ).services
    settings = found.settings
    assert (settings.retry.max_retries, settings.retry.base_delay_ms) == (9, 2)
    assert settings.compaction.reserve_tokens == 1
    assert settings.compaction_overrides["a/b"].keep_recent_tokens == 2
    assert settings.compaction_overrides["a/b"].reserve_tokens is None
    assert (settings.steering_mode, settings.default_tools, settings.shell_path) == ("all", ("+grep",), "/bin/sh")
    assert settings.model_thinking_levels == {"a/b": "high"}
    assert settings.auto_resize_images is False
    assert settings.request_options == {
        "max_retries": 0,
        "max_retry_delay_ms": 7,
        "silence_ms": NEVER_MS,
        "timeout_ms": 5,
        "thinking_budgets": {"low": 100},
    }
    assert found.diagnostics == ()
    assert found.default_model is not None


def test_texts_reach_the_session(tmp_path: Path, environ: dict[str, str]) -> None:
    work = tmp_path / "work"
    (work / "AGENTS.md").write_text("be kind")
    (tmp_path / "agent" / "SYSTEM.md").write_text("base")
    (tmp_path / "agent" / "skills" / "pdf").mkdir(parents=True)
    (tmp_path / "agent" / "skills" / "pdf" / "SKILL.md").write_text("---\ndescription: d\n---\nDo.")
    (tmp_path / "agent" / "prompts").mkdir()
    (tmp_path / "agent" / "prompts" / "fix.md").write_text("Fix $1")
    resources = load_services(work, environ, wishes=Wishes(append_system_prompt=["more"])).services.resources
    assert (resources.base_prompt, resources.addenda) == ("base", ("more",))
    assert [file.text for file in resources.context_files] == ["be kind"]
    assert [(skill.name, skill.hidden) for skill in resources.skills] == [("pdf", False)]
    assert [template.name for template in resources.templates] == ["fix"]
    assert resources.expand_template("fix", "it") == "Fix it"
    assert resources.expand_skill("pdf", "") is not None


def test_what_is_wrong_is_told_and_nothing_is_raised(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "agent" / "settings.json").write_text('{"retry": {"maxRetries": "x"}}')
    (tmp_path / "agent" / "models.json").write_text("{")
    found = load_services(tmp_path / "work", environ).services
    assert [each.type for each in found.diagnostics] == ["warning", "warning"]


def test_persisting_writes_the_global_settings(tmp_path: Path, environ: dict[str, str]) -> None:
    services = load_services(tmp_path / "work", environ).services
    assert services.persist is not None
    services.persist("steeringMode", "all")
    assert json.loads((tmp_path / "agent" / "settings.json").read_text()) == {"steeringMode": "all"}


def test_a_long_cache_on_request(tmp_path: Path, environ: dict[str, str]) -> None:
    found = load_services(tmp_path / "work", {**environ, "PI_CACHE_RETENTION": "long"}).services
    assert found.settings.request_options["cache_retention"] == "long"

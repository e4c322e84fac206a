"""What the files of a folder offer a conversation: settings, texts, models. For hosts that want what the command has.

    services = load_services(cwd)
    created = create_agent_session(services.services, log)

Nothing is printed and nothing raised for bad files: `diagnostics` says what a person should know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from msgspec import UNSET, Struct

from antiphon.resources.discovery import Ignores, nothing_ignored
from antiphon.resources.loading import LoadedResources, Wishes, load_resources
from antiphon.resources.paths import Places, places
from antiphon.resources.settings import Settings
from antiphon.resources.settings_writing import change_settings
from antiphon.resources.trust import TrustDecision
from antiphon.session.create import Diagnostic, Services
from antiphon.session.model_access import FileModels, load_models
from antiphon.session.ports import ContextFile, Resources, SkillInfo, TemplateInfo
from antiphon.session.retry import RetrySettings
from antiphon.session.settings import CompactionOverride, SessionSettings
from antiphon.session_log.compaction import CompactionSettings
from antiphon.tools.port import Files, Processes, Workspace
from antiphon.tools.spill_files import SpillFiles

NEVER_MS = 10**9
"""So long may a stream be silent if the settings say that it may be silent for ever (eleven days)."""


@final
class LoadedServices(Struct, frozen=True):
    """`services` for a session; `loaded` and `models`: where they came from, for those who explain or list them."""

    services: Services
    loaded: LoadedResources
    models: FileModels


def load_services(
    cwd: Path | str,
    environ: Mapping[str, str] | None = None,
    *,
    wishes: Wishes | None = None,
    ignored: Ignores = nothing_ignored,
    trust: TrustDecision | None = None,
    models: FileModels | None = None,
    processes: Processes | None = None,
    files: Files | None = None,
    spills: SpillFiles | None = None,
    environment: Callable[[], Mapping[str, str | None]] = dict,
) -> LoadedServices:
    """Read everything for work in a folder. A project that nobody trusts has no say; see `resources/trust`.

    `models`: those read before; `processes`: what runs commands (default: plain children of this process); `files`:
    what tools read and change (default: whatever this process may); `spills`: where output goes that is too long to
    show; `environment`: further variables of commands.
    """
    environ = os.environ if environ is None else environ
    where = places(cwd, environ)
    loaded = load_resources(where, wishes or Wishes(), ignored=ignored, trust=trust)
    models = load_models(where, environ) if models is None else models
    found = (*loaded.diagnostics, *models.diagnostics)
    services = Services(
        cwd=str(where.cwd),
        models=models,
        settings=session_settings(loaded.settings.settings, environ),
        resources=session_resources(loaded),
        workspace=_workspace(where, processes, files, spills),
        environment=environment,
        persist=_persist(where),
        default_model=models.default_model(),
        diagnostics=tuple(Diagnostic(each.type, each.message) for each in found),
    )
    return LoadedServices(services, loaded, models)


def _workspace(where: Places, processes: Processes | None, files: Files | None, spills: SpillFiles | None) -> Workspace:
    from antiphon.tools.workspace import LocalWorkspace

    return LocalWorkspace(where.cwd, processes=processes, files=files, spills=spills)


def _persist(where: Places) -> Callable[[str, Any], None]:
    def persist(key: str, value: Any) -> None:
        change_settings(where.global_settings, {key: value})

    return persist


def session_settings(settings: Settings, environ: Mapping[str, str]) -> SessionSettings:
    """The settings of a conversation from those of the files. Pure."""
    retry, compaction = settings.retry, settings.compaction
    return SessionSettings(
        retry=RetrySettings(
            enabled=retry.enabled,
            max_retries=retry.max_retries,
            base_delay_ms=round(retry.base_delay_ms),
            max_delay_ms=round(retry.max_agent_delay_ms),
        ),
        compaction=CompactionSettings(
            enabled=compaction.enabled,
            reserve_tokens=compaction.reserve_tokens,
            keep_recent_tokens=compaction.keep_recent_tokens,
        ),
        compaction_overrides={
            name: CompactionOverride(
                reserve_tokens=_or_none(other.reserve_tokens),
                keep_recent_tokens=_or_none(other.keep_recent_tokens),
            )
            for name, other in compaction.model_overrides.items()
        },
        branch_reserve_tokens=settings.branch_summary.reserve_tokens,
        steering_mode=settings.steering_mode,
        follow_up_mode=settings.follow_up_mode,
        default_thinking_level=settings.default_thinking_level,
        model_thinking_levels=settings.model_thinking_levels,
        default_tools=_or_none(settings.default_tools),
        shell_path=_or_none(settings.shell_path),
        shell_command_prefix=_or_none(settings.shell_command_prefix),
        auto_resize_images=settings.images.auto_resize,
        block_images=settings.images.block_images,
        request_options=request_options(settings, environ),
    )


def request_options(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    """What goes to the provider with each request."""
    provider, idle = settings.retry.provider, settings.http_idle_timeout_ms
    out: dict[str, Any] = {
        "max_retries": provider.max_retries,
        "max_retry_delay_ms": provider.max_retry_delay_ms,
        "silence_ms": NEVER_MS if idle == "disabled" else idle,
    }
    if provider.timeout_ms is not UNSET:
        out["timeout_ms"] = provider.timeout_ms
    names = ("minimal", "low", "medium", "high")
    budgets = {name: getattr(settings.thinking_budgets, name) for name in names}
    given = {name: tokens for name, tokens in budgets.items() if tokens is not UNSET}
    if given:
        out["thinking_budgets"] = given
    if (environ.get("ANTIPHON_CACHE_RETENTION") or environ.get("PI_CACHE_RETENTION")) == "long":
        out["cache_retention"] = "long"
    return out


def session_resources(loaded: LoadedResources) -> Resources:
    """The texts of a conversation from those of the files. Pure."""
    return Resources(
        base_prompt=loaded.base_prompt,
        addenda=loaded.addenda,
        context_files=tuple(ContextFile(file.path, file.text) for file in loaded.context_files),
        skills=tuple(
            SkillInfo(
                name=found.skill.name,
                description=found.skill.description,
                location=found.skill.location,
                hidden=found.skill.hidden,
            )
            for found in loaded.skills
        ),
        templates=tuple(
            TemplateInfo(
                name=found.name,
                description=found.template.description,
                argument_hint=found.template.argument_hint,
            )
            for found in loaded.templates
        ),
        expand_skill=loaded.expand_skill,
        expand_template=loaded.expand_template,
    )


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value

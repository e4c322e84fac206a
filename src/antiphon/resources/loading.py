"""Everything that people have written down for work in one folder: settings, trust, texts, skills, extensions.

One call reads it all and gives a value; nothing is raised, everything has a reason. Reading it again is reloading.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from antiphon.resources.context_files import ContextFile, ContextFiles, read_context_files
from antiphon.resources.diagnostics import Diagnostic, Finding, SourceInfo, warning
from antiphon.resources.discovery import Candidate, Ignores, Names, Wish, candidates, nothing_ignored
from antiphon.resources.front_matter import BadFrontMatter
from antiphon.resources.paths import Places
from antiphon.resources.prompt_texts import PromptTexts, text_of
from antiphon.resources.settings_layers import Resolved, read_layers
from antiphon.resources.skills import PAGE, NoSkill, Skill, called, read_skill
from antiphon.resources.stored import read_bytes
from antiphon.resources.templates import Template, read_template
from antiphon.resources.trust import TrustDecision, decide, read_trust


class Wishes(Struct, frozen=True, kw_only=True):
    """What the command line, or a program, asks for. A text that names an existing file stands for its content."""

    approve: bool | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    system_prompt: str | None = None
    append_system_prompt: Sequence[str] = ()
    context_files: bool = True
    skills: Sequence[str] = ()
    no_skills: bool = False
    templates: Sequence[str] = ()
    no_templates: bool = False
    extensions: Sequence[str] = ()
    no_extensions: bool = False


class NamedTemplate(Struct, frozen=True):
    name: str
    template: Template
    source: SourceInfo


class FoundSkill(Struct, frozen=True):
    skill: Skill
    source: SourceInfo


class FoundExtension(Struct, frozen=True):
    """A module that an extension loader may load."""

    path: Path
    source: SourceInfo


class LoadedResources(Struct, frozen=True):
    """The result. `findings`: every resource that was looked at, and why it counts or not."""

    where: Places
    settings: Resolved
    trust: TrustDecision
    base_prompt: str | None
    addenda: tuple[str, ...]
    context_files: tuple[ContextFile, ...]
    skills: tuple[FoundSkill, ...]
    templates: tuple[NamedTemplate, ...]
    extensions: tuple[FoundExtension, ...]
    findings: tuple[Finding, ...]
    diagnostics: tuple[Diagnostic, ...]

    def expand_skill(self, name: str, arguments: str) -> str | None:
        """The words that `/skill:NAME` stands for; nothing if there is no such skill or its page is gone."""
        found = next((found.skill for found in self.skills if found.skill.name == name), None)
        text = None if found is None else text_of(Path(found.location))
        return None if found is None or text is None else called(found, text, arguments)

    def expand_template(self, name: str, arguments: str) -> str | None:
        """The words that `/NAME` stands for; nothing if there is no such template."""
        found = next((found for found in self.templates if found.name == name), None)
        return None if found is None else found.template.expand(arguments)


def load_resources(
    where: Places, wishes: Wishes, *, ignored: Ignores = nothing_ignored, trust: TrustDecision | None = None
) -> LoadedResources:
    """Read everything. `trust`: a decision that was made already, instead of asking the files."""
    own = read_layers(where, trusted=False)
    saved = read_trust(where.trust)
    decision = trust or decide(where, own, saved, wishes.approve)
    settings = read_layers(where, trusted=decision.trusted, overrides=wishes.overrides)
    diagnostics = list(settings.diagnostics)
    if saved.fault is not None:
        diagnostics.append(warning(saved.fault))
    prompts = PromptTexts(where, decision.trusted)
    context = read_context_files(where) if wishes.context_files else ContextFiles()
    skills = Names("skill")
    templates = Names("template")
    extensions = Names("extension")
    result = LoadedResources(
        where=where,
        settings=settings,
        trust=decision,
        base_prompt=prompts.base(wishes.system_prompt),
        addenda=prompts.addenda(wishes.append_system_prompt),
        context_files=context.files,
        skills=tuple(_skills(wishes, where, settings, decision.trusted, ignored, skills)),
        templates=tuple(_templates(wishes, where, settings, decision.trusted, ignored, templates)),
        extensions=tuple(_extensions(wishes, where, settings, decision.trusted, ignored, extensions)),
        findings=(),
        diagnostics=(),
    )
    parts = (skills, templates, extensions)
    findings = [_trust_finding(decision, where), *prompts.findings, *context.findings]
    diagnostics += prompts.diagnostics
    diagnostics += context.diagnostics
    return replace(
        result,
        findings=(*settings.findings(), *findings, *(finding for part in parts for finding in part.findings)),
        diagnostics=(*diagnostics, *(found for part in parts for found in part.diagnostics)),
    )


def _trust_finding(decision: TrustDecision, where: Places) -> Finding:
    return Finding(
        kind="trust",
        name="project",
        state="used" if decision.trusted else "refused",
        reason=decision.reason,
        path=str(where.cwd),
    )


def _read(names: Names, name: str, candidate: Candidate) -> str | None:
    """The text of a candidate that may count; otherwise nothing, and the reason is noted."""
    if candidate.off is not None:
        missing = candidate.off == "there is no such file"
        if missing:
            names.refuse(name, candidate, candidate.off)
        else:
            names.note(name, candidate, "off", candidate.off)
        return None
    try:
        return read_bytes(candidate.path).decode("utf-8", "replace")
    except OSError as error:
        names.refuse(name, candidate, f"it cannot be read: {error.strerror or error}")
        return None


def _skills(
    wishes: Wishes, where: Places, settings: Resolved, trusted: bool, ignored: Ignores, names: Names
) -> list[FoundSkill]:
    out: list[FoundSkill] = []
    wish = Wish("skill", wishes.skills, wishes.no_skills, trusted)
    for candidate in candidates(wish, where, settings, ignored):
        own = candidate.path.parent.name if candidate.path.name == PAGE else candidate.path.stem
        text = _read(names, own, candidate)
        if text is None:
            continue
        try:
            skill = read_skill(candidate.path, text)
        except NoSkill as error:
            plain = candidate.path.name != PAGE and candidate.source.source == "auto"  # a note beside skills
            names.refuse(own, candidate, str(error), silent=plain)
            continue
        if names.admit(skill.name, candidate):
            names.diagnostics += [warning(text) for text in skill.warnings]
            out.append(FoundSkill(skill, candidate.source))
    return out


def _templates(
    wishes: Wishes, where: Places, settings: Resolved, trusted: bool, ignored: Ignores, names: Names
) -> list[NamedTemplate]:
    out: list[NamedTemplate] = []
    wish = Wish("template", wishes.templates, wishes.no_templates, trusted)
    for candidate in candidates(wish, where, settings, ignored):
        name = candidate.path.stem
        text = _read(names, name, candidate)
        if text is None:
            continue
        try:
            template = read_template(text)
        except BadFrontMatter as error:
            names.refuse(name, candidate, f"its head cannot be read: {error}")
            continue
        if names.admit(name, candidate):
            out.append(NamedTemplate(name, template, candidate.source))
    return out


def _extensions(
    wishes: Wishes, where: Places, settings: Resolved, trusted: bool, ignored: Ignores, names: Names
) -> list[FoundExtension]:
    out: list[FoundExtension] = []
    given = [entry for entry in wishes.extensions if not entry.startswith(("builtin:", "dist:"))]
    wish = Wish("extension", given, wishes.no_extensions, trusted)
    for candidate in candidates(wish, where, settings, ignored):
        path = candidate.path
        name = path.parent.name if path.name == "__init__.py" else path.stem
        if candidate.off is not None:
            _read(names, name, candidate)
        elif _writable_by_others(path):
            names.refuse(name, candidate, f"others may write to it; do: chmod go-w {path}")
        elif names.admit(name, candidate):
            out.append(FoundExtension(path, candidate.source))
    return out


def _writable_by_others(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH)

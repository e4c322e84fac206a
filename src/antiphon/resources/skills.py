"""Skills: a page that tells an agent how to do something, read when it is needed. Source: resources specification 5."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from antiphon.resources.front_matter import BadFrontMatter, split_page

PAGE = "SKILL.md"
MAX_NAME = 64
MAX_DESCRIPTION = 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


class Skill(Struct, frozen=True):
    """What is known of a skill before its page is read. `hidden`: people may call it, models are not told of it."""

    name: str
    description: str
    location: str
    hidden: bool = False
    allowed_tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @property
    def folder(self) -> str:
        return os.path.dirname(self.location)


class NoSkill(ValueError):
    """A page that is no skill; the text says why."""


def read_skill(path: Path, text: str) -> Skill:
    """The skill that a page describes.

    Raises:
        NoSkill: no description, or a head that cannot be understood.
    """
    try:
        head = split_page(text).head
    except BadFrontMatter as error:
        raise NoSkill(f"its head cannot be read: {error}") from error
    description = head.get("description")
    if not isinstance(description, str) or not description.strip():
        raise NoSkill("it has no description")
    given = head.get("name")
    own = path.parent.name if path.name == PAGE else path.stem
    name = given if isinstance(given, str) and given else own
    return Skill(
        name=name,
        description=description.strip(),
        location=str(path),
        hidden=head.get("disable-model-invocation") is True,
        allowed_tools=_tools(head.get("allowed-tools")),
        warnings=tuple(_warnings(name, own, description.strip(), path)),
    )


def _tools(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(word for word in re.split(r"[\s,]+", given) if word)
    return tuple(str(item) for item in given) if isinstance(given, list) else ()


def _warnings(name: str, own: str, description: str, path: Path) -> list[str]:
    out: list[str] = []
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        out.append(f"{path}: the name {name[:80]!r} should be at most {MAX_NAME} of a-z, 0-9 and single hyphens inside")
    if path.name == PAGE and name != own:
        out.append(f"{path}: the name {name[:80]!r} should be that of its folder, {own!r}")
    if len(description) > MAX_DESCRIPTION:
        out.append(f"{path}: the description has {len(description)} characters, {MAX_DESCRIPTION} is the most")
    return out


def called(skill: Skill, text: str, arguments: str) -> str:
    """The words that stand for `/skill:NAME arguments`: the page, where it lies, and the arguments behind."""
    body = split_page(text).body.strip()
    block = (
        f'<skill name="{skill.name}" location="{skill.location}">\n'
        f"Paths in this text are relative to {skill.folder}.\n\n{body}\n</skill>"
    )
    return f"{block}\n\n{arguments.strip()}" if arguments.strip() else block

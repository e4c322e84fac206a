"""From templates to the text of a file. One template serves both languages.

A line that begins with `#:en` or `#:zh` belongs to that language only; one blank behind the mark is part of the mark.
`{{name}}` is replaced. Sources of this package become sources of the folder by changing what they import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from antiphon.course.kit.chapters import Chapter, Language

PACKAGE = "antiphon.course"
FOLDER_PACKAGE = "my_agent"

_MARKED = re.compile(r"#:(en|zh)(?: (.*))?")
_NAME = re.compile(r"\{\{(\w+)\}\}")
_OWN_IMPORT = re.compile(rf"\b{re.escape(PACKAGE)}\.(\w+)")


def template(path: str) -> str:
    """A template of this package, as it stands there."""
    return files(PACKAGE).joinpath("chapters", path).read_text("utf-8")


def rendered(text: str, language: Language, names: Mapping[str, str]) -> str:
    """The template in this language, with the names filled in."""
    lines: list[str] = []
    for line in text.split("\n"):
        marked = _MARKED.fullmatch(line)
        if marked is None:
            lines.append(line)
        elif marked[1] == language:
            lines.append(marked[2] or "")
    return _NAME.sub(lambda found: names[found[1]], "\n".join(lines))


def source(module: str, chapter: Chapter) -> str:
    """A module of this package as a file of the folder."""
    names = {origin: name for name, origin in (*chapter.given, (chapter.module, chapter.answer))}
    text = files(PACKAGE).joinpath(f"{module}.py").read_text("utf-8")
    return _OWN_IMPORT.sub(lambda found: f"{FOLDER_PACKAGE}.{names.get(found[1], found[1])}", text)

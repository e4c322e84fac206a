"""The prompt as named sections. Pure: tools, texts and facts of the machine come in as values.

Sections are stored in system messages; a change is a patch that names only what changed, so that what a provider has
cached stays valid. There is no date in the prompt: it would spoil that cache once a day, and a shell knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from msgspec import Struct

from antiphon.core.ports import Tool
from antiphon.session.ports import ContextFile, Resources, SkillInfo

PREAMBLE = (
    "You are a coding agent. You work in the user's folder with the tools you are given: look before you change "
    "something, make the smallest change that does what was asked, check the result, and say in few words what you did."
)
NO_TOOLS = "(none)"
MORE_TOOLS = "There may be further tools besides these; they say themselves what they are for."
SHELL_HINT = "Use the shell to list folders and to search for files and texts (ls, rg, find)."
STYLE = (
    "Answer in few words.",
    "Name files by their paths.",
)
SHELL_TOOLS = frozenset({"bash", "powershell"})
SEARCH_TOOLS = frozenset({"grep", "find", "ls"})


@final
class PromptFacts(Struct, frozen=True):
    """What the prompt is made of. `tools` are those declared to the model; `custom` sections go last.

    `guidelines` are rules besides those of the tools.
    """

    resources: Resources
    tools: tuple[Tool, ...]
    cwd: str
    guidelines: tuple[str, ...] = ()
    custom: tuple[tuple[str, str], ...] = ()


def sections_of(facts: PromptFacts) -> dict[str, str]:
    """The sections in their order; those with nothing to say are left out."""
    texts = facts.resources
    own = texts.base_prompt is None
    made = {
        "tools": _tools(facts.tools) if own else "",
        "rules": _rules(facts) if own else "",
        "docs": (texts.docs or "") if own else "",
        "addendum": "\n\n".join(text for text in texts.addenda if text.strip()),
        "project_context": _context(texts.context_files),
        "skills": _skills(texts.skills, facts.tools),
        "cwd": facts.cwd.replace("\\", "/"),
        **dict(facts.custom),
    }
    out = {"preamble": PREAMBLE if texts.base_prompt is None else texts.base_prompt}
    for name, text in made.items():
        if text:
            out[name] = f"<{name}>\n{text}\n</{name}>"
    return out


def patch(stored: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What has to be said so that the stored sections become the wanted ones; None takes a section away."""
    changed: dict[str, str | None] = {name: None for name in stored if name not in wanted}
    changed.update({name: text for name, text in wanted.items() if stored.get(name) != text})
    return changed


def _tools(tools: Sequence[Tool]) -> str:
    lines = [
        f"- {tool.name}: {snippet}" for tool in tools if (snippet := _one_line(_attribute(tool, "prompt_snippet")))
    ]
    return "\n".join([*(lines or [NO_TOOLS]), "", MORE_TOOLS])


def _rules(facts: PromptFacts) -> str:
    names = {tool.name for tool in facts.tools}
    rules: list[str] = []
    if names & SHELL_TOOLS and not names & SEARCH_TOOLS:
        rules.append(SHELL_HINT)
    for tool in facts.tools:
        rules += [str(text) for text in _attribute(tool, "prompt_guidelines") or ()]
    rules += [*facts.guidelines, *STYLE]
    trimmed = dict.fromkeys(text.strip() for text in rules)
    return "\n".join(f"- {text}" for text in trimmed if text)


def _context(files: Sequence[ContextFile]) -> str:
    return "\n\n".join(f'<file path="{file.path}">\n{file.text.strip()}\n</file>' for file in files)


def _skills(skills: Sequence[SkillInfo], tools: Sequence[Tool]) -> str:
    """The catalogue; nothing if the model cannot read files."""
    shown = [skill for skill in skills if not skill.hidden]
    if not shown or not any(tool.name == "read" or tool.name in SHELL_TOOLS for tool in tools):
        return ""
    head = "Skills are instructions for special work. When one fits, read its file before you begin."
    lines = [f"- {skill.name}: {_one_line(skill.description)} ({skill.location})" for skill in shown]
    return "\n".join([head, *lines])


def _attribute(tool: Tool, name: str) -> Any:
    return getattr(tool, name, None)


def _one_line(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""

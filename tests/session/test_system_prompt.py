"""The prompt as sections: what stands in it, and that a change is a patch."""

from __future__ import annotations

from typing import Any

import pytest
from tests.session.stage import Stage

from antiphon.core.messages import SystemMessage
from antiphon.errors import MisuseError
from antiphon.session.ports import ContextFile, Resources, SkillInfo, TemplateInfo
from antiphon.session.system_prompt import NO_TOOLS, PREAMBLE, SHELL_HINT, PromptFacts, patch, sections_of
from antiphon.testing import CallScript, ScriptedTool, says


def tool(name: str, **words: Any) -> Any:
    made = ScriptedTool(name, CallScript())
    for word, value in words.items():
        setattr(made, word, value)
    return made


ALL = Resources(
    addenda=("one", "two"),
    context_files=(ContextFile("/a/AGENTS.md", "outer\n"), ContextFile("/a/b/AGENTS.md", "inner")),
    skills=(
        SkillInfo(name="tidy", description="tidies\nup", location="/s/tidy/SKILL.md"),
        SkillInfo(name="shy", description="x", location="/s/shy/SKILL.md", hidden=True),
    ),
    templates=(TemplateInfo(name="t"),),
    docs="See /docs.",
)


def test_the_sections_come_in_their_order_each_in_its_tag() -> None:
    made = sections_of(
        PromptFacts(ALL, (tool("read", prompt_snippet="Read  a\nfile"),), "C:\\work", custom=(("x", "y"),))
    )
    assert list(made) == ["preamble", "tools", "rules", "docs", "addendum", "project_context", "skills", "cwd", "x"]
    assert made["preamble"] == PREAMBLE
    assert made["cwd"] == "<cwd>\nC:/work\n</cwd>"
    assert "- read: Read a file" in made["tools"]
    assert made["addendum"] == "<addendum>\none\n\ntwo\n</addendum>"
    assert made["project_context"].index("outer") < made["project_context"].index("inner")
    assert "tidies up" in made["skills"]
    assert "shy" not in made["skills"]


def test_a_prompt_of_ones_own_replaces_what_the_product_says_of_itself() -> None:
    made = sections_of(PromptFacts(Resources(base_prompt="Mine.", docs="x"), (tool("read"),), "/w"))
    assert list(made) == ["preamble", "cwd"]
    assert made["preamble"] == "Mine."


def test_what_has_nothing_to_say_is_left_out() -> None:
    made = sections_of(PromptFacts(Resources(skills=ALL.skills), (), "/w"))
    assert list(made) == ["preamble", "tools", "rules", "cwd"]
    assert NO_TOOLS in made["tools"]


def test_rules_are_trimmed_and_said_once() -> None:
    tools = (tool("bash", prompt_guidelines=("  Be quick. ", "Be kind.")), tool("x", prompt_guidelines=("Be quick.",)))
    rules = sections_of(PromptFacts(Resources(), tools, "/w", guidelines=("Be kind.",)))["rules"]
    assert rules.count("Be quick.") == rules.count("Be kind.") == 1
    assert SHELL_HINT in rules
    assert SHELL_HINT not in sections_of(PromptFacts(Resources(), (tool("bash"), tool("grep")), "/w"))["rules"]


def test_there_is_no_date_in_the_prompt() -> None:
    """It would spoil the provider's cache once a day."""
    import re

    text = "\n".join(sections_of(PromptFacts(ALL, (tool("read"),), "/w")).values())
    assert not re.search(r"\b20[0-9]{2}\b|\bdate\b", text, re.IGNORECASE)


def test_a_patch_names_only_what_changed() -> None:
    assert patch({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == {"b": "3", "c": "4"}
    assert patch({"a": "1", "b": "2"}, {"a": "1"}) == {"b": None}
    assert patch({}, {}) == {}


async def test_the_prompt_is_stored_once_and_later_changes_as_patches() -> None:
    stage = Stage([says("1"), says("2"), says("3")])
    await stage.session.prompt("go")
    await stage.session.prompt("go")
    assert stage.kinds.count("message system") == 1
    stage.session.set_prompt_section("mood", "calm")
    stage.session.refresh_context(Resources(addenda=("be brief",)))
    await stage.session.prompt("go")

    systems = [message for message in stage.session.messages if isinstance(message, SystemMessage)]
    assert systems[1].sections == {
        "addendum": "<addendum>\nbe brief\n</addendum>",
        "mood": "<mood>\ncalm\n</mood>",
    }
    assert stage.session.system_prompt.endswith("<mood>\ncalm\n</mood>")
    stage.session.set_prompt_section("mood", None)


async def test_a_section_needs_a_proper_name() -> None:
    stage = Stage()
    for wrong in ("preamble", "Mood", "", "a b", "1"):
        with pytest.raises(MisuseError):
            stage.session.set_prompt_section(wrong, "x")


async def test_a_resumed_session_is_told_only_what_is_different(tmp_path: Any) -> None:
    stage = Stage([says("1")], folder=tmp_path)
    await stage.session.prompt("go")
    path = stage.log.path
    await stage.session.dispose()
    assert path is not None
    again = Stage([says("2")], folder=tmp_path, log=stage.store.open(path))
    await again.session.prompt("go")
    assert again.kinds.count("message system") == 1
    await again.session.dispose()

"""Everything for one folder: context files, prompts, skills, templates, extensions, and the reasons."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.resources.homes import Home

from antiphon.resources.context_files import read_context_files
from antiphon.resources.loading import LoadedResources, Wishes, load_resources
from antiphon.resources.paths import Places


def load(home: Home, ignored: Any = None, **wishes: Any) -> LoadedResources:
    given = Wishes(**({"approve": True} | wishes))
    return load_resources(home.where, given, **({} if ignored is None else {"ignored": ignored}))


def reasons(loaded: LoadedResources, kind: str) -> dict[str, tuple[str, str]]:
    return {f.path: (f.state, f.reason) for f in loaded.findings if f.kind == kind}


def test_context_files_come_from_ones_own_folder_and_then_from_outside_in(home: Home) -> None:
    home.put(home.agent / "AGENTS.md", "mine")
    home.put(home.root / "work" / "CLAUDE.md", "outer")
    home.put("AGENTS.md", "inner")
    home.put("CLAUDE.md", "lost")
    found = read_context_files(home.where)
    assert [file.text for file in found.files] == ["mine", "outer", "inner"]
    lost = next(f for f in found.findings if f.path == str(home.cwd / "CLAUDE.md"))
    assert lost.state == "shadowed"
    assert "AGENTS.md" in lost.reason


def test_an_override_comes_before_the_usual_file(home: Home) -> None:
    home.put("AGENTS.override.md", "override")
    home.put("AGENTS.md", "usual")
    assert [file.text for file in read_context_files(home.where).files] == ["override"]


def test_one_file_by_two_names_counts_once(home: Home) -> None:
    home.put("AGENTS.md", "x")
    (home.root / "work" / "AGENTS.md").symlink_to(home.cwd / "AGENTS.md")
    assert [file.path for file in read_context_files(home.where).files] == [str(home.root / "work" / "AGENTS.md")]


def test_a_worktree_inside_its_checkout_hides_the_file_of_the_same_name(home: Home) -> None:
    home.put("AGENTS.md", "main")
    tree = home.cwd / "trees" / "feature"
    home.put(tree / ".git", f"gitdir: {home.cwd}/.git/worktrees/feature\n")
    (home.cwd / ".git" / "worktrees" / "feature").mkdir(parents=True)
    place = Places(tree, home.agent, home.root)
    assert [file.text for file in read_context_files(place).files] == ["main"]
    home.put(tree / "AGENTS.md", "feature")
    assert [file.text for file in read_context_files(place).files] == ["feature"]
    home.put("trees/AGENTS.md", "between")
    assert [file.text for file in read_context_files(place).files] == ["between", "feature"]


def test_a_context_file_that_cannot_be_read_is_left_out_and_named(home: Home) -> None:
    path = home.put("AGENTS.md", "x")
    with path.open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    found = read_context_files(home.where)
    assert found.files == ()
    assert str(path) in found.diagnostics[0].message


def test_context_files_need_no_trust_and_can_be_switched_off(home: Home) -> None:
    home.put("AGENTS.md", "x")
    home.put(home.where.project_settings, "{}")
    assert len(load(home, approve=False).context_files) == 1
    assert load(home, context_files=False).context_files == ()


def test_prompts_of_the_project_go_before_ones_own_if_it_is_trusted(home: Home) -> None:
    home.put(home.agent / "SYSTEM.md", "own")
    home.put(home.agent / "APPEND_SYSTEM.md", "own addendum")
    home.put(home.project / "SYSTEM.md", "project")
    loaded = load(home)
    assert (loaded.base_prompt, loaded.addenda) == ("project", ("own addendum",))
    assert load(home, approve=False).base_prompt == "own"


def test_a_prompt_option_is_a_text_or_a_file(home: Home) -> None:
    home.put("prompt.txt", "from the file")
    loaded = load(home, system_prompt="prompt.txt", append_system_prompt=["plain words", "prompt.txt"])
    assert (loaded.base_prompt, loaded.addenda) == ("from the file", ("plain words", "from the file"))
    assert load(home, system_prompt="a\0b").base_prompt == "a\0b"
    assert load(home, system_prompt="").base_prompt == ""
    assert loaded.diagnostics == ()
    mistyped = load(home, system_prompt="promt.txt")
    assert (mistyped.base_prompt, len(mistyped.diagnostics)) == ("promt.txt", 1)
    assert "there is no file promt.txt" in mistyped.diagnostics[0].message


def test_the_first_skill_of_a_name_wins_and_the_loser_is_named(home: Home) -> None:
    own = home.skill(home.agent / "skills", "pdf", "own")
    project = home.skill(home.project / "skills", "pdf", "project")
    shared = home.skill(home.root / ".agents" / "skills", "web", "shared")
    given = home.skill("elsewhere", "given")
    loaded = load(home, skills=["elsewhere/given"])
    assert [found.skill.description for found in loaded.skills] == ["does it", "project", "shared"]
    why = reasons(loaded, "skill")
    assert why[str(given)][0] == why[str(project)][0] == why[str(shared)][0] == "used"
    assert why[str(own)] == ("shadowed", f"{project} has the same name and comes first")
    assert any(str(own) in found.message for found in loaded.diagnostics)
    assert [found.source.source for found in loaded.skills] == ["cli", "auto", "auto"]
    assert [found.source.scope for found in loaded.skills] == ["temporary", "project", "user"]


def test_without_trust_only_own_skills_count(home: Home) -> None:
    home.skill(home.agent / "skills", "own")
    home.skill(home.project / "skills", "theirs")
    assert [found.skill.name for found in load(home, approve=False).skills] == ["own"]
    assert [found.skill.name for found in load(home, no_skills=True).skills] == []


def test_the_same_skill_by_a_link_is_no_collision(home: Home) -> None:
    home.skill(home.agent / "skills", "pdf")
    (home.root / ".agents" / "skills").mkdir(parents=True)
    (home.root / ".agents" / "skills" / "pdf").symlink_to(home.agent / "skills" / "pdf")
    loaded = load(home)
    assert len(loaded.skills) == 1
    assert loaded.diagnostics == ()


def test_where_skills_are_looked_for(home: Home) -> None:
    folder = home.agent / "skills"
    home.skill(folder / "group", "deep")
    home.skill(folder / "deep2", "inner")
    home.put(folder / "deep2" / "SKILL.md", "---\ndescription: outer\n---\n")
    home.put(folder / "plain.md", "---\ndescription: plain page\n---\n")
    home.put(folder / "README.md", "not a skill")
    home.skill(folder / "node_modules", "no")
    home.skill(folder / ".hidden", "no2")
    home.skill(folder / "ignored", "no3")
    home.put(home.root / ".agents" / "skills" / "plain2.md", "---\ndescription: x\n---\n")
    loaded = load(home, ignored=lambda path, is_folder: path.name == "ignored")
    assert sorted(found.skill.name for found in loaded.skills) == ["deep", "deep2", "plain"]
    assert loaded.diagnostics == ()


def test_settings_filter_what_their_layer_brings(home: Home) -> None:
    for name in ("a", "b", "c", "d"):
        home.skill(home.agent / "skills", name)
    home.put(home.where.global_settings, {"skills": ["!skills/*", "+skills/b", "+c", "-c"]})
    loaded = load(home)
    assert [found.skill.name for found in loaded.skills] == ["b"]
    why = {Path(path).parent.name: reason for path, reason in reasons(loaded, "skill").items()}
    assert why["a"] == ("off", "the settings leave it out (!skills/*)")
    assert why["c"] == ("off", "the settings leave it out (-path)")


def test_a_path_that_does_not_exist_is_named(home: Home) -> None:
    home.put(home.where.global_settings, {"skills": ["nowhere"]})
    loaded = load(home, templates=["missing.md"])
    texts = [found.message for found in loaded.diagnostics]
    assert len(texts) == 2
    assert any(str(home.agent / "nowhere") in text for text in texts)


def test_a_broken_skill_is_named_but_not_a_note_beside_skills(home: Home) -> None:
    path = home.put(home.agent / "skills" / "x" / "SKILL.md", "---\ndescription: a: b\n---\n")
    home.put(home.agent / "skills" / "NOTES.md", "words")
    (diagnostic,) = load(home).diagnostics
    assert str(path) in diagnostic.message


def test_templates_are_the_pages_directly_in_the_folder(home: Home) -> None:
    home.put(home.agent / "prompts" / "review.md", "---\ndescription: own\n---\nLook at $1")
    home.put(home.agent / "prompts" / "deep" / "no.md", "x")
    home.put(home.project / "prompts" / "fix.md", "Fix $@")
    loaded = load(home)
    assert [found.name for found in loaded.templates] == ["fix", "review"]
    assert loaded.expand_template("review", "'a b' c") == "Look at a b"
    assert loaded.expand_template("nothing", "") is None


def test_skills_are_read_when_they_are_called(home: Home) -> None:
    path = home.skill(home.agent / "skills", "pdf")
    loaded = load(home)
    path.write_text("---\ndescription: x\n---\nChanged.\n")
    text = loaded.expand_skill("pdf", "page 3")
    assert text is not None
    assert "Changed." in text
    assert text.endswith("page 3")
    path.unlink()
    assert loaded.expand_skill("pdf", "") is None
    assert loaded.expand_skill("none", "") is None


def test_extensions_are_modules_and_packages_that_nobody_else_may_write(home: Home) -> None:
    home.put(home.agent / "extensions" / "gate.py", "")
    home.put(home.agent / "extensions" / "pack" / "__init__.py", "")
    home.put(home.agent / "extensions" / "pack" / "other.py", "")
    home.put(home.agent / "extensions" / "notes.txt", "")
    bad = home.put(home.agent / "extensions" / "bad.py", "")
    os.chmod(bad, 0o666)
    loaded = load(home)
    assert [found.path.name for found in loaded.extensions] == ["gate.py", "__init__.py"]
    assert reasons(loaded, "extension")[str(bad)][0] == "refused"
    given = home.put("one.py", "")
    loaded = load(home, no_extensions=True, extensions=["one.py", "builtin:mcp"])
    assert [found.path for found in loaded.extensions] == [given]


def test_every_setting_and_resource_has_a_reason(home: Home) -> None:
    home.put(home.agent / "AGENTS.md", "x")
    home.put(home.where.global_settings, {"transport": "sse"})
    loaded = load(home)
    assert all(found.reason for found in loaded.findings)
    assert {found.kind for found in loaded.findings} >= {"setting", "trust", "context"}
    transport = next(found for found in loaded.findings if found.name == "transport")
    assert (transport.reason, transport.path) == ('"sse" (global)', str(home.where.global_settings))


def test_nothing_is_made_by_asking(home: Home) -> None:
    before = sorted(home.root.rglob("*"))
    load(home)
    load(home, approve=None)
    assert sorted(home.root.rglob("*")) == before

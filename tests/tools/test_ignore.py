"""Ignore rules mean what git takes them to mean; so git is asked."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from tests.tools.random_trees import make_tree

from antiphon.tools.faults import OperationAborted
from antiphon.tools.ignore import IgnoreFile
from antiphon.tools.local_files import LocalFiles
from antiphon.tools.walk import WalkRules, walk

ROWS = [
    # rules, path (folders end in /), ignored?
    ("a", "a", True),
    ("a", "x/a", True),
    ("a", "ab", None),
    ("/a", "a", True),
    ("/a", "x/a", None),
    ("x/a", "x/a", True),
    ("x/a", "y/x/a", None),
    ("a/", "a/", True),
    ("a/", "a", None),
    ("*.log", "x/y.log", True),
    ("*.log\n!keep.log", "keep.log", False),
    ("!keep.log\n*.log", "keep.log", True),
    ("a*b", "a/b", None),
    ("a?", "a/", None),
    ("?", "é", None),  # a name is bytes
    ("??", "é", True),
    ("**/a", "x/y/a", True),
    ("**/a", "a", True),
    ("a/**", "a/x/y", True),
    ("a/**", "a/", None),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a**b/c", "axb/c", True),
    ("x/a**", "x/a/b", True),  # behind the plain part `**` counts as if it stood at the beginning
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", None),
    ("[^a-c]x", "dx", True),
    ("[]]", "]", True),
    ("[[:digit:]]", "7", True),
    ("[[:nope:]]", "7", None),
    ("[a", "[a", None),  # broken: matches nothing
    ("\\#a", "#a", True),
    ("#a", "#a", None),
    ("\\!a", "!a", True),
    ("a\\", "a\\", None),
    ("a  ", "a", True),
    ("a\\ ", "a ", True),
    ("a\\ \\ ", "a  ", True),
    ("a\t", "a", None),
    ("a\r\nb", "a", True),
    ("\ufeffa", "a", True),
    ("{a,b}", "a", None),
    ("{a,b}", "{a,b}", True),
    ("/", "a", None),
    ("a\x00b", "a", True),
]


@pytest.mark.parametrize(("rules", "path", "ignored"), ROWS)
def test_one_rule(rules: str, path: str, ignored: bool | None) -> None:
    verdict = IgnoreFile.parse(rules.encode()).verdict(path.rstrip("/").encode(), is_folder=path.endswith("/"))
    assert verdict is ignored


def walked(root: Path) -> set[str]:
    found = walk(LocalFiles(), str(root), WalkRules(), lambda: False)
    return {entry.path for entry in found if entry.path != ".git" and not entry.path.startswith(".git/")}


def compare_with_git(seed: int, root: Path) -> tuple[int, set[str]]:
    """How many paths were judged, and those about which git disagrees."""
    paths = make_tree(Random(seed), root)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    asked = subprocess.run(
        ["git", "-C", str(root), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(paths).encode() + b"\0",
        capture_output=True,
        check=False,
    )
    assert asked.returncode in (0, 1), asked.stderr
    ignored = {name.decode() for name in asked.stdout.split(b"\0") if name}
    return len(paths), (set(paths) - walked(root)) ^ ignored


def judge(seeds: range, folder: Path) -> None:
    judged = 0
    for seed in seeds:
        root = folder / str(seed)
        root.mkdir()
        count, different = compare_with_git(seed, root)
        assert not different, f"seed {seed}"
        judged += count
    assert judged > 40 * len(seeds)


def test_random_trees_are_judged_as_git_does(tmp_path: Path) -> None:
    judge(range(40), tmp_path)


@pytest.mark.slow
def test_three_thousand_random_trees_are_judged_as_git_does(tmp_path: Path) -> None:
    """No difference in 3,000 trees with 221,000 paths."""
    judge(range(1000, 4000), tmp_path)


def test_no_pattern_takes_long() -> None:
    """A rule from somebody else's repository must not stop us; backtracking would take years here."""
    rules = IgnoreFile.parse(b"*a*a*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/a/**/b\n")
    begun = time.monotonic()
    rules.verdict(b"a" * 255, is_folder=False)
    rules.verdict(b"a/" * 2000 + b"a", is_folder=False)
    assert time.monotonic() - begun < 1


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_gitignore_counts_inside_repositories_and_ignore_everywhere(tmp_path: Path) -> None:
    root = tree(tmp_path, {".gitignore": "a", "a": "", "b": "", ".ignore": "b"})
    assert walked(root) == {".gitignore", ".ignore", "a"}
    everywhere = walk(LocalFiles(), str(root), WalkRules(git_everywhere=True), lambda: False)
    assert [found.path for found in everywhere] == [".gitignore", ".ignore"]


def test_a_repository_inside_another_begins_anew(tmp_path: Path) -> None:
    root = tree(tmp_path, {".git/HEAD": "", ".gitignore": "x", "sub/.git/HEAD": "", "sub/x": "", "other/x": ""})
    assert "sub/x" in walked(root)
    assert "other/x" not in walked(root)


def test_ignore_goes_before_gitignore_however_near(tmp_path: Path) -> None:
    root = tree(tmp_path, {".git/HEAD": "", ".ignore": "!x", "sub/.gitignore": "x", "sub/x": ""})
    assert "sub/x" in walked(root)


def test_rules_of_the_folders_above_count(tmp_path: Path) -> None:
    root = tree(tmp_path, {".git/HEAD": "", ".gitignore": "sub/x\ny", "sub/x": "", "sub/y": "", "sub/z": ""})
    assert walked(root / "sub") == {"z"}


def test_a_folder_that_is_asked_for_is_walked_though_it_is_ignored(tmp_path: Path) -> None:
    root = tree(tmp_path, {".git/HEAD": "", ".gitignore": "build/", "build/x": ""})
    assert walked(root / "build") == {"x"}


def test_the_repositorys_and_the_users_own_excludes(tmp_path: Path) -> None:
    home = tree(tmp_path / "home", {".config/git/ignore": "*.swp"})
    root = tree(tmp_path / "repo", {".git/info/exclude": "x", "x": "", "y.swp": "", "z": ""})
    found = walk(LocalFiles(), str(root), WalkRules(home=str(home)), lambda: False)
    assert [entry.path for entry in found if not entry.path.startswith(".git")] == ["z"]
    tree(home, {".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "z"})
    found = walk(LocalFiles(), str(root), WalkRules(home=str(home)), lambda: False)
    assert [entry.path for entry in found if not entry.path.startswith(".git")] == ["y.swp"]


def test_the_order_is_that_of_bytes_folder_by_folder(tmp_path: Path) -> None:
    root = tree(tmp_path, dict.fromkeys(["b", "a/x", "a-b", "A", "é", "a.c", "a/B"], ""))
    found = [entry.path for entry in walk(LocalFiles(), str(root), WalkRules(), lambda: False)]
    assert found == ["A", "a", "a/B", "a/x", "a-b", "a.c", "b", "é"]


def test_links_are_entries_and_not_followed(tmp_path: Path) -> None:
    root = tree(tmp_path, {"real/x": ""})
    (root / "loop").symlink_to(".")
    found = [(entry.path, entry.kind) for entry in walk(LocalFiles(), str(root), WalkRules(), lambda: False)]
    assert found == [("loop", "link"), ("real", "folder"), ("real/x", "file")]


def test_a_walk_can_be_stopped(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": "", "b": ""})
    stop = False
    found = walk(LocalFiles(), str(root), WalkRules(), lambda: stop)
    next(found)
    stop = True
    with pytest.raises(OperationAborted):
        next(found)

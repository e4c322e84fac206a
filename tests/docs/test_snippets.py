"""What the pages show works: Python runs and prints what the page says it prints, commands exist with their options."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.markdown_pages import PAGES, ROOT, Block, blocks, name

from antiphon.modes import arguments
from antiphon.modes.options import help_text
from antiphon.modes.rpc.protocol import Asked, read_command
from antiphon.providers.catalog import builtin

PYTHON = [page for page in PAGES if any(b.language == "python" for b in blocks(page))]
SHELL = [block for page in PAGES for block in blocks(page) if block.language == "sh"]
JSON = [block for page in PAGES for block in blocks(page) if block.language == "json"]
SOMETHING_ELSE = {"git", "jq", "cd", "cat", "curl", "ollama", "llama-server", "mkdir", "export", "echo", "wc", "head"}


@pytest.mark.parametrize("page", PYTHON, ids=name)
def test_python_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The snippets of a page are one story: they run in order and share their names.

    A block of text with the note `output` right behind a snippet is what that prints.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    printed = ""
    for block in blocks(page):
        if block.language == "python" and not block.note.startswith("not run:"):
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(page), "exec", dont_inherit=True), module.__dict__)
            printed = capsys.readouterr().out
        elif block.note == "output":
            assert printed.rstrip("\n") == block.text.rstrip("\n"), (
                f"{name(page)}:{block.line} shows something else than what is printed"
            )


def test_every_snippet_that_is_not_run_says_why() -> None:
    for page in PYTHON:
        for block in blocks(page):
            if block.language == "python" and block.note.startswith("not run"):
                assert re.fullmatch(r"not run: .{10,}", block.note), f"{name(page)}:{block.line}"


@pytest.mark.parametrize("block", SHELL, ids=lambda b: f"{name(b.page)}:{b.line}")
def test_commands_exist(block: Block) -> None:
    for line in block.text.replace("\\\n", " ").split("\n"):
        for words in _commands(line):
            _check(words)


def _commands(line: str) -> list[list[str]]:
    """The commands of a line: split at pipes, without comments, variables in front, and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if set(word) <= set("|;&"):
            commands.append([])
        elif set(word) <= set("<>"):
            next(words)
        elif commands[-1] or not re.match(r"^\w+=", word):
            commands[-1].append(word)
    return [words for words in commands if words]


def _check(words: list[str]) -> None:
    program, *rest = words
    program = Path(program).name  # of an environment, perhaps
    if program == "antiphon":
        _check_antiphon(rest)
    elif program in ("python3", "python") and rest[0] == "dev.py":
        assert f"python3 dev.py {rest[1]}" in (ROOT / "dev.py").read_text(), f"dev.py has no {rest[1]}"
    elif program in ("python3", "python") and rest[0] == "-m":
        assert rest[1] in ("venv", "pytest") or _is_ours(rest[1]), rest[1]
    elif program in ("python3", "python"):
        assert (ROOT / rest[0]).is_file(), f"there is no {rest[0]}"
    elif program == "pip":
        _check_extras(rest[-1])
    else:
        assert program in SOMETHING_ELSE, f"what is {program!r}?"


def _is_ours(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return module.startswith("antiphon") or path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def _check_antiphon(words: list[str]) -> None:
    """A command of the help, or options that the command line understands."""
    commands = {
        m[1]: (m[2] or "").split("|") for m in re.finditer(r"^  antiphon ([a-z]+)(?: ([a-z|]+))?", help_text(), re.M)
    }
    if words and words[0] in commands:
        known = commands[words[0]]
        assert not known[0] or len(words) == 1 or words[1] in known, words
        return
    plan = arguments.parse(words)
    assert (plan.errors, plan.unknown) == ([], [])


def _check_extras(wanted: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.search(r"\[(.*)\]", wanted)
    extras = found[1].split(",") if found else []
    assert set(extras) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("block", JSON, ids=lambda b: f"{name(b.page)}:{b.line}")
def test_json_is_json_and_means_something(block: Block) -> None:
    """One value, or one value a line. A `models.json` is understood without a complaint, an RPC command is one."""
    try:
        values = [json.loads(block.text)]
    except json.JSONDecodeError:
        values = [json.loads(line) for line in block.text.split("\n") if line]

    for value in values:
        if "providers" in value:
            assert builtin().with_config(value)[1] == ()
        else:
            assert isinstance(read_command(json.dumps(value).encode()), Asked)

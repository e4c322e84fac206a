"""`antiphon course`: make a practice folder, judge it, break things on purpose. `USAGE` says how."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path

from antiphon.course.kit.chapters import LANGUAGES, Chapter, Language, chapter
from antiphon.course.kit.folder import Folder, make_folder, open_folder
from antiphon.course.kit.render import source
from antiphon.course.kit.report import caught, list_lines, sabotage_lines, verdict_lines
from antiphon.course.kit.running import TestRun, run_tests
from antiphon.course.kit.verdict import judge
from antiphon.course.saboteurs import ALL, SABOTEURS, Saboteur
from antiphon.errors import ConfigurationError, UserError

USAGE = """antiphon course: write an agent loop, chapter by chapter

    antiphon course list                          chapters, steps, saboteurs
    antiphon course practice 07 DIR               make a practice folder; DIR must be new or empty
    antiphon course verify 07 DIR                 which step is right, which saboteur is caught
    antiphon course sabotage 07 NAME [DIR]        break one promise, see which tests notice
    antiphon course answer 07                     show the answer

--language zh: in Chinese. Exit codes: 0 right; 1 not right yet; 2 a mistake on the command line."""

MADE = {
    "en": "made {folder}; read {folder}/README.md, then write {folder}/my_agent/{module}.py",
    "zh": "已创建 {folder}；先读 {folder}/README.md，再写 {folder}/my_agent/{module}.py",
}


def run(arguments: Sequence[str]) -> int:
    """Run one `antiphon course` command line; gives the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal that cannot show Chinese gets question marks
        sys.stdout.reconfigure(errors="replace")
    try:
        words, language = _language(arguments)
        if not words or words[0] in ("help", "--help", "-h"):
            _say([USAGE])
            return 0
        command = COMMANDS.get(words[0])
        if command is None:
            raise ConfigurationError(f"unknown command {words[0]!r}; choose one of {', '.join(COMMANDS)}")
        return command(words[1:], language)
    except UserError as error:
        sys.stderr.write(f"antiphon course: {error}\n")
        return error.exit_code
    except BrokenPipeError:  # whoever read has gone; what is left in the buffer must not be tried again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _language(arguments: Sequence[str]) -> tuple[list[str], Language | None]:
    """The command line without `--language`, and what that says."""
    words: list[str] = []
    language: str | None = None
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--language":
            language = waiting.pop(0) if waiting else ""
        elif word.startswith("--language="):
            language = word.partition("=")[2]
        elif word.startswith("-") and word not in ("-h", "--help"):
            raise ConfigurationError(f"unknown option {word}; the only one is --language")
        else:
            words.append(word)
    if language is not None and language not in LANGUAGES:
        raise ConfigurationError(f"--language {language!r}: choose one of {', '.join(LANGUAGES)}")
    return words, language


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def _needs(words: Sequence[str], form: str, least: int, most: int) -> None:
    if not least <= len(words) <= most:
        raise ConfigurationError(f"give it as: antiphon course {form}")


def _list(words: Sequence[str], language: Language | None) -> int:
    _needs(words, "list", 0, 0)
    _say(list_lines(language or "en"))
    return 0


def _practice(words: Sequence[str], language: Language | None) -> int:
    _needs(words, "practice 07 DIR", 2, 2)
    wanted, folder = chapter(words[0]), Path(words[1])
    make_folder(wanted, folder, language or "en")
    _say([MADE[language or "en"].format(folder=folder, module=wanted.module)])
    return 0


def _verify(words: Sequence[str], language: Language | None) -> int:
    _needs(words, "verify 07 DIR", 2, 2)
    folder = open_folder(Path(words[1]), chapter(words[0]))
    verdict = judge(folder.chapter, _tried(folder, ALL))
    _say(verdict_lines(folder.chapter, verdict, folder.changed_tests(), language or folder.language))
    return 0 if verdict.finished else 1


def _tried(folder: Folder, sabotage: str) -> list[TestRun]:
    """The tests of a folder. If they break off, changed ones are the likely reason, so they are named."""
    try:
        return run_tests(folder.path, sabotage=sabotage)
    except ConfigurationError as error:
        changed = folder.changed_tests()
        if not changed:
            raise
        raise ConfigurationError(f"{error}; changed here: {', '.join(changed)}; make another folder") from error


def _sabotage(words: Sequence[str], language: Language | None) -> int:
    _needs(words, "sabotage 07 NAME [DIR]", 2, 3)
    wanted = chapter(words[0])
    saboteur = _saboteur(wanted, words[1])
    if len(words) == 3:
        return _break(saboteur, open_folder(Path(words[2]), wanted), language)
    with tempfile.TemporaryDirectory(prefix="antiphon-course-") as made:
        make_folder(wanted, Path(made), language or "en", solved=True)
        return _break(saboteur, open_folder(Path(made), wanted), language)


def _break(saboteur: Saboteur, folder: Folder, language: Language | None) -> int:
    runs = _tried(folder, saboteur.name)
    _say(sabotage_lines(saboteur, runs, language or folder.language))
    return 0 if caught(saboteur, runs) else 1


def _saboteur(wanted: Chapter, name: str) -> Saboteur:
    known = SABOTEURS[wanted.number]
    for saboteur in known:
        if saboteur.name == name:
            return saboteur
    names = ", ".join(saboteur.name for saboteur in known)
    raise ConfigurationError(f"chapter {wanted.number} has no saboteur {name!r}; choose one of {names}")


def _answer(words: Sequence[str], _language: Language | None) -> int:
    _needs(words, "answer 07", 1, 1)
    wanted = chapter(words[0])
    _say([source(wanted.answer, wanted).rstrip()])
    return 0


COMMANDS: dict[str, Callable[[Sequence[str], Language | None], int]] = {
    "list": _list,
    "practice": _practice,
    "verify": _verify,
    "sabotage": _sabotage,
    "answer": _answer,
}

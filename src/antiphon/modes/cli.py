"""The command: start order, exit codes. A person's mistake ends in one clear line, never in a traceback.

Nothing is imported here that the help and the version do not need.
"""

from __future__ import annotations

import gc
import os

from antiphon.errors import AntiphonError
from antiphon.modes.output import Output, OutputFailed, secure_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from antiphon.modes.arguments import Plan

EXIT_FAILED = 1

QUESTIONS = ("--help", "-h", "--version", "-v")
COMMANDS = {
    "auth": "auth",
    "config": "config",
    "replay": "replay",
    "session": "sessions",
    "trust": "trust",
}
"""First words that are no message, and the file in `commands/` that knows what they mean."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; gives the exit code."""
    closed = secure_descriptors()
    output = Output()
    try:
        if closed is not None:
            output.error(str(OutputFailed(closed)))
            return EXIT_FAILED
        if len(arguments) == 1 and arguments[0] in QUESTIONS:
            return _tell(arguments[0], output)
        return _run(arguments, output)
    except OutputFailed as error:
        output.error(str(error))
        return EXIT_FAILED
    except (AntiphonError, OSError) as error:
        output.error(str(error))
        return EXIT_FAILED


def _run(arguments: Sequence[str], output: Output) -> int:
    from antiphon.modes.signals import Stopped, listen

    listen()
    try:
        if arguments and arguments[0] in COMMANDS:
            return _command(arguments[0], arguments[1:], output)
        return _line(arguments, output)
    except Stopped as stopped:
        return stopped.exit_code


def _tell(question: str, output: Output) -> int:
    if question in ("--help", "-h"):
        from antiphon.modes.options import help_text

        output.text(help_text())
    else:
        from antiphon import __version__

        output.text(f"antiphon {__version__}\n")
    return 0


def _command(name: str, words: Sequence[str], output: Output) -> int:
    from importlib import import_module

    code: int = import_module(f"antiphon.modes.commands.{COMMANDS[name]}").run(words, output)
    return code


def _line(arguments: Sequence[str], output: Output) -> int:
    from antiphon.modes.arguments import parse, unknown_option

    plan = parse(arguments)
    if not plan.errors and plan.version:
        return _tell("--version", output)
    if not plan.errors and plan.help:
        return _tell("--help", output)
    plan.errors += map(unknown_option, plan.unknown)
    if (meant := _meant(arguments)) is not None:
        plan.errors.append(f"{arguments[0]!r} is no command; did you mean {meant}? As a message it goes behind --")
    for error in plan.errors:
        output.error(error)
    if plan.errors:
        return EXIT_FAILED
    if plan.offline:
        os.environ["ANTIPHON_OFFLINE"] = "1"
    return _work(plan, output)


def _meant(arguments: Sequence[str]) -> str | None:
    """The command that was probably meant by a first word that is none, if another plain word follows it."""
    from difflib import get_close_matches

    if len(arguments) < 2 or any(not word.isalpha() for word in arguments[:2]):
        return None
    near = get_close_matches(arguments[0], (*COMMANDS, "course"), n=1, cutoff=0.75)
    return near[0] if near else None


def _work(plan: Plan, output: Output) -> int:
    if plan.export is not None:
        from antiphon.modes.commands.sessions import run as session_command

        return session_command(["export", plan.export, *plan.messages[:1]], output)
    if plan.list_models is not None:
        from antiphon.modes.list_models import list_models

        return list_models(plan, output)
    gc.disable()  # until the conversation begins: looking for garbage in what is loaded takes a tenth of a start
    from antiphon.modes.conversation import converse

    return converse(plan, output)

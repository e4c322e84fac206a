"""The command: start order, exit codes, signals. A person's mistake ends in one clear line, never in a traceback."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from antiphon.errors import AntiphonError, ConfigurationError
from antiphon.modes.arguments import Plan, help_text, parse
from antiphon.modes.output import Output, ReaderGone, stdin_is_terminal

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:
    """Run one command line; gives the exit code."""
    output = Output()
    plan = parse(arguments)
    try:
        if plan.errors:
            for error in plan.errors:
                output.error(error)
            return EXIT_FAILED
        return _run(plan, output)
    except ReaderGone:
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (AntiphonError, OSError) as error:
        output.error(str(error))
        return EXIT_FAILED


def _run(plan: Plan, output: Output) -> int:
    if plan.help:
        output.text(help_text())
        return 0
    if plan.version:
        from antiphon import __version__

        output.text(f"antiphon {__version__}\n")
        return 0
    if plan.list_models is not None:
        from antiphon.modes.list_models import list_models

        return list_models(plan, output)
    return _answer(plan, output)


def _answer(plan: Plan, output: Output) -> int:
    from antiphon.modes.prompt_input import prompts_of, read_stdin

    cwd = _working_folder()
    piped = "" if stdin_is_terminal() else read_stdin()
    prompts = prompts_of(plan.messages, plan.files, piped, cwd)
    if not prompts and plan.mode == "text":
        raise ConfigurationError(
            'nothing to do: give a prompt, as in antiphon "What is in this folder?"; --help says more'
        )
    from antiphon.modes.start import start_session

    session = start_session(plan, cwd, output)
    try:
        return asyncio.run(_main(plan, session, prompts, output))
    finally:
        session.close()


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise ConfigurationError("the current folder does not exist any more; change to another one") from None


async def _main(plan: Plan, session: object, prompts: Sequence[str], output: Output) -> int:
    """The mode, with the signals of the process tied to the run."""
    from antiphon.modes.json_mode import run_json
    from antiphon.modes.print_mode import run_print
    from antiphon.session.agent_session import AgentSession

    assert isinstance(session, AgentSession)
    received: list[int] = []

    def stop(number: int) -> None:
        if received:  # the second one means now
            os._exit(128 + number)
        received.append(number)
        session.abort("interrupted" if number == signal.SIGINT else "terminated")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    mode = run_json if plan.mode == "json" else run_print
    code = await mode(session, prompts, output)
    return 128 + received[0] if received else code

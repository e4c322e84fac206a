"""A conversation from the command line: what is read first, which mode runs, how the process ends."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path

from antiphon.errors import AntiphonError, ConfigurationError
from antiphon.modes.arguments import Plan
from antiphon.modes.json_mode import run_json
from antiphon.modes.output import Output, OutputFailed, is_terminal, stdin_is_terminal, take_over
from antiphon.modes.person import person_at
from antiphon.modes.print_mode import run_print
from antiphon.modes.prompt_input import GivenPrompt, Pictures, check_file, prompts_of, read_stdin
from antiphon.modes.signals import Goodbye
from antiphon.modes.start import House, start
from antiphon.resources.paths import home_dir, working_folder
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session_log.refusals import SessionWriteFailed

EMPTY = "nothing to do: the prompt is empty"
WAITING = "waiting for standard input to end; to give none: < /dev/null\n"
AGAIN_SECONDS = 1.0
BLOCKED_SECONDS = 0.7
"""So long a reader that does not read may hold up the end after a signal; whoever asked may kill us after a second."""


def converse(plan: Plan, _output: Output) -> int:
    """Run the mode that the plan asks for; gives the exit code.

    Raises:
        AntiphonError: it could not begin, or not go on; one line for the person.
        OutputFailed: standard output cannot be written.
    """
    interactive = plan.mode == "text" and not plan.print and stdin_is_terminal() and is_terminal(1)
    output = take_over()
    cwd = working_folder()
    piped = "" if plan.mode == "rpc" or stdin_is_terminal() else read_stdin(lambda: output.say(WAITING))
    nothing_said = plan.mode == "text" and not (plan.messages or plan.files or piped)
    if nothing_said and not interactive:
        raise ConfigurationError(
            'nothing to do: give a prompt, as in antiphon "What is in this folder?"; --help says more'
        )
    if plan.mode == "text" and not nothing_said:
        _check_given(plan, piped, cwd)
    try:
        return asyncio.run(_main(plan, output, cwd, piped, interactive=interactive, lines=nothing_said))
    except SessionWriteFailed as error:
        if plan.no_session:
            raise
        raise SessionWriteFailed(f"{error}; --no-session keeps nothing on disk") from error


def _check_given(plan: Plan, piped: str, cwd: str) -> None:
    """What a person can mend without a model is told before one is looked for.

    Raises:
        ConfigurationError: the prompt is empty, or a file is not there.
    """
    if not plan.files and not piped and not any(message.strip() for message in plan.messages):
        raise ConfigurationError(EMPTY)
    for name in plan.files:
        check_file(name, Path(cwd), home_dir(os.environ))


async def _main(plan: Plan, output: Output, cwd: str, piped: str, *, interactive: bool, lines: bool) -> int:
    house, runtime = start(plan, output, person_at(output, interactive=interactive), cwd)
    gc.freeze()  # what is loaded by now stays
    gc.enable()
    stopped = asyncio.Event()

    def stop(number: int) -> None:
        stopped.set()
        asyncio.get_running_loop().call_later(BLOCKED_SECONDS, output.give_up)
        runtime.session.request_abort(f"stopped by signal {number}")

    def interrupt() -> bool:
        """At the prompt a Ctrl-C stops the work that goes on; a second one ends the program."""
        session = runtime.session
        if not lines or session.is_idle or interrupted.is_set():
            return False
        interrupted.set()
        loop.call_soon_threadsafe(session.request_abort, "stopped by the user")
        loop.call_soon_threadsafe(loop.call_later, AGAIN_SECONDS, interrupted.clear)
        return True

    loop = asyncio.get_running_loop()
    interrupted = threading.Event()
    goodbye = Goodbye(stop, interrupt)
    try:
        if lines:
            from antiphon.modes.line_mode import run_lines

            code = await run_lines(house, runtime, output, stopped=stopped)
        else:
            code = await _mode(plan, house, runtime, output, piped, stopped)
    except (AntiphonError, OutputFailed):
        if goodbye.exit_code is None:
            raise
        code = goodbye.exit_code
    finally:
        await close(runtime)
        house.tidy()
    return code if goodbye.exit_code is None else goodbye.exit_code


async def _mode(
    plan: Plan, house: House, runtime: AgentSessionRuntime, output: Output, piped: str, stopped: asyncio.Event
) -> int:
    if plan.mode == "rpc":
        from antiphon.modes.rpc.stdio import run_rpc

        return await run_rpc(runtime, output, house, stopped=stopped)
    prompts = _prompts(plan, house, runtime, piped)
    if plan.mode == "json":
        return await run_json(runtime, prompts, output, outcome=plan.json_outcome, keep_going=plan.keep_going)
    return await run_print(runtime, prompts, output, keep_going=plan.keep_going)


def _prompts(plan: Plan, house: House, runtime: AgentSessionRuntime, piped: str) -> list[GivenPrompt]:
    settings = house.loaded.settings.settings.images
    pictures = Pictures(runtime.session.model, resize=settings.auto_resize, blocked=settings.block_images)
    cwd, home = Path(working_folder()), home_dir(house.environ)
    prompts = prompts_of(plan.messages, plan.files, piped, cwd, home, pictures, house.output.warning)
    if not prompts and plan.mode == "text":
        raise ConfigurationError(EMPTY)
    return prompts


async def close(runtime: AgentSessionRuntime) -> None:
    """Let go of everything: session, connections, children."""
    from antiphon.tools.process import close_all

    await runtime.dispose()
    http = sys.modules.get("antiphon.providers.http")
    if http is not None:
        await http.close_connections()
    close_all()

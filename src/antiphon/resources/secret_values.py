"""Values that may name a variable or a command instead of holding a secret: keys, headers, variables for servers.

`$NAME` and `${NAME}` inside a text are variables; `$$` and `$!` are a plain `$` and `!`; a leading `!` makes the rest a
shell command whose output counts; anything else is literal. Source: resources specification 12.2.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias, final

from msgspec import Struct

COMMAND_SECONDS = 10.0
RETRY_SECONDS = 5.0
_PART = re.compile(r"\$(?:([$!])|([A-Za-z_][A-Za-z0-9_]*)|\{([^}]*)\})", re.ASCII)


@final
class Secret(Struct, frozen=True):
    """A resolved secret. It prints as dots; `reveal` is for the one who sends it."""

    value: str

    def reveal(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "<secret>"

    def __str__(self) -> str:
        return "••••"


@final
class Unresolved(Struct, frozen=True):
    """Why there is no value. Never holds one."""

    reason: str


Resolution: TypeAlias = "Secret | Unresolved"
RunCommand: TypeAlias = Callable[[str], "Resolution"]


def form_of(text: str) -> str:
    """What a value is, in words that hold no secret: a variable, a command, or a text."""
    if text.startswith("!"):
        return "output of a command"
    names = variables_in(text)
    return f"variable {', '.join(names)}" if names else "literal text"


def variables_in(text: str) -> tuple[str, ...]:
    """Names of the variables that a value needs, each once."""
    if text.startswith("!"):
        return ()
    return tuple(dict.fromkeys(m[2] or m[3] for m in _PART.finditer(text) if not m[1]))


def resolve(text: str, environ: Mapping[str, str], run: RunCommand) -> Resolution:
    """What a value stands for. A missing or empty variable makes all of it unresolved."""
    if text.startswith("!"):
        return run(text[1:].strip())
    missing = [name for name in variables_in(text) if not environ.get(name)]
    if missing:
        return Unresolved(f"variable {', '.join(missing)} is not set")
    value = _PART.sub(lambda m: m[1] or environ[m[2] or m[3]], text)
    return Secret(value) if value else Unresolved("the value is empty")


def run_command(command: str, seconds: float = COMMAND_SECONDS) -> Resolution:
    """The trimmed output of a shell command. What it printed is never part of an error."""
    if not command:
        return Unresolved("there is no command behind the !")
    try:
        process = subprocess.Popen(  # noqa: S602 - a person wrote this command to be run by a shell
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return Unresolved(f"its command cannot be started: {error.strerror}")
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Unresolved(f"its command did not end within {seconds:g} seconds")
        finally:
            _end_group(process)
    if process.returncode:
        return Unresolved(f"its command ended with {process.returncode}")
    text = output.decode("utf-8", "replace").strip()
    return Secret(text) if text else Unresolved("its command printed nothing")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The command and whatever it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@final
class CommandCache:
    """Runs commands and remembers what worked. A failure is tried again, but not more often than every few seconds."""

    def __init__(
        self, run: RunCommand = run_command, now: Callable[[], float] = time.monotonic, pause: float = RETRY_SECONDS
    ) -> None:
        self._run = run
        self._now = now
        self._pause = pause
        self._known: dict[str, tuple[Resolution, float]] = {}

    def __call__(self, command: str) -> Resolution:
        """The output of the command, now or from before."""
        known = self._known.get(command)
        if known is not None and (isinstance(known[0], Secret) or self._now() < known[1] + self._pause):
            return known[0]
        found = self._run(command)
        self._known[command] = (found, self._now())
        return found

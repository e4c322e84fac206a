"""The `bash` tool: one shell command, its output as it comes, its end. Source: tools specification, 5."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.ports import AbortSignal, OnUpdate
from antiphon.core.wire import JsonObject, without_surrogates
from antiphon.tools.accumulate import Output
from antiphon.tools.faults import OperationAborted, ToolFault, fault_text
from antiphon.tools.output import DEFAULT_LIMITS, Limits, format_size
from antiphon.tools.port import Command, CommandEnd, Files, Workspace
from antiphon.tools.progress import Progress

MAX_TIMEOUT_SECONDS = 2_147_483.647
_ARGUMENT_BYTES = 100_000  # the system takes no single argument over 128 KiB

Environment = Callable[[], Mapping[str, str | None]]


def _inherit() -> Mapping[str, str | None]:
    return {}


class BashOptions(Struct, frozen=True, kw_only=True):
    """What a host may set.

    `shell_path` None: `/bin/bash`, else bash on the path, else sh. `command_prefix` is a line before each command.
    `environment` is asked at each start for variables to set, or to remove (None). `bin_folder` comes first on PATH.
    """

    shell_path: str | None = None
    command_prefix: str | None = None
    environment: Environment = _inherit
    bin_folder: str | None = None
    limits: Limits = DEFAULT_LIMITS


class BashTool(Struct, frozen=True):
    """Runs shell commands in the working folder of a workspace."""

    workspace: Workspace
    options: BashOptions = field(default_factory=BashOptions)

    name = "bash"
    label = "bash"
    replay = "never"
    abort_grace = 1.0

    @property
    def description(self) -> str:
        limits = self.options.limits
        return (
            "Run a bash command in the working folder. Standard output and standard error come back together. "
            f"Only the last {limits.max_lines} lines or {format_size(limits.max_bytes)} are shown, whichever is less; "
            "longer output is kept in a file whose path is given. A timeout in seconds may be set."
        )

    @property
    def parameters(self) -> JsonObject:
        return {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "Bash command to run"},
                "timeout": {"type": "number", "description": "Seconds after which it is stopped (default: never)"},
            },
            "required": ["command"],
            "additionalProperties": False,
        }

    @property
    def output_schema(self) -> JsonObject:
        return {
            "type": "object",
            "properties": {
                "output": {"type": "string"},
                "truncated": {"type": "boolean"},
                "full_output_path": {"type": "string"},
                "exit_code": {"type": ["integer", "null"]},
                "wall_time_seconds": {"type": "number"},
            },
            "required": ["output", "truncated", "exit_code", "wall_time_seconds"],
        }

    @property
    def constrained_sampling(self) -> JsonObject:
        return {"type": "json_schema", "strict": "prefer"}

    async def execute(
        self, call_id: str, arguments: JsonObject, signal: AbortSignal, on_update: OnUpdate
    ) -> ToolResult:
        """Run `command`. A failed command is an error result; only what prevents a start is raised.

        Raises:
            ToolFault: bad time limit, no shell, no working folder, or the system refuses the command.
        """
        if signal.aborted:
            raise OperationAborted
        timeout = checked_timeout(arguments.get("timeout"))
        shell = await self.workspace.call(find_shell, signal, self.workspace.files, self.options.shell_path)
        command = self._command(shell, arguments["command"], timeout)
        output = Output(self.workspace.spills, self.options.limits)
        progress = Progress(output, on_update)
        try:
            end = await self.workspace.run(command, progress.feed, signal)
        except OSError as error:
            raise await self._explained(error, command) from error
        finally:
            output.finish()
        progress.finish()
        return bash_result(end, output, command.timeout)

    def _command(self, shell: str, script: str, timeout: float | None) -> Command:
        if "\0" in script:
            raise ToolFault("The command contains a NUL character, which no shell can take; use $'\\0' or printf")
        if self.options.command_prefix:
            script = f"{self.options.command_prefix}\n{script}"
        return Command(
            argv=(shell, *_shell_arguments(script)),
            cwd=self.workspace.cwd,
            env=self._environment(),
            timeout=timeout,
        )

    def _environment(self) -> dict[str, str]:
        variables = dict(os.environ)
        for name, value in self.options.environment().items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
        if self.options.bin_folder is not None:
            path = variables.get("PATH")
            variables["PATH"] = self.options.bin_folder + (os.pathsep + path if path else "")
        return variables

    async def _explained(self, error: OSError, command: Command) -> ToolFault:
        if not await self.workspace.call(_exists, None, self.workspace.files, command.cwd):
            return ToolFault(f"Working directory does not exist: {command.cwd}\nCannot execute bash commands.")
        if error.errno == errno.E2BIG:
            return ToolFault("The command is too long for the system: write it to a file and run that")
        return ToolFault(fault_text(error, "spawn", command.argv[0]))


def bash_tool(workspace: Workspace, options: BashOptions | None = None) -> BashTool:
    """The tool for one workspace."""
    return BashTool(workspace, options or BashOptions())


def find_shell(files: Files, configured: str | None) -> str:
    """The shell to use. Blocking.

    Raises:
        ToolFault: the configured one does not exist, or there is none at all.
    """
    if configured:
        if not _exists(files, configured):
            raise ToolFault(f"Custom shell path not found: {configured}")
        return configured
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for shell in ("/bin/bash", *(os.path.join(folder, name) for name in ("bash", "sh") for folder in folders)):
        if _exists(files, shell):
            return shell
    raise ToolFault("No shell found: neither bash nor sh is on the path")


def _exists(files: Files, path: str) -> bool:
    try:
        files.stat(path)
    except (OSError, ValueError):
        return False
    return True


def _shell_arguments(script: str) -> tuple[str, ...]:
    """`-c` and the script; a script too long for one argument travels in parts."""
    script = without_surrogates(script)
    data = script.encode()
    if len(data) < _ARGUMENT_BYTES:
        return ("-c", script)
    step = _ARGUMENT_BYTES // 4  # characters of up to four bytes
    parts = [script[index : index + step] for index in range(0, len(script), step)]
    return ("-c", 'script=$(printf %s "$@"); set --; eval "$script"', "bash", *parts)


def checked_timeout(timeout: Any) -> float | None:
    """Seconds until a command is stopped; None: never.

    Raises:
        ToolFault: it is not finite, not above 0, or more than a timer can hold.
    """
    if timeout is None:
        return None
    if not 0 < timeout < float("inf"):
        raise ToolFault("Invalid timeout: must be a finite number of seconds")
    if timeout > MAX_TIMEOUT_SECONDS:
        raise ToolFault(f"Invalid timeout: maximum is {MAX_TIMEOUT_SECONDS} seconds")
    return float(timeout)


def bash_result(end: CommandEnd, output: Output, timeout: float | None) -> ToolResult:
    """What the model, the display and programs learn about the end of a command."""
    shown = output.shown()
    if end.ended_by != "exit":
        words = _stop_words(end, timeout)
        text = f"{shown.text}\n\n{words}" if shown.text else words
        return ToolResult(content=(Text(text=text),), details={}, is_error=True)
    text = shown.text or "(no output)"
    if end.exit_code != 0:
        text += f"\n\nCommand exited with code {end.exit_code}"
    details = shown.details()
    structured = _structured(end, output)
    if details is None:
        return ToolResult(content=(Text(text=text),), structured_content=structured, is_error=end.exit_code != 0)
    return ToolResult(
        content=(Text(text=text),), details=details, structured_content=structured, is_error=end.exit_code != 0
    )


def _stop_words(end: CommandEnd, timeout: float | None) -> str:
    words, until = (
        ("Command aborted", "the abort")
        if end.ended_by == "abort"
        else (f"Command timed out after {timeout or 0:.15g} seconds", "the timeout")
    )
    if end.exited_after is None:
        return words
    return (
        f"{words}. The shell exited with code {end.exit_code} after {end.exited_after:.1f} seconds, "
        f"but background processes it started kept writing output until {until}."
    )


def _structured(end: CommandEnd, output: Output) -> JsonObject:
    text, truncated = output.full()
    out: JsonObject = {
        "output": text,
        "truncated": truncated,
        "exit_code": end.exit_code,
        "wall_time_seconds": round(end.seconds, 1),
    }
    if truncated and output.full_output_path is not None:
        out["full_output_path"] = output.full_output_path
    return out

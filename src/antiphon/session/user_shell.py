"""Commands that the user runs beside the model: their output as it comes, their result as a message.

Colours and cursor movements are taken out: the model reads the output later. The result is stored at once when nothing
goes on, and after the settlement otherwise, so that it never comes between a call and its result.
"""

from __future__ import annotations

import asyncio
import codecs
import inspect
import os
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.messages import HostMessage, host_message
from antiphon.core.session_events import BashExecutionUpdate
from antiphon.core.wire import JsonValue
from antiphon.errors import ConfigurationError
from antiphon.loop.abort import AbortController
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import ShellGiven, ShellResult
from antiphon.tools.accumulate import Output
from antiphon.tools.bash import find_shell
from antiphon.tools.faults import ToolFault, fault_text
from antiphon.tools.port import Command, Workspace

Keep: TypeAlias = Callable[[HostMessage], None]

MARKERS: dict[str, str] = {"AI_AGENT": "antiphon", "ANTIPHON": "true"}
"""What every command finds in its environment. A command of the user is told nothing of the session."""

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]P^_].*?(?:\x07|\x1b\\)"  # titles and other strings
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f]",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]P^_][^\x07]*|[ -/]*)?\Z", re.DOTALL)
_MOST_UNFINISHED = 4096


@final
class BashResult(Struct, frozen=True, gc=False, rename="camel"):
    """What has come of a command. `output` is its end if it was too long; all of it is in `full_output_path` then."""

    output: str
    cancelled: bool
    truncated: bool
    exit_code: int | UnsetType = UNSET
    full_output_path: str | UnsetType = UNSET


@final
class CleanText:
    """Bytes in, text without control sequences out, however the bytes are cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        text = self._held + self._decoder.decode(chunk, final)
        self._held = ""
        if not final:
            tail = _UNFINISHED.search(text)
            if tail is not None and len(text) - tail.start() <= _MOST_UNFINISHED:
                text, self._held = text[: tail.start()], text[tail.start() :]
        return _CONTROL.sub("", text)


@final
class UserShell:
    """Runs commands in the folder of the conversation. Several may run at once."""

    def __init__(self, conversation: Conversation, workspace: Workspace | None, keep: Keep) -> None:
        self._c = conversation
        self._workspace = workspace
        self._keep = keep
        self._running: set[AbortController] = set()

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    def abort(self) -> None:
        """Stop all of them."""
        for controller in tuple(self._running):
            controller.abort("aborted")

    async def execute(
        self,
        command: str,
        *,
        exclude_from_context: bool = False,
        id: JsonValue | UnsetType = UNSET,  # noqa: A002 - the name on the wire
        on_chunk: Callable[[str], None] | None = None,
    ) -> BashResult:
        """Run a command to its end and keep its result.

        Raises:
            ConfigurationError: there is no place to run it, or no shell.
            ToolFault: the system refuses to start it.
        """
        given = await self._answered(ShellGiven(command, exclude_from_context, self._c.cwd))
        controller = AbortController()
        self._running.add(controller)
        try:
            if given is None:
                result = await self._run(command, controller, _teller(self._c, id, on_chunk))
            else:
                result = _from_hook(given)
        finally:
            self._running.discard(controller)
        self.record(command, result, exclude_from_context=exclude_from_context)
        return result

    def record(self, command: str, result: BashResult, *, exclude_from_context: bool = False) -> None:
        """Keep the result of a command, wherever it was run."""
        self._keep(shell_message(command, result, exclude_from_context, self._c.clock.now_ms()))

    async def _answered(self, given: ShellGiven) -> ShellResult | None:
        """What an extension gives instead of running the command.

        Raises:
            ConfigurationError: it failed, or gave something else: the command is refused.
        """
        hook = self._c.hooks.user_bash
        if hook is None:
            return None
        try:
            answer: Any = hook(given)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            self._c.report("user_bash", error, hook)
            raise ConfigurationError(f"the command was refused: {error}") from error
        if answer is not None and not isinstance(answer, ShellResult):
            raise ConfigurationError("the command was refused: an extension answered with something that is no result")
        return answer

    async def _run(self, command: str, controller: AbortController, tell: Callable[[str], None]) -> BashResult:
        workspace = self._workspace
        if workspace is None:
            raise ConfigurationError("this session has no folder in which a command could run")
        output = Output(workspace.spills)
        clean, loop = CleanText(), asyncio.get_running_loop()

        def feed(chunk: bytes) -> None:  # in the thread that reads the command
            text = clean.feed(chunk)
            if text:
                output.feed(text.encode("utf-8", "replace"))
                loop.call_soon_threadsafe(tell, text)

        try:
            end = await workspace.run(await self._command(workspace, command), feed, controller.signal)
        except OSError as error:
            raise ToolFault(fault_text(error, "spawn", "shell")) from error
        finally:
            rest = clean.feed(b"", final=True)
            if rest:
                output.feed(rest.encode("utf-8", "replace"))
            output.finish()
        if rest:
            tell(rest)
        await asyncio.sleep(0)  # pieces that the thread has handed over are told before the end
        cut = output.truncation()
        return BashResult(
            output=cut.content,
            cancelled=end.ended_by == "abort",
            truncated=cut.truncated,
            exit_code=UNSET if end.exit_code is None or end.ended_by == "abort" else end.exit_code,
            full_output_path=UNSET if output.full_output_path is None else output.full_output_path,
        )

    async def _command(self, workspace: Workspace, command: str) -> Command:
        settings = self._c.settings
        shell = await workspace.call(find_shell, None, workspace.files, settings.shell_path)
        prefix = settings.shell_command_prefix
        script = f"{prefix}\n{command}" if prefix else command
        return Command(argv=(shell, "-c", script), cwd=workspace.cwd, env={**os.environ, **MARKERS})


def shell_message(
    command: str, result: BashResult, exclude_from_context: Literal[True] | bool, timestamp: int
) -> HostMessage:
    """The message that the log keeps and the model reads."""
    fields: dict[str, Any] = {
        "command": command,
        "output": result.output,
        "cancelled": result.cancelled,
        "truncated": result.truncated,
    }
    if result.exit_code is not UNSET:
        fields["exitCode"] = result.exit_code
    if result.full_output_path is not UNSET:
        fields["fullOutputPath"] = result.full_output_path
    if exclude_from_context:
        fields["excludeFromContext"] = True
    return host_message("bashExecution", **fields, timestamp=timestamp)


def _from_hook(given: ShellResult) -> BashResult:
    return BashResult(
        given.output,
        given.cancelled,
        given.truncated,
        UNSET if given.exit_code is None else given.exit_code,
        UNSET if given.full_output_path is None else given.full_output_path,
    )


def _teller(
    conversation: Conversation, command_id: JsonValue | UnsetType, on_chunk: Callable[[str], None] | None
) -> Callable[[str], None]:
    def tell(text: str) -> None:
        conversation.emit(BashExecutionUpdate(id=command_id, delta=text))
        if on_chunk is not None:
            on_chunk(text)

    return tell

"""`AgentSession`: one conversation as a product. It puts the parts together and holds no rule of its own.

Where to look: what follows what is in `phases.py`; how a prompt comes in, `inbox.py`; how it is carried to its
settlement, `driver.py`; what is stored and told, `narrator.py`; what runs ask, `run_hooks.py`. What a caller sees has
rooms of its own, all over the same parts (`session_parts.py`): `session_state.py`, `session_talk.py`,
`session_switches.py`, `session_tools.py`, `session_context.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

from msgspec import UNSET, UnsetType

from antiphon.core.session_events import SessionInfoChanged
from antiphon.core.wire import JsonValue
from antiphon.errors import ConfigurationError
from antiphon.session import phases
from antiphon.session.session_context import SessionContext
from antiphon.session.session_switches import SessionSwitches
from antiphon.session.session_tools import SessionTools
from antiphon.session.user_shell import BashResult


@final
class AgentSession(SessionContext, SessionSwitches, SessionTools):
    """One conversation: written down while it happens, repeated when it fails, shortened when it grows too long.

    Made by `create_agent_session`. Close it with `dispose`, or use it in an `async with`.
    """

    # -- shell, names ---------------------------------------------------------------------------------------------

    async def execute_bash(
        self,
        command: str,
        *,
        exclude_from_context: bool = False,
        id: JsonValue | UnsetType = UNSET,  # noqa: A002 - the name on the wire
        on_chunk: Callable[[str], None] | None = None,
    ) -> BashResult:
        """Run a command of the user; its result becomes a message, after the settlement if a run is active."""
        return await self.shell.execute(command, exclude_from_context=exclude_from_context, id=id, on_chunk=on_chunk)

    def record_bash_result(self, command: str, result: BashResult, *, exclude_from_context: bool = False) -> None:
        self.shell.record(command, result, exclude_from_context=exclude_from_context)

    def abort_bash(self) -> None:
        self.shell.abort()

    def set_session_name(self, name: str) -> None:
        """Name the conversation.

        Raises:
            ConfigurationError: there is nothing in the name.
        """
        if not name.strip():
            raise ConfigurationError("Session name cannot be empty")
        self._c.log.set_name(name)
        known = self._c.log.name
        self._c.emit(SessionInfoChanged(name=UNSET if known is None else known))

    def append_entry(self, custom_type: str, data: Any) -> str:
        """Keep state of an extension in the log, where no model sees it; the id of the entry."""
        entry_id = self._c.log.append_custom(custom_type, data)
        self._c.entry_appended(entry_id)
        return entry_id

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Name an entry, or (None) take its name away."""
        self._c.log.set_label(entry_id, label)

    def begin_log(self, *, resumed: bool = False) -> None:
        """Write model and level into a new log; into one that somebody goes on with (`resumed`), what it lacks."""
        if resumed or not self._c.log.entry_count:
            self._choices.record()

    def report(self, what: str, error: BaseException, function: Callable[..., Any] | None = None) -> None:
        """Tell listeners that foreign code failed."""
        self._c.report(what, error, function)

    # -- life -----------------------------------------------------------------------------------------------------

    async def dispose(self) -> None:
        """Abort what goes on, write what is left, let go of the file. Always succeeds; a second call does nothing."""
        c = self._c
        if c.is_in(phases.Disposed):
            return
        self._suspends = bool(self._approvals.pending)
        self.request_abort("disposed")
        self.shell.abort()
        if not c.listeners.calls_this_task:
            await c.idle()
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """Let go of everything now, without waiting. Prefer `dispose` while something goes on."""
        c = self._c
        if c.is_in(phases.Disposed):
            return
        c.send(phases.Dispose())
        c.agent.abort("disposed")
        for leave in self._leave:
            leave()
        c.listeners.clear()
        with suppress(Exception):
            if self._has_moved and c.log.saved:
                c.log.move_to(c.log.leaf_id)  # so that whoever reopens it stands where the user stood
        with suppress(Exception):
            c.log.close()

    async def __aenter__(self) -> AgentSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispose()

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id}, {self.phase}>"

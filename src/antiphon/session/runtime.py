"""The current conversation and its replacement: new, another file, a fork, an import.

The successor is made first. Only when it exists is the old conversation aborted (so that what it was doing is stored)
and closed; if it cannot be made, the old one goes on as if nothing had been asked. One replacement at a time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct

from antiphon.core.content import text_of
from antiphon.core.messages import UserMessage
from antiphon.core.session_events import ReplacementReason, SessionChanged, SessionEvent
from antiphon.session.agent_session import AgentSession
from antiphon.session.hooks import NO_HOOKS, SessionHooks
from antiphon.session.listeners import Listeners, SessionListener
from antiphon.session.refusals import NotAForkPoint, NotSavedYet
from antiphon.session_log.entries import MessageEntry
from antiphon.session_log.log import SessionLog
from antiphon.session_log.port import Store
from antiphon.session_log.refusals import NoSuchEntry

Make: TypeAlias = Callable[[SessionLog], AgentSession]
"""Makes the session object over a log, with the services of the log's working folder."""
Position: TypeAlias = Literal["before", "at"]


@final
class Replacement(Struct, frozen=True):
    """`text`: the words of the message that was forked before, to be edited."""

    cancelled: bool
    text: str | None = None


CANCELLED = Replacement(cancelled=True)
DONE = Replacement(cancelled=False)


@final
class AgentSessionRuntime:
    """Owns the current session. `make` builds the object over a log; `store` is the folder of its sessions.

    `store_for` gives the folder of sessions of a working folder; left out, there is only the one. Made in a running
    event loop. Subscriptions made here follow every replacement.
    """

    def __init__(
        self,
        session: AgentSession,
        make: Make,
        store: Store,
        *,
        store_for: Callable[[str], Store] | None = None,
        hooks: SessionHooks = NO_HOOKS,
    ) -> None:
        self._session = session
        self._make = make
        self._store_for = store_for
        self.store = store
        """Where the next new, forked or imported session goes."""
        self._hooks = hooks
        self._listeners = Listeners()
        self._follow(session)
        self._turnstile = asyncio.Lock()
        self._unfollow: Callable[[], None]
        self.on_replaced: Callable[[AgentSession], None] = _nothing
        """Called with each new session before anything happens in it: bind a user interface here."""

    @property
    def session(self) -> AgentSession:
        """The current conversation."""
        return self._session

    @property
    def cwd(self) -> str:
        return self._session.cwd

    def subscribe(self, listener: SessionListener, *, barrier: bool = True, capacity: int = 1000) -> Callable[[], None]:
        """Be told every event of whatever conversation is the current one; a `session_changed` stands between two."""
        return self._listeners.subscribe(listener, barrier=barrier, capacity=capacity)

    def _follow(self, session: AgentSession) -> None:
        def pass_on(event: SessionEvent) -> Any:
            self._listeners.emit(event)
            return self._listeners.told() if self._listeners.is_busy else None

        self._unfollow = session.subscribe(pass_on)

    # -- replacing ------------------------------------------------------------------------------------------------

    async def new_session(
        self, *, parent: str | None = None, setup: Callable[[SessionLog], None] | None = None
    ) -> Replacement:
        """A new conversation in the same folder; `setup` may write into its log before anything else."""
        async with self._turnstile:
            if not await self._may_switch("new", None):
                return CANCELLED
            old = self._session.log
            log = self.store.in_memory() if old.is_in_memory else self.store.create(parent_session=parent)
            await self._replace(log, "new", setup)
            return DONE

    async def switch_session(self, path: str | Path, *, cwd: str | None = None) -> Replacement:
        """Go on with another session file, in its working folder, or (`cwd`) in another one. That of the current
        session changes nothing.

        Raises:
            SessionError: it cannot be opened, or its folder is gone; the current session stays.
        """
        async with self._turnstile:
            if not await self._may_switch("resume", str(path)):
                return CANCELLED
            if not _is_place_of(self._session.log, path):
                await self._replace(self.store.resume(path, cwd=cwd), "resume")
            return DONE

    async def import_jsonl(self, path: str | Path, *, cwd: str | None = None, fresh_id: bool = True) -> Replacement:
        """Copy a file from elsewhere into the folder of sessions, and go on with it.

        Raises:
            SessionError: it is no session, or its folder is gone; nothing was copied, the current session stays.
        """
        async with self._turnstile:
            if not await self._may_switch("resume", str(path)):
                return CANCELLED
            if not _is_place_of(self._session.log, path):
                await self._replace(self.store.import_file(path, cwd=cwd, fresh_id=fresh_id), "resume")
            return DONE

    async def fork(self, entry_id: str, position: Position = "before") -> Replacement:
        """A new session that begins with the path to an entry. `before`: in front of a message of the user.

        Raises:
            NoSuchEntry, NotAForkPoint, NotSavedYet: why not; the current session stays.
        """
        async with self._turnstile:
            log = self._session.log
            if not log.is_in_memory and not log.saved:
                raise NotSavedYet
            leaf, text = _fork_point(log, entry_id, position)
            if self._hooks.before_fork is not None and not await _agreed(self._hooks.before_fork(entry_id, position)):
                return CANCELLED
            await self._settle_current()
            await self._replace(self.store.fork(log, leaf), "fork")
            return Replacement(cancelled=False, text=text)

    async def clone(self) -> Replacement:
        """A copy of the active path as a session of its own.

        Raises:
            NoSuchEntry, NotSavedYet: there is nothing to copy.
        """
        leaf = self._session.log.leaf_id
        if leaf is None:
            raise NoSuchEntry(None)
        return await self.fork(leaf, "at")

    async def dispose(self) -> None:
        """Close the current session for good. Always succeeds."""
        async with self._turnstile:
            await self._tell_shutdown(self._session, "quit", None)
            await self._session.dispose()
            await self._listeners.told()
            self._listeners.clear()

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _may_switch(self, reason: str, target: str | None) -> bool:
        hook = self._hooks.before_switch
        return hook is None or await _agreed(hook(reason, target))

    async def _settle_current(self) -> None:
        """Abort what goes on, so that it is stored."""
        await self._session.abort("another session was asked for")

    async def _replace(
        self,
        log: SessionLog,
        reason: ReplacementReason,
        setup: Callable[[SessionLog], None] | None = None,
    ) -> None:
        """Make the successor, close the old one, let everybody know.

        Raises:
            AntiphonError: the successor cannot be made; the old one stays.
        """
        old = self._session
        try:
            if setup is not None:
                setup(log)
            successor = self._make(log)
            successor.begin_log(resumed=True)
        except BaseException:
            log.close()
            raise
        await self._settle_current()
        await self._tell_shutdown(old, reason, successor.session_file)
        self._unfollow()
        await old.dispose()
        self._session = successor
        if self._store_for is not None and successor.cwd != old.cwd:
            self.store = self._store_for(successor.cwd)
        self._follow(successor)
        self.on_replaced(successor)
        file = UNSET if successor.session_file is None else successor.session_file
        self._listeners.emit(SessionChanged(session_id=successor.session_id, session_file=file, reason=reason))
        await self._tell_start(reason, old.session_file)
        await self._listeners.told()

    async def _tell_shutdown(self, session: AgentSession, reason: str, target: str | None) -> None:
        await _called(self._hooks.session_shutdown, reason, target, session)

    async def _tell_start(self, reason: str, previous: str | None) -> None:
        await _called(self._hooks.session_start, reason, previous, self._session)


def _fork_point(log: SessionLog, entry_id: str, position: Position) -> tuple[str | None, str | None]:
    """The last entry of the fork, and the words that are handed back.

    Raises:
        NoSuchEntry, NotAForkPoint: there is no such place.
    """
    entry = log.entry(entry_id)
    if position == "at":
        return entry_id, None
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage):
        raise NotAForkPoint(entry_id)
    return entry.parent_id, text_of(entry.message.content)


def _is_place_of(log: SessionLog, place: str | Path) -> bool:
    """Is this the file, or in a database the id, of the current session? Then there is nothing to replace."""
    if log.path is None:
        return log.saved and log.session_id == str(place)
    return log.saved and log.path.resolve() == Path(place).resolve()


async def _agreed(answer: Any) -> bool:
    """Only a plain False refuses."""
    given = await answer if inspect.isawaitable(answer) else answer
    return given is not False


async def _called(hook: Callable[..., Any] | None, reason: str, other: str | None, session: AgentSession) -> None:
    """Call a hook whose answer does not matter; what it raises is reported."""
    if hook is None:
        return
    try:
        done = hook(reason, other)
        if inspect.isawaitable(done):
            await done
    except Exception as error:  # noqa: BLE001 - the border to extensions
        session.report("session", error, hook)


def _nothing(_session: AgentSession) -> None:
    return None

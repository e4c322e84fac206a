"""Saying that work is no longer wanted, and hearing it.

One controller aborts one signal, once; the first reason stays. A derived signal is aborted with its parent, or alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast, final


class Signal:
    """An abort signal (see `core.ports.AbortSignal`). Callbacks are called once, in order, in the aborting task."""

    __slots__ = ("_aborted", "_callbacks", "_reason")

    def __init__(self) -> None:
        self._aborted = False
        self._reason: str | None = None
        self._callbacks: dict[object, Callable[[], None]] | None = None

    @property
    def aborted(self) -> bool:
        return self._aborted

    @property
    def reason(self) -> str | None:
        return self._reason

    async def wait(self) -> None:
        """Returns when aborted; at once if it is."""
        if self.aborted:
            return
        woken = asyncio.get_running_loop().create_future()
        remove = self.on_abort(lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            remove()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when aborted (at once if it is). The returned function takes the callback back."""
        if self.aborted:
            callback()
            return _nothing
        key = object()
        if self._callbacks is None:
            self._callbacks = {}
        callbacks = self._callbacks
        callbacks[key] = callback
        return cast("Callable[[], None]", partial(callbacks.pop, key, None))  # what it gives concerns nobody

    def _abort(self, reason: str | None) -> None:
        if self._aborted:
            return
        self._aborted, self._reason = True, reason
        callbacks, self._callbacks = self._callbacks, None
        for callback in tuple((callbacks or {}).values()):  # a callback may take another one back
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - whoever listens must not keep the others from hearing
                _report(error)


def _nothing() -> None:
    return None


def _report(error: Exception) -> None:
    """A callback of an abort has failed: told the way the event loop tells failures of its own callbacks."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # aborted from outside of an event loop: there is nobody to tell
        return
    loop.call_exception_handler({"message": "a callback of an abort signal failed", "exception": error})


class AbortableSignal(Signal):
    """A signal for whoever may abort it; everybody else sees a `Signal`."""

    __slots__ = ()

    def abort(self, reason: str) -> None:
        """Abort; a second call changes nothing."""
        self._abort(reason)


@final
class DerivedSignal(AbortableSignal):
    """Aborted with its parent or by itself, never the other way round. Costs nothing until somebody listens."""

    __slots__ = ("_parent", "_unhook")

    def __init__(self, parent: Signal) -> None:
        super().__init__()
        self._parent = parent
        self._unhook: Callable[[], None] | None = None

    @property
    def aborted(self) -> bool:
        return self._aborted or self._parent.aborted

    @property
    def reason(self) -> str | None:
        return self._reason if self._aborted else self._parent.reason

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._unhook is None and not self.aborted:
            self._unhook = self._parent.on_abort(lambda: self._abort(self._parent.reason))
        return super().on_abort(callback)

    def release(self) -> None:
        """Let go of the parent: whoever listened has ended."""
        if self._unhook is not None:
            self._unhook()


@final
class AbortController:
    """Holds the right to abort its `signal`."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = Signal()

    def abort(self, reason: str | None = None) -> None:
        """Abort; a second call changes nothing.

        Belongs to the event loop of the run: from another thread use `loop.call_soon_threadsafe(controller.abort)`.
        (`Agent.abort` may be called from anywhere.)
        """
        self.signal._abort(reason)


@final
class _Never(Signal):
    """Never aborted, so it keeps no callbacks."""

    __slots__ = ()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        return _nothing


def never_aborted() -> Signal:
    """A signal for callers that cannot abort."""
    return _Never()

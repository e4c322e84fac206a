"""Questions of extensions to the person behind a client: asked on the wire, answered on the wire.

The agent's side owns the time limits. What a terminal could do besides (footers, editors of one's own, themes) is
silently not there. Source: modes specification 8.9.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal, final

from msgspec import UNSET

from antiphon.core.ports import AbortSignal
from antiphon.core.wire import JsonObject, encode
from antiphon.modes.rpc.protocol import UiAnswer

Level = Literal["info", "warning", "error"]
Placement = Literal["aboveEditor", "belowEditor"]


@final
class Dialogs:
    """The `ui` of extensions over a line. `tell` takes the line of a request."""

    mode = "rpc"
    has_ui = True

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._open: dict[str, asyncio.Future[UiAnswer | None]] = {}

    # -- questions

    async def select(
        self, title: str, options: Sequence[str], *, seconds: float | None = None, signal: AbortSignal | None = None
    ) -> str | None:
        """The option chosen; nothing if the person did not want to choose. At most so many `seconds`."""
        answer = await self._ask("select", seconds, signal, title=title, options=list(options))
        return answer.value if answer is not None and isinstance(answer.value, str) else None

    async def confirm(
        self, title: str, message: str, *, seconds: float | None = None, signal: AbortSignal | None = None
    ) -> bool:
        """Did the person agree?"""
        answer = await self._ask("confirm", seconds, signal, title=title, message=message)
        return answer is not None and answer.confirmed is True

    async def input(
        self,
        title: str,
        placeholder: str | None = None,
        *,
        seconds: float | None = None,
        signal: AbortSignal | None = None,
    ) -> str | None:
        """A line that the person typed; nothing if they did not want to."""
        answer = await self._ask("input", seconds, signal, title=title, placeholder=placeholder)
        return answer.value if answer is not None and isinstance(answer.value, str) else None

    async def editor(self, title: str, prefill: str | None = None, *, signal: AbortSignal | None = None) -> str | None:
        """A text that the person wrote; there is no time limit."""
        answer = await self._ask("editor", None, signal, title=title, prefill=prefill)
        return answer.value if answer is not None and isinstance(answer.value, str) else None

    # -- tellings

    def notify(self, message: str, notify_type: Level = "info") -> None:
        self._request("notify", message=message, notifyType=notify_type)

    def set_status(self, key: str, text: str | None) -> None:
        """A text of the status line; none clears it."""
        self._request("setStatus", statusKey=key, statusText=text)

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        """Lines beside the editor; none clears them."""
        self._request(
            "setWidget", widgetKey=key, widgetLines=None if lines is None else list(lines), widgetPlacement=placement
        )

    def set_title(self, title: str) -> None:
        self._request("setTitle", title=title)

    def set_editor_text(self, text: str) -> None:
        self._request("set_editor_text", text=text)

    # -- the other side

    def answer(self, given: UiAnswer) -> None:
        """What the client said. An id that is not (or no longer) open means nothing."""
        waiting = self._open.pop(given.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None if given.cancelled is True else given)

    def close(self) -> None:
        """Nobody will answer any more: every open question is dismissed."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_result(None)
        self._open.clear()

    async def _ask(
        self, method: str, seconds: float | None, signal: AbortSignal | None, **fields: Any
    ) -> UiAnswer | None:
        if signal is not None and signal.aborted:
            return None
        waiting: asyncio.Future[UiAnswer | None] = asyncio.get_running_loop().create_future()
        if seconds is not None:
            fields["timeout"] = round(seconds * 1000)
        id_ = self._request(method, **fields)
        self._open[id_] = waiting
        forget = None
        if signal is not None:
            forget = signal.on_abort(lambda: None if waiting.done() else waiting.set_result(None))
        try:
            return await asyncio.wait_for(waiting, seconds)
        except asyncio.TimeoutError:  # noqa: UP041 - the same class from 3.11 on, spelled as the library raises it
            return None
        finally:
            self._open.pop(id_, None)
            if forget is not None:
                forget()

    def _request(self, method: str, **fields: Any) -> str:
        id_ = str(uuid.uuid4())
        given: JsonObject = {name: value for name, value in fields.items() if value is not None and value is not UNSET}
        self._tell(encode({"type": "extension_ui_request", "id": id_, "method": method, **given}) + b"\n")
        return id_

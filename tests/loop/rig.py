"""What tests of loop and agent share: tools of one function, bounded waiting, legal traces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from antiphon.core.content import text_of
from antiphon.core.messages import Message, ToolResultMessage
from antiphon.core.policy import DEFAULT, Policy
from antiphon.core.trace import check_trace
from antiphon.testing import Recording

T = TypeVar("T")

GRACE = 0.01
QUICK = replace(DEFAULT, abort_grace=GRACE)
SECONDS = 5.0
"""Nothing that works takes so long: who waits longer hangs."""


class PlainTool:
    """A tool of one function; other attributes as given."""

    def __init__(self, name: str, execute: Callable[..., Any], **attributes: Any) -> None:
        self.name = name
        self.description = f"does {name}"
        self.parameters: dict[str, Any] = {"type": "object"}
        self.execute = execute
        vars(self).update(attributes)


async def within(awaitable: Awaitable[T], seconds: float = SECONDS) -> T:
    """The value, or `TimeoutError` instead of a hanging test."""
    async with asyncio.timeout(seconds):
        return await awaitable


def gives(text: str) -> Callable[..., Any]:
    """An async tool function that gives this text at once."""

    async def execute(*_: Any) -> str:
        return text

    return execute


async def never() -> None:
    """Waits until it is cancelled."""
    await asyncio.Event().wait()


class Stubborn:
    """Waits whatever happens, and counts the cancellations that it swallows; after `patience` of them it gives in.

    After some seconds it gives in anyway, so that a test that failed comes to its end.
    """

    def __init__(self, patience: int = 1_000) -> None:
        self.patience = patience
        self.swallowed = 0
        self.released = asyncio.Event()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(SECONDS + 1, self.released.set)
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                if self.swallowed >= self.patience:
                    raise
                self.swallowed += 1
        timer.cancel()


def legal(recording: Recording, policy: Policy = QUICK) -> None:
    """Every recorded run obeys the rules, and has an end."""
    check_trace(recording.events, policy)


def results(messages: Sequence[Message]) -> list[ToolResultMessage]:
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def result_texts(messages: Sequence[Message]) -> list[str]:
    return [text_of(message.content) for message in results(messages)]


def details(messages: Sequence[Message]) -> list[Any]:
    return [message.details for message in results(messages)]

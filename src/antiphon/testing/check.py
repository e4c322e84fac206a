"""Fixtures for pytest: nothing reaches the network, nothing is left running, every trace obeys the rules.

Switch them on in a `conftest.py` with `pytest_plugins = ["antiphon.testing.check"]` and name them where they are wanted
(`pytestmark = pytest.mark.usefixtures("no_network", "no_leaked_tasks")`). Needs pytest and pytest-asyncio.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

import pytest
import pytest_asyncio

from antiphon.core.events import AgentEvent
from antiphon.core.policy import DEFAULT, Policy
from antiphon.core.ports import AbortSignal
from antiphon.core.trace import check_trace
from antiphon.errors import ProtocolError
from antiphon.testing.recording import Recording


class NetworkRefused(AssertionError):  # a refusal, not a bug
    """A test wanted to leave this machine."""


class LeakedTasks(AssertionError):  # named for what was found
    """Tasks that were begun during a test are still alive behind it."""


class Subscribable(Protocol):
    """Anything that tells events to listeners."""

    def subscribe(self, listener: Callable[[AgentEvent, AbortSignal], Any], /) -> Callable[[], None]: ...


@contextmanager
def network_refused() -> Generator[None]:
    """Inside, sockets of this process reach only this machine; everything else raises `NetworkRefused`.

    Child processes and sockets made by C libraries are not covered.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        patch.setattr(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))
        yield


def _guarded(original: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, *given: Any) -> Any:
        address = given[-1]
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_local(address[0]):
            raise NetworkRefused(f"a test wanted to reach {address[0]}; only this machine is allowed")
        return original(self, *given)

    return guarded


def _guarded_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(host: Any, *given: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name and not is_local(name):
            raise NetworkRefused(f"a test wanted to look up {name}; only this machine is allowed")
        return original(host, *given, **options)

    return guarded


def is_local(host: str) -> bool:
    """Does this name or address mean this machine?"""
    if host in ("localhost", ""):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@asynccontextmanager
async def no_tasks_left(settling_turns: int = 25) -> AsyncGenerator[None]:
    """Behind it, no task is alive that was not there before; a few turns of the event loop are granted for goodbyes.

    Raises:
        LeakedTasks: names the tasks that are left. They are cancelled.
    """
    before = asyncio.all_tasks()
    yield
    for _ in range(settling_turns):
        if not _new_tasks(before):
            return
        await asyncio.sleep(0)
    left = _new_tasks(before)
    for task in left:
        task.cancel()
    if left:
        names = ", ".join(sorted(repr(task.get_coro()) for task in left))
        raise LeakedTasks(f"{len(left)} task(s) still alive: {names}")


def _new_tasks(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task not in before and task is not asyncio.current_task()}


class Watch(Protocol):
    """Attaches a recording to an agent; its runs are checked by the rules of the policy."""

    def __call__(self, agent: Subscribable, policy: Policy = DEFAULT) -> Recording: ...


def check_runs(recording: Recording, policy: Policy = DEFAULT) -> None:
    """Every recorded run obeys the rules of a legal event sequence, as far as this policy has them.

    Raises:
        AssertionError: names the run, the rule and the event.
    """
    for number, events in enumerate(recording.runs(), start=1):
        try:
            check_trace(events, policy)
        except ProtocolError as error:
            raise AssertionError(f"run {number} broke a rule: {error}") from error


@pytest.fixture
def no_network() -> Iterator[None]:
    """The test may reach this machine only."""
    with network_refused():
        yield


@pytest_asyncio.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """The test leaves no task behind."""
    async with no_tasks_left():
        yield


@pytest.fixture
def watch() -> Iterator[Watch]:
    """A function that attaches a recording to an agent; behind the test every run it heard is checked."""
    recordings: list[tuple[Recording, Policy]] = []

    def attach(agent: Subscribable, policy: Policy = DEFAULT) -> Recording:
        recording = Recording()
        agent.subscribe(recording)
        recordings.append((recording, policy))
        return recording

    yield attach
    for recording, policy in recordings:
        check_runs(recording, policy)

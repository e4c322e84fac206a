"""The fixtures: what they refuse, what they find, what they let pass."""

from __future__ import annotations

import asyncio
import socket

import pytest

from antiphon.core.events import AgentEnd, AgentStart, TurnStart
from antiphon.testing import Recording, World, calls, says
from antiphon.testing.check import (
    LeakedTasks,
    NetworkRefused,
    Watch,
    check_runs,
    is_local,
    network_refused,
    no_leaked_tasks,
    no_network,
    no_tasks_left,
    watch,
)

__all__ = ["no_leaked_tasks", "no_network", "watch"]  # fixtures, found by name


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "", "fe80::1%lo0"])
def test_this_machine_is_local_and_a_link_is_not(host: str) -> None:
    assert is_local(host) is not host.startswith("fe80")


@pytest.mark.parametrize("host", ["example.invalid", "10.0.0.1", "2001:db8::1"])
def test_other_machines_are_refused_by_name_and_by_address(host: str) -> None:
    with network_refused(), pytest.raises(NetworkRefused, match=host):
        socket.create_connection((host, 80), timeout=1)


def test_a_socket_cannot_go_around_the_lookup() -> None:
    with network_refused(), socket.socket() as plain, pytest.raises(NetworkRefused):
        plain.connect(("192.0.2.1", 80))


def test_datagrams_are_refused_too() -> None:
    with network_refused(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain, pytest.raises(NetworkRefused):
        plain.sendto(b"x", ("192.0.2.1", 53))


@pytest.mark.usefixtures("no_network")
async def test_this_machine_can_be_reached() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]

    reader, writer = await asyncio.open_connection(host, port)

    assert await reader.read() == b""
    writer.close()
    server.close()


async def test_a_task_left_behind_is_named_and_cancelled() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    with pytest.raises(LeakedTasks, match="forgotten"):
        async with no_tasks_left():
            task = asyncio.create_task(forgotten())

    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_broken_trace_is_named() -> None:
    recording = Recording()
    for event in (AgentStart(), TurnStart(), AgentEnd(messages=())):
        recording(event)

    with pytest.raises(AssertionError, match="run 1 broke a rule: "):
        check_runs(recording)


async def test_a_watched_agent_is_checked(watch: Watch) -> None:
    world = World([calls("A"), says("done")])
    recording = watch(world.agent)

    await world.prompt("go")

    assert recording.events == world.recording.events
    check_runs(recording)


@pytest.mark.usefixtures("no_leaked_tasks")
async def test_a_task_that_says_goodbye_is_no_leak() -> None:
    asyncio.create_task(asyncio.sleep(0))

"""The Python client against a real child."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.modes.children import Place, served
from tests.providers.fake_server import Answer, Break, Refuse

from antiphon.core.content import Image
from antiphon.modes.rpc.client import AgentGone, CommandFailed, RpcClient

SLOW = Break(Answer(text="never finished"), events=2, silent=True)


def client(place: Place, *arguments: str) -> RpcClient:
    return RpcClient(*arguments, cwd=place.cwd, env=place.environ)


async def test_asking_and_reading_events(place: Place) -> None:
    async with served(place, Answer(text="Hello", thinking="hm"), Refuse(400, "bad words")), client(place) as agent:
        events = agent.events()
        reply = await agent.ask("hi")
        assert (reply.text, reply.aborted, reply.stop_reason, reply.error) == ("Hello", False, "stop", None)
        assert reply.events[0]["type"] == "agent_start"
        assert reply.events[-1]["type"] == "agent_settled"
        failed = await agent.ask("again")
        assert (failed.stop_reason, failed.text) == ("error", "")
        assert failed.error is not None
        assert "bad words" in failed.error
        assert (await agent.state())["messageCount"] == 5
        assert [m["role"] for m in await agent.messages()][:2] == ["system", "user"]
        events.close()
        told = [record["type"] async for record in events]
        assert told.count("agent_settled") == 2


async def test_fields_may_be_spelled_as_in_python_and_refusals_are_raised(place: Place) -> None:
    async with served(place, SLOW) as server, client(place, "--no-session") as agent:
        image = Image(data="aGk=", mime_type="image/png")
        assert await agent.prompt("look", [image]) == "started"
        while not server.seen:
            await asyncio.sleep(0.01)
        with pytest.raises(CommandFailed, match="already processing"):
            await agent.prompt("and this")
        assert await agent.prompt("and this", streaming_behavior="followUp") == "queued"
        assert await agent.steer("left") == "queued"
        settled = asyncio.create_task(agent.wait_for("agent_settled"))
        await asyncio.sleep(0)
        await agent.abort()
        assert (await settled)["aborted"] is True
        cleared = await agent.call("clear_queue")
        assert (cleared["steering"], cleared["followUp"]) == (["left"], ["and this"])
        with pytest.raises(CommandFailed, match="`mode` must be"):
            await agent.call("set_steering_mode", mode="bogus")


async def test_the_death_of_the_process_is_told_to_everybody(place: Place) -> None:
    async with served(place, SLOW), client(place) as agent:
        asking = asyncio.create_task(agent.ask("hi"))
        await agent.wait_for("message_update")
        os.kill(agent.pid, 9)
        with pytest.raises(AgentGone, match="ended with -9"):
            await asking
        with pytest.raises(AgentGone):
            await agent.call("get_state")
        with pytest.raises(AgentGone):
            await anext(agent.events())


async def test_a_start_that_fails_says_why(place: Place) -> None:
    async with client(place, "--model", "nonsense-xyz") as agent:
        with pytest.raises(AgentGone, match="nonsense-xyz"):
            await agent.state()


async def test_closing_ends_the_process(place: Place) -> None:
    async with served(place):
        agent = client(place)
        await agent.start()
        await agent.state()
        assert await agent.stop() == 0
        assert not Path("/proc", str(agent.pid)).exists()


async def test_dialogs_are_answered() -> None:
    """A program that asks, in place of an agent with extensions."""
    program = """
import sys, json
def tell(**record):
    print(json.dumps(record), flush=True)
tell(type="extension_ui_request", id="u1", method="confirm", title="t", message="m")
tell(type="extension_ui_request", id="u2", method="notify", message="m")
tell(type="heard", answer=json.loads(sys.stdin.readline()))
sys.stdin.read()
"""
    executable = [sys.executable, "-c", program]
    async with RpcClient(executable=executable, dialog=lambda request: {"confirmed": request["title"] == "t"}) as agent:
        heard = await agent.wait_for("heard")
    assert heard["answer"] == {"type": "extension_ui_response", "id": "u1", "confirmed": True}


async def test_using_it_before_it_is_started() -> None:
    with pytest.raises(AgentGone, match="not started"):
        await RpcClient().call("get_state")

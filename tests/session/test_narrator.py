"""Stored first, then told; what cannot be stored ends the run, and nothing is forgotten when the disk comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs
from tests.session.stage import SETTINGS, Stage, texts
from tests.session_log.disks import FaultyDisk

from antiphon.core.content import Text
from antiphon.core.events import MessageEnd, TurnEnd
from antiphon.core.messages import AssistantMessage, Message, UserMessage
from antiphon.core.session_events import AgentSettled, SessionEvent
from antiphon.session.hooks import SessionHooks
from antiphon.session_log import SessionStore
from antiphon.session_log.entries import MessageEntry
from antiphon.session_log.refusals import SessionWriteFailed
from antiphon.testing import Gate, calls, says


async def test_a_listener_finds_in_the_log_what_it_is_told() -> None:
    """The reference tells first and writes afterwards."""
    stage = Stage([calls("A"), says("done")])
    found: list[bool] = []

    def listen(event: SessionEvent) -> None:
        if isinstance(event, MessageEnd):
            entry = stage.log.entry(str(event.entry_id))
            found.append(isinstance(entry, MessageEntry) and entry.message == event.message)

    stage.session.subscribe(listen)
    await stage.session.prompt("go")
    assert found == [True] * 5


async def test_a_listener_that_fails_changes_nothing() -> None:
    stage = Stage([says("done")])

    def broken(event: SessionEvent) -> None:
        if event.type != "extension_error":
            raise ValueError("no")

    stage.session.subscribe(broken)
    settlement = await stage.session.prompt("go")
    assert settlement.final_text == "done"
    assert "extension_error" in stage.told


async def test_a_replaced_message_is_stored_told_and_sent_in_place_of_the_original() -> None:
    def shout(message: Message) -> Message | None:
        if isinstance(message, AssistantMessage):
            return structs.replace(message, content=(Text(text="LOUD"),))
        return message if isinstance(message, UserMessage) else UserMessage(content="of another role")

    stage = Stage([says("quiet"), says("quiet")], hooks=SessionHooks(message_end=shout))
    await stage.session.prompt("go")
    await stage.session.prompt("go")

    assert texts(stage.session.messages)[:2] == ["user: go", "assistant: LOUD"]
    assert texts(stage.model.asked[1])[1] == "assistant: LOUD"
    assert stage.of(TurnEnd)[0].message.content == (Text(text="LOUD"),)


def on_disk(tmp_path: Path, disk: FaultyDisk, script: list[object]) -> Stage:
    """A session whose disk can be told to fail."""
    store = SessionStore(tmp_path, cwd=str(tmp_path), disk=disk)  # type: ignore[arg-type]
    return Stage(script, log=store.create(), settings=SETTINGS)  # type: ignore[arg-type]


async def test_a_result_that_could_not_be_stored_is_stored_as_soon_as_the_disk_is_back(tmp_path: Path) -> None:
    """The reference leaves the call without its result."""
    disk = FaultyDisk(-1)
    stage = on_disk(tmp_path, disk, [calls("A"), says("never")])

    def fail_once(event: SessionEvent) -> None:
        if event.type == "tool_execution_end":
            disk.count, disk.at, disk.only = 0, 1, ("write",)

    stage.session.subscribe(fail_once)
    settlement = await stage.session.prompt("go")

    assert settlement.reason == "error"
    assert len(stage.model.requests) == 1
    roles = [message.role for message in stage.log.messages() if message.role != "system"]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert texts(stage.session.messages) == texts(stage.log.messages())
    await stage.session.dispose()


async def test_a_disk_that_stays_full_is_an_error_of_the_prompt_after_it_has_settled(tmp_path: Path) -> None:
    disk = FaultyDisk(-1)
    stage = on_disk(tmp_path, disk, [says("one"), says("two"), says("three")])
    await stage.session.prompt("go")
    disk.count, disk.at, disk.forever, disk.only = 0, 1, True, ("write",)
    with pytest.raises(SessionWriteFailed):
        await stage.session.prompt("again")
    assert stage.session.is_idle

    disk.heal()
    assert (await stage.session.prompt("and now")).final_text
    assert texts(stage.session.messages) == texts(stage.log.messages())
    await stage.session.dispose()


async def test_a_barrier_listener_makes_the_run_wait() -> None:
    stage = Stage([says("done")])
    gate = Gate()

    async def slow(event: SessionEvent) -> None:
        if isinstance(event, AgentSettled):
            await gate.passed()

    stage.session.subscribe(slow)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await gate.reached()
    assert not going.done()
    gate.open()
    await going


async def test_notes_follow_the_turn_in_the_order_in_which_they_came() -> None:
    stage = Stage([calls("A"), says("done")])
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    for text in ("one", "two"):
        await stage.session.send_custom_message("note", text, trigger_turn=False)
    gate.open()
    await going
    place = stage.told.index("turn_end")
    assert stage.told[place + 1 : place + 5] == ["message_start custom", "message_end custom"] * 2
    assert [entry for entry in stage.kinds if entry == "custom_message"] == ["custom_message"] * 2

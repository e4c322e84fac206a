"""Random lives: a model that does anything, and people who do anything at any moment. What holds all the same:

every accepted prompt settles exactly once, and nothing follows; every call has its result before the next request; the
agent knows what the log says; what was queued is delivered or handed back; nothing is left running.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from tests.session.stage import FULL, LONG, MODEL, SETTINGS, Stage, texts

from antiphon.core.messages import Message, UserMessage
from antiphon.core.pairing import unanswered
from antiphon.core.ports import ModelRequest
from antiphon.core.session_events import AgentSettled, SessionEvent
from antiphon.core.usage import Usage
from antiphon.errors import AntiphonError
from antiphon.testing import Answer, CallScript, ScriptedTool, calls, cut_off, fails, falls_silent, says, settle

TOOLS = ("A", "B", "C")
SMALL = Usage(input=20, output=5, total_tokens=25)


class Chance:
    """A model, tools and people that act by the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.calls = CallScript()
        self.left = 40
        self.number = 0
        self.accepted = 0
        self.refused = 0
        self.dropped: list[str] = []
        self.said: list[str] = []
        self.actions = 12
        self.tasks: set[asyncio.Task[None]] = set()
        self.stage = Stage(
            [self.answer] * 400,
            tools=[ScriptedTool(name, self.calls) for name in TOOLS],
            settings=SETTINGS,
        )
        for name in TOOLS:
            self.calls.while_running(name, self.dawdle)
        self.stage.session.subscribe(self.react)

    # -- the model --------------------------------------------------------------------------------------------------

    def answer(self, request: ModelRequest) -> Answer:
        check_pairs(request.messages)
        self.left -= 1
        if self.left < 0:
            return says("enough")
        kinds = ["text", "text", "calls", "calls", "busy", "denied", "overflow", "cut", "full", "silent", "cut calls"]
        match self.dice.choice(kinds):
            case "calls":
                return calls(*self.dice.sample(TOOLS, self.dice.randint(1, 3))).costing(SMALL)
            case "busy":
                return fails("overloaded", after=self.dice.choice([says("half"), calls("A"), None]))
            case "denied":
                return fails("401 Unauthorized")
            case "overflow":
                return fails("prompt is too long")
            case "cut":
                return cut_off(says(LONG)).costing(SMALL)
            case "cut calls":
                return cut_off(calls("A")).costing(SMALL)
            case "full":
                return says(LONG).costing(FULL)
            case "silent":
                self.later(lambda: self.stage.session.request_abort("silence"))
                return falls_silent(says("..."))
            case _:
                return says(LONG).costing(SMALL)

    async def dawdle(self) -> None:
        for _ in range(self.dice.randint(0, 6)):
            await asyncio.sleep(0)

    # -- people -----------------------------------------------------------------------------------------------------

    def later(self, act: Any) -> None:
        async def soon() -> None:
            for _ in range(self.dice.randint(1, 12)):
                await asyncio.sleep(0)
            try:
                done = act()
                if asyncio.iscoroutine(done):
                    await done
            except AntiphonError:
                self.refused += 1

        task = asyncio.ensure_future(soon())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def react(self, event: SessionEvent) -> None:
        if self.actions and event.type != "message_update" and self.dice.random() < 0.12:
            self.actions -= 1
            self.later(self.dice.choice([self.say, self.say, self.stop, self.shrink, self.rest, self.note, self.clear]))
            if self.dice.random() < 0.2:
                self.dice.choice([self.say, self.clear, lambda: self.stage.session.request_abort("inside")])()

    def text(self) -> str:
        self.number += 1
        self.said.append(f"text {self.number}")
        return self.said[-1]

    def say(self) -> None:
        behavior = self.dice.choice([None, "steer", "followUp"])
        self.hand_in(self.text(), behavior, self.dice.choice(["start", "queue"]))

    def hand_in(self, text: str, behavior: Any, when_idle: Any = "start") -> None:
        def known(answer: Any) -> None:
            if answer == "started":
                self.accepted += 1
            elif isinstance(answer, BaseException):
                self.said.remove(text)

        if when_idle == "queue" and behavior is None:
            behavior = "steer"
        submission = self.stage.session.submit(text, streaming_behavior=behavior, when_idle=when_idle)
        submission.on_accepted(known)

    async def stop(self) -> None:
        await self.stage.session.abort()

    async def shrink(self) -> None:
        await self.stage.session.compact()

    def rest(self) -> None:
        session = self.stage.session
        session.set_thinking_level(self.dice.choice(["off", "high"]))
        session.set_model(self.dice.choice(["scripted/one", "scripted/two"]))
        session.set_session_name(f"name {self.number}")

    async def note(self) -> None:
        options = self.dice.choice(
            [{}, {"trigger_turn": False}, {"deliver_as": "followUp"}, {"deliver_as": "nextTurn"}]
        )
        await self.stage.session.send_custom_message("note", "a note", **options)  # type: ignore[arg-type]

    def clear(self) -> None:
        cleared = self.stage.session.clear_queue()
        self.dropped += [*cleared.steering, *cleared.follow_up]

    # -- a life -----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        pump = asyncio.ensure_future(self.pump())
        async with asyncio.timeout(20):
            for _ in range(4):
                self.hand_in(self.text(), None)
                while self.tasks or not self.stage.session.is_idle:
                    await asyncio.sleep(0)
                await self.stage.session.wait_for_idle()
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)

    async def pump(self) -> None:
        """Time passes whenever nothing else happens."""
        clock = self.stage.clock.virtual
        while True:
            await settle()
            if clock.sleeping:
                with suppress(LookupError):  # whoever slept was cancelled meanwhile
                    await clock.advance_to_next()


def check_pairs(messages: Any) -> None:
    """Every call of a request has its result right behind it."""
    assert unanswered(messages) == ()


def settled_in_order(events: list[SessionEvent]) -> int:
    """How often it settled; what belongs to a run never stands outside of one."""
    settled = 0
    inside = False
    for event in events:
        if event.type == "agent_start":
            inside = True
        elif isinstance(event, AgentSettled):
            settled += 1
            inside = False
        elif event.type in ("turn_start", "turn_end", "agent_end", "tool_execution_start", "auto_retry_start"):
            assert inside, f"{event.type} outside of a run"
    assert not inside
    return settled


async def check(seed: int) -> Chance:
    chance = Chance(seed)
    await chance.live()
    stage = chance.stage
    assert stage.session.phase == "idle"
    assert settled_in_order(stage.events) == chance.accepted
    assert texts(stage.session.messages) == texts(stage.log.messages())
    everything: list[Message] = [e.message for e in stage.log.entries() if e.type == "message"]  # type: ignore[union-attr]
    check_pairs(everything)
    delivered = Counter(t for m in everything if isinstance(m, UserMessage) for t in texts([m]))
    waiting = [*stage.session.get_steering_messages(), *stage.session.get_follow_up_messages()]
    kept = Counter(f"user: {text}" for text in chance.said if text not in chance.dropped and text not in waiting)
    assert delivered == kept
    assert stage.model.open_streams == 0
    assert stage.session.pending_message_count == len(waiting)
    assert stage.session.model is not None
    assert stage.session.model.provider == MODEL.provider
    await stage.session.dispose()
    return chance


@pytest.mark.parametrize("seed", range(60))
async def test_a_random_life_keeps_its_promises(seed: int) -> None:
    await check(seed)


async def test_the_dice_reach_every_phase_and_every_kind_of_event() -> None:
    """A walk that only sees fair weather proves nothing."""
    seen: set[str] = set()
    for seed in range(60):
        chance = Chance(seed)
        await chance.live()
        seen |= {event.type for event in chance.stage.events}
    assert seen >= {
        "agent_settled",
        "auto_retry_start",
        "auto_retry_end",
        "compaction_start",
        "compaction_end",
        "queue_update",
        "entry_appended",
        "model_changed",
        "thinking_level_changed",
    }


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
async def test_many_random_lives_keep_their_promises(block: int) -> None:
    for seed in range(1_000 + 100 * block, 1_100 + 100 * block):
        await check(seed)

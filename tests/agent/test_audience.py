"""What a run sees of its agent: leases of queued messages, and who is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.loop.rig import QUICK, legal, within

from antiphon.agent.audience import Queues, RunAudience
from antiphon.agent.listeners import Listeners
from antiphon.agent.view import View
from antiphon.core.events import TurnStart
from antiphon.core.hooks import NextTurn
from antiphon.core.messages import Message, user
from antiphon.core.queues import Queued
from antiphon.core.transcript import Transcript
from antiphon.loop.abort import never_aborted
from antiphon.testing import World, brief, calls, says

S1, S2, F1 = user("s1"), user("s2"), user("f1")


def queues(*steering: Message, follow_up: tuple[Message, ...] = (), mode: Any = "all") -> Queues:
    made = Queues(mode, mode)
    for number, message in enumerate(steering):
        made.steering = made.steering.push(Queued(f"s{number}", message))
    for number, message in enumerate(follow_up):
        made.follow_up = made.follow_up.push(Queued(f"f{number}", message))
    return made


def test_what_was_leased_and_not_delivered_goes_back_to_the_head_in_order() -> None:
    """D3."""
    made = queues(S1, S2, follow_up=(F1,))
    assert made.poll_steering() == (S1, S2)
    assert made.poll_follow_up() == (F1,)
    late = user("late")
    made.steering = made.steering.push(Queued("late", late))
    made.delivered()

    made.give_back()

    assert made.clear("steering", "follow_up") == (S2, late, F1)
    assert not made


def test_nothing_leased_gives_nothing_back() -> None:
    made = queues(S1)
    made.give_back()
    assert (made.poll_steering(), made.poll_steering(), made.poll_follow_up()) == ((S1,), (), ())


def test_clearing_one_queue_leaves_the_lease_of_the_other() -> None:
    made = queues(S1, follow_up=(F1,))
    made.poll_steering()
    made.poll_follow_up()

    assert made.clear("follow_up") == (F1,)
    assert made.cleared == (F1,)
    made.give_back()
    assert made.poll_steering() == (S1,)


def test_what_is_committed_cannot_be_cleared() -> None:
    made = queues(S1, S2)
    made.poll_steering()
    made.committed = len(made.leased)

    assert made.clear("steering") == ()
    made.delivered()
    made.delivered()
    assert not made.leased


def audience(made: Queues, *, returns: bool = True) -> tuple[RunAudience, Listeners]:
    listeners = Listeners(raises=False)
    return RunAudience(View(Transcript()), listeners, made, never_aborted(), returns=returns), listeners


def test_a_profile_that_returns_nothing_names_it_instead() -> None:
    made = queues(S1)
    seen, _ = audience(made, returns=False)
    leased = made.poll_steering()

    assert seen.give_back(leased) == (S1,)
    assert (bool(made), len(made.leased)) == (False, 0)
    again, _ = audience(queues(S1))
    assert again.give_back(()) == ()


def test_withdrawn_messages_are_told_once() -> None:
    made = queues(S1)
    seen, _ = audience(made)
    made.poll_steering()
    made.clear("steering")

    assert (seen.withdrawn(), seen.withdrawn()) == ((S1,), ())
    assert not seen.queued()


async def test_there_is_nobody_behind_a_listener_that_nobody_waited_for() -> None:
    seen, listeners = audience(queues())
    event = TurnStart()
    assert seen.resume(event) is None
    listeners.subscribe(lambda *_: asyncio.sleep(0), critical=False)
    listeners.subscribe(lambda *_: None, critical=False)
    waiting = seen.tell(event)
    assert waiting is not None
    assert seen.resume(TurnStart()) is None
    await waiting
    rest = seen.resume(event)
    assert rest is not None
    await rest


# -- through an agent: queue plus transcript hold every accepted message once, in order --------------------------------


def held_once(world: World, *texts: str) -> None:
    told = [str(message.content) for message in world.messages if message.role == "user"]
    waiting = [str(message.content) for message in world.agent.clear_all_queues()]
    assert [text for text in told + waiting if text in texts] == list(texts)


@pytest.mark.requirement("S3-65")
@pytest.mark.parametrize("mode", ["one-at-a-time", "all"])
@pytest.mark.parametrize("moment", ["message_start user", "message_end user", "turn_start", "turn_end"])
@pytest.mark.parametrize("what", ["raise", "abort", "cancel", "critical"])
async def test_steering_survives_whatever_happens_around_its_announcement(mode: Any, moment: str, what: str) -> None:
    world = World([says("one"), *[says("more")] * 9], policy=QUICK, close_timeout=0.02, steering_mode=mode)
    seen: list[str] = []

    def listener(event: Any, _signal: Any) -> None:
        if brief(event) == "message_end assistant" and not seen:
            seen.append("answered")
            for message in (S1, S2):
                world.agent.steer(message)
        elif brief(event) == moment and seen == ["answered"]:
            seen.append("struck")
            if what == "abort":
                world.agent.abort()
            elif what == "cancel":
                prompt.cancel()
            else:
                raise ValueError(what)

    world.agent.subscribe(listener, critical=what == "critical")
    prompt = world.start("go")
    await asyncio.wait([prompt], timeout=5)

    assert prompt.done()
    legal(world.recording)
    held_once(world, "s1", "s2")


@pytest.mark.parametrize("hook", ["prepare_next_turn", "prepare_request", "transform_context", "finish_turn"])
async def test_steering_survives_a_hook_that_fails_behind_its_poll(hook: str) -> None:
    asked: list[int] = []

    def fails(*given: Any) -> Any:
        asked.append(1)
        if len(asked) > 1 or hook == "prepare_next_turn":
            raise ValueError("mine")
        return given[0] if hook == "transform_context" else None

    world = World([calls("A"), says("never")], policy=QUICK, **{hook: fails})
    for text in ("s1", "s2"):
        world.steer_while_running("A", user(text))
    world.follow_up_while_running("A", user("f1"))
    await within(world.prompt("go"))

    assert world.outcome.reason == "error"
    legal(world.recording)
    held_once(world, "s1", "s2", "f1")


async def test_prepared_messages_that_were_not_announced_are_named() -> None:
    prepared = user("prepared")

    def aborts(*_: Any) -> NextTurn:
        world.agent.abort()
        return NextTurn(messages=[prepared])

    world = World([calls("A"), says("never")], policy=QUICK, prepare_next_turn=aborts)
    world.steer_while_running("A", S1)
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.undelivered) == ("aborted", (prepared,))
    held_once(world, "s1")


async def test_where_nothing_is_returned_the_lost_are_at_least_named() -> None:
    def aborts(*_: Any) -> None:
        world.agent.abort()

    losing = replace(QUICK, return_undelivered=False)
    world = World([calls("A"), says("never")], policy=losing, prepare_next_turn=aborts)
    world.steer_while_running("A", S1)
    await within(world.prompt("go"))

    assert world.outcome.undelivered == (S1,)
    assert not world.agent.has_queued_messages

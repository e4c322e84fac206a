"""A recorded conversation goes the same way again, or the first difference is named."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.core.other_machine import loop_on
from tests.core.planted import MOST_STEPS, REAL, Core, _at_most, catches, planted
from tests.core.planted_faults import PLANTED
from tests.testing.conversations import conversations, recorded

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, SystemMessage, ToolResultMessage, user
from antiphon.modes.commands.replay import run as replay_command
from antiphon.modes.output import Output
from antiphon.session_log.store import SessionStore
from antiphon.testing import World, call, calls, cut_off, fails, says
from antiphon.testing.replay import assert_replays, replay


async def test_words_and_tools_come_out_alike() -> None:
    messages = await recorded([says("a") + calls("A", "B"), says("done"), says("more")], "one", "two")
    report = await replay(messages)
    assert (report.messages, report.difference) == (len(messages), None)
    await assert_replays(messages)


async def test_steering_and_follow_ups_stand_where_they_stood() -> None:
    world = World([calls("A"), says("b"), says("c")])
    world.steer_while_running("A", "turn left")
    world.follow_up_while_running("A", "and then")
    await world.prompt("go")
    await assert_replays(list(world.messages))


async def test_answers_that_failed_or_were_cut_off() -> None:
    messages = await recorded(
        [fails("overloaded"), says("fine"), cut_off(call("A")), says("end")], "one", "two", "three"
    )
    report = await replay(messages)
    assert report.difference is None, str(report.difference)
    assert report.runs > 1


async def test_a_changed_result_is_the_first_difference() -> None:
    messages = await recorded([calls("A", "B"), says("done")], "one")
    at = next(n for n, m in enumerate(messages) if isinstance(m, ToolResultMessage))
    messages[at] = structs.replace(messages[at], tool_name="other")
    report = await replay(messages)
    assert report.difference is not None
    assert (report.difference.at, report.difference.what) == (at, "toolName of the toolResult message")
    assert report.messages == at
    with pytest.raises(AssertionError, match=f"message {at}: toolName"):
        await assert_replays(messages)


async def test_a_missing_result_is_a_difference() -> None:
    messages = await recorded([calls("A"), says("done")], "one")
    without = [message for message in messages if not isinstance(message, ToolResultMessage)]
    report = await replay(without)
    assert report.difference is not None
    assert report.difference.recorded is not None
    assert report.difference.played is not None
    assert (report.difference.recorded["role"], report.difference.played["role"]) == ("assistant", "toolResult")


async def test_an_answer_that_nothing_leads_to_is_a_difference() -> None:
    messages = await recorded([says("a")], "one")
    report = await replay([*messages, AssistantMessage(content=(Text(text="b"),), stop_reason="stop")])
    assert report.difference is not None
    assert report.difference.at == len(messages)


async def test_results_of_a_tool_that_is_no_longer_declared() -> None:
    """Its calls were answered then; today's loop would say that it does not exist."""
    messages = await recorded([calls("A"), says("done")], "one")
    bare = [structs.replace(m, tools_added=()) if isinstance(m, SystemMessage) else m for m in messages]
    report = await replay(bare)
    assert report.difference is not None
    assert "toolResult" in report.difference.what


async def test_nothing_is_nothing() -> None:
    assert (await replay([])).difference is None
    assert (await replay([user("hello")])).messages == 1


# ---- a changed loop -------------------------------------------------------------------------------------------------


def played_on(core: Core) -> None:
    """Conversations of the real loop are played again by another one.

    Raises:
        AssertionError: the first difference.
    """
    taken = 0

    def bounded(state: Any, given: Any) -> Any:
        nonlocal taken
        taken += 1
        assert taken < MOST_STEPS, "the run does not end"
        return core.step(state, given)

    for messages in conversations():
        with loop_on(bounded, core.table), _at_most(2.0):
            report = asyncio.run(replay(messages, core.profiles["default"]))
        assert report.difference is None, str(report.difference)
        assert report.messages == len(messages)


NAMED = ("results are swapped", "one result is forgotten", "truncated calls run", "follow-ups are never asked")
"""Changes that anybody who uses the loop would notice."""


def test_the_loop_of_today_makes_the_same_of_them() -> None:
    played_on(REAL)


@pytest.mark.parametrize("name", NAMED)
def test_a_planted_change_of_the_loop_is_found(name: str) -> None:
    (fault,) = [fault for fault in PLANTED if fault.name == name]
    assert catches(played_on, planted(fault))


@pytest.mark.slow
def test_how_many_planted_changes_are_found() -> None:
    """Replay knows no aborts, limits and hooks of the recorded host, so it cannot find what is wrong with them."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    found = [fault.name for fault in PLANTED if catches(played_on, planted(fault))]
    print(f"replay finds {len(found)} of {len(PLANTED)} planted faults")
    assert len(found) >= 35


def test_the_command_finds_it_in_a_session_file(tmp_path: Path) -> None:
    with SessionStore(tmp_path, cwd=str(tmp_path)).create() as log:
        for message in conversations()[0]:
            log.append_message(message)
        path = str(log.path)
    (fault,) = [fault for fault in PLANTED if fault.name == "results are swapped"]
    core = planted(fault)
    assert replay_command([path], Output()) == 0
    with loop_on(core.step, core.table):
        assert replay_command([path], Output()) == 1

"""A recorded conversation goes the same way again, or the first difference is named."""

from __future__ import annotations

import pytest
from msgspec import structs

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, user
from antiphon.testing import Answer, World, call, calls, cut_off, fails, says
from antiphon.testing.replay import assert_replays, replay


async def recorded(script: list[Answer], *prompts: str) -> list[Message]:
    """A conversation of an agent, as it would be stored."""
    world = World(script)
    for prompt in prompts:
        await world.prompt(prompt)
    return list(world.messages)


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

"""Rows of the specification that a short scene proves: what a run is, what a turn is, what comes in which order."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import LoopConfig, run_agent_loop, run_agent_loop_continue, tool
from antiphon.core.content import Image, Text, ToolCall
from antiphon.core.events import MessageEnd, MessageStart, ToolExecutionEnd, ToolExecutionStart, TurnEnd
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage, ToolResultMessage, UserMessage, user
from antiphon.testing import SCRIPTED_MODEL, ScriptedModel, ScriptedTool, World, call, calls, says, who

requirement = pytest.mark.requirement


@tool
async def calculate(a: int, b: int) -> str:
    """Multiply two numbers."""
    return str(a * b)


@requirement("S3-46", "S3-6", "S3-18", "S3-102")
async def test_the_events_of_a_plain_answer() -> None:
    world = World([says("Hel", "lo")])

    await world.prompt("hi")

    assert [t for t in world.recording.types if t != "message_update"] == [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_end",
        "turn_end",
        "agent_end",
    ]
    updates = [e.assistant_message_event.type for e in world.recording if e.type == "message_update"]
    assert updates == ["text_start", "text_delta", "text_delta", "text_end"]
    assert world.outcome.reason == "stop"


@requirement("S3-51", "S3-2", "S3-47", "S3-48", "S3-103", "S1-1", "S1-2", "S1-20", "S0-3", "S0-33")
async def test_a_call_is_answered_before_the_model_is_asked_again() -> None:
    """The reference scenario: 123 times 456, four messages, two requests, no key."""
    world = World([call("calculate", {"a": 123, "b": 456}), says("It is 56088.")], tools=[calculate])

    messages = await world.prompt("What is 123 × 456?")

    assert [who(m) for m in messages] == ["user", "assistant", "result calculate", "assistant"]
    result = messages[2]
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_call_id, result.tool_name, result.content) == ("calculate", "calculate", (Text(text="56088"),))
    assert len(world.requests) == 2
    assert [who(m) for m in world.requests[1]][-3:] == ["user", "assistant", "result calculate"]


@requirement("S3-49", "S3-17", "S3-55", "S0-29", "S3-4")
async def test_the_events_of_an_answer_with_one_call() -> None:
    world = World([calls("A"), says("done")])
    world.calls.updates["A"] = ["half", "nearly"]

    await world.prompt("go")

    assert world.recording.log == [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
        "message_end assistant",
        "tool_execution_start A",
        "tool_execution_update A",
        "tool_execution_update A",
        "tool_execution_end A",
        "message_start result A",
        "message_end result A",
        "turn_end",
        "turn_start",
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "agent_end",
    ]


@requirement("S3-12", "S3-13", "S3-14", "X2", "S0-61")
async def test_a_turn_is_one_answer_with_all_its_results() -> None:
    """Two calls in one answer are one turn; the next turn needs no new user message."""
    world = World([calls("A", "B"), says("done")])

    await world.prompt("go")

    first, second = world.recording.of(TurnEnd)
    assert [r.tool_call_id for r in first.tool_results] == ["A", "B"]
    assert second.tool_results == ()


@requirement("S3-7", "S1-4", "S1-6", "S3-67")
async def test_a_follow_up_brings_a_second_task_into_the_same_run() -> None:
    world = World([calls("A"), says("first task done"), says("second task done")])
    world.follow_up_while_running("A", "and now the second")

    messages = await world.prompt("do the first")

    assert len(world.recording.runs()) == 1
    assert [who(m) for m in messages] == ["user", "assistant", "result A", "assistant", "user", "assistant"]
    assert [e.type for e in world.recording].count("turn_start") == 3


@requirement("S3-3", "S3-26", "S0-12", "S0-63")
async def test_a_run_gives_back_only_what_is_new() -> None:
    world = World([says("one"), says("two")])
    first = await world.prompt("1")

    second = await world.prompt("2")

    assert [who(m) for m in second] == ["user", "assistant"]
    assert tuple(world.messages) == (*first, *second)
    assert world.requests[1] == (*first, second[0])
    assert world.outcome.turns == 1


@requirement("S0-16", "S0-17", "S0-18", "S0-44", "S0-45", "S0-46", "S1-22", "S3-59", "S3-102")
async def test_three_orders() -> None:
    """Starts in call order, ends in order of completion, results in call order."""
    world = World([calls("slow", "fast"), says("done")])
    gate = world.hold("slow")
    running = world.start("go")
    await world.recording.heard("tool_execution_end fast")
    assert world.calls.executed_ids == ["slow", "fast"]

    gate.open()
    messages = await running

    assert [e.tool_call_id for e in world.recording.of(ToolExecutionStart)] == ["slow", "fast"]
    assert [e.tool_call_id for e in world.recording.of(ToolExecutionEnd)] == ["fast", "slow"]
    assert [who(m) for m in messages] == ["user", "assistant", "result slow", "result fast", "assistant"]
    assert [r.tool_call_id for r in world.recording.of(TurnEnd)[0].tool_results] == ["slow", "fast"]


@requirement("S3-57", "X13")
@pytest.mark.parametrize("by", ["config", "tool"])
async def test_calls_run_one_by_one_if_config_or_a_tool_says_so(by: str) -> None:
    script = [calls("A", "B"), says("done")]
    world = World(script, tool_execution="sequential") if by == "config" else World(script)
    if by == "tool":
        shy = ScriptedTool("B", world.calls, execution_mode="sequential")
        world.agent.tools = [ScriptedTool("A", world.calls), shy]
    gate = world.hold("A")
    running = world.start("go")
    await world.running("A")
    assert world.calls.executed_ids == ["A"]

    gate.open()
    await running

    assert [line for line in world.recording.log if " A" in line or " B" in line] == [
        "tool_execution_start A",
        "tool_execution_end A",
        "message_start result A",
        "message_end result A",
        "tool_execution_start B",
        "tool_execution_end B",
        "message_start result B",
        "message_end result B",
    ]


@requirement("S0-9", "S0-25", "S1-9", "S1-10", "S3-53", "S3-54", "X10")
async def test_a_growing_answer_is_seen_and_never_stored() -> None:
    """The live view shows one message that grows; the transcript has it once, when it is final."""
    world = World([says("Hel", "lo")])
    seen: list[tuple[str, int]] = []

    def look(event: Any, _signal: Any) -> None:
        if event.type == "message_update":
            live = world.agent.streaming_message
            seen.append(("".join(b.text for b in live.content if isinstance(b, Text)), len(world.messages)))

    world.agent.subscribe(look)
    await world.prompt("hi")

    assert seen == [("", 1), ("Hel", 1), ("Hello", 1), ("Hello", 1)]
    assert [who(m) for m in world.messages] == ["user", "assistant"]
    assert world.agent.streaming_message is None


@requirement("S3-41")
async def test_even_an_empty_list_of_prompts_asks_once() -> None:
    model = ScriptedModel([says("hello again")])
    heard: list[str] = []

    outcome = await run_agent_loop(
        [], Context([user("hi")]), LoopConfig(model=SCRIPTED_MODEL), lambda e: heard.append(e.type), None, model
    )

    assert [who(m) for m in outcome.new_messages] == ["assistant"]
    assert heard[:2] == ["agent_start", "turn_start"]


@requirement("S1-15", "S1-16", "S0-20", "S3-22", "S3-37", "S3-119")
async def test_the_loop_needs_context_config_emit_and_a_stream_and_changes_none_of_them() -> None:
    history = [user("hi")]
    tools: list[Any] = [calculate]
    model = ScriptedModel([call("calculate", {"a": 2, "b": 3}), says("6")])

    outcome = await run_agent_loop_continue(
        Context(history, tools), LoopConfig(model=SCRIPTED_MODEL), lambda _event: None, None, model
    )

    assert [who(m) for m in outcome.new_messages] == ["system", "assistant", "result calculate", "assistant"]
    assert history == [user("hi")]
    assert tools == [calculate]


@requirement("S3-34")
async def test_a_text_becomes_a_user_message_and_messages_are_taken_as_they_are() -> None:
    world = World([says("a"), says("b")])
    picture = Image(data="AAAA", mime_type="image/png")
    await world.agent.prompt("look", [picture])

    first = world.messages[0]
    assert isinstance(first, UserMessage)
    assert first.content == (Text(text="look"), picture)
    assert first.timestamp == world.clock.now_ms()

    given = [user("one", timestamp=7), user("two", timestamp=8)]
    await world.prompt(given)
    assert list(world.messages[2:4]) == given


@requirement("S0-27")
async def test_calls_are_those_of_the_final_message() -> None:
    world = World([says("Let me look. ") + calls("A"), says("done")])

    messages = await world.prompt("go")

    answer = messages[1]
    assert isinstance(answer, AssistantMessage)
    assert [type(block) for block in answer.content] == [Text, ToolCall]
    assert world.calls.executed_ids == ["A"]


@requirement("S3-109", "S3-79", "X7")
async def test_many_turns_do_not_deepen_the_stack_and_are_not_stopped() -> None:
    """A loop, not recursion: far more turns than Python's stack has frames, all with the same call."""
    world = World([*[calls("A")] * 1500, says("done")])

    await world.prompt("go")

    assert world.outcome.reason == "stop"
    assert world.outcome.turns == 1501
    assert len(world.calls.executed) == 1500


@requirement("S3-44")
async def test_steering_that_waits_belongs_to_the_first_turn() -> None:
    world = World([says("ok")])
    world.agent.steer("in English, please")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "user", "assistant"]
    assert world.recording.types.count("turn_start") == 1


@requirement("S0-10", "S3-44", "S3-45", "S3-66", "S3-102", "S1-5", "S3-65")
async def test_queued_input_never_stands_between_a_call_and_its_result() -> None:
    world = World([calls("A", "B"), says("changed")])
    world.steer_while_running("A", "stop that")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "result B", "user", "assistant"]
    assert world.recording.log.index("turn_end") < world.recording.log.index("message_start user", 4)


@requirement("S1-7", "S1-8", "S3-43", "S3-67")
async def test_tools_and_steering_come_before_follow_ups() -> None:
    """Both wait while a tool works: the calls end, steering is answered, then the follow-up, then the run ends."""
    world = World([calls("A"), says("changed"), says("second task done")])
    world.follow_up_while_running("A", "and then the second task")
    world.steer_while_running("A", "in another way")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "user", "assistant", "user", "assistant"]
    assert [m.content for m in messages if isinstance(m, UserMessage)][1:] == [
        "in another way",
        "and then the second task",
    ]
    assert [who(request[-1]) for request in world.requests] == ["user", "user", "user"]
    assert len(world.recording.runs()) == 1


@requirement("S3-29", "S3-27")
async def test_the_entry_declares_opens_announces_and_then_asks() -> None:
    heard: list[str] = []

    def note(event: Any) -> None:
        heard.append(f"{event.type} {who(event.message)}" if event.type == "message_end" else event.type)

    def asked(_request: Any) -> Any:
        heard.append("asked")
        return says("hello")

    outcome = await run_agent_loop(
        [user("hi")], Context(tools=[calculate]), LoopConfig(model=SCRIPTED_MODEL), note, None, ScriptedModel([asked])
    )

    before = heard[: heard.index("asked")]
    assert [line for line in before if line != "message_start"] == [
        "agent_start",
        "turn_start",
        "message_end system",
        "message_end user",
    ]
    assert [who(m) for m in outcome.new_messages] == ["system", "user", "assistant"]


@requirement("S0-19", "S0-21", "S3-15", "S3-50", "S3-27")
async def test_prompt_and_tools_are_history_and_are_always_sent() -> None:
    """They are in system messages; a change is told with events and counts as new."""
    world = World([says("a"), says("b")], system_prompt="Be brief.", tools=[calculate])
    await world.prompt("1")
    first = world.requests[0][0]
    assert first.role == "system"
    assert first.content == "Be brief."
    assert [t.name for t in first.tools_added] == ["calculate"]

    world.agent.tools = []
    messages = await world.prompt("2")

    assert [who(m) for m in messages] == ["system", "user", "assistant"]
    assert messages[0] in [e.message for e in world.recording.of(MessageStart)]
    assert messages[0] in [e.message for e in world.recording.of(MessageEnd)]

"""Scenario packs of the agent core: play each line against the loop or the agent and compare the record.

The parts: `core_stage` builds what surrounds a run, `core_recorder` writes the record and fires triggers,
`core_model`, `core_tools`, `core_hooks` are the scripted outside, `core_agent` plays the steps of a stateful agent,
`core_compare` names the first difference. Here are the five low-level entries and the whole of one case.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

from tests.conformance import core_agent
from tests.conformance.core_compare import first_difference, normal, resolved
from tests.conformance.core_events import event_item, mark_of
from tests.conformance.core_hooks import Queue
from tests.conformance.core_recorder import Operation
from tests.conformance.core_stage import Stage
from tests.conformance.core_values import (
    API,
    DEFAULT_MODEL,
    DEFAULT_PROVIDER,
    JsonDict,
    message,
    messages,
    model_of,
    plain,
    plain_messages,
)

from antiphon.core.calls import ToolResult
from antiphon.core.events import AgentEvent
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.policy import PI, Policy
from antiphon.loop.abort import AbortController
from antiphon.loop.config import LoopConfig
from antiphon.loop.entry import agent_loop, agent_loop_continue, run_agent_loop, run_agent_loop_continue
from antiphon.loop.tool_call import run_tool_call

SECONDS_PER_SCENARIO = 20.0
POLLS = {
    "steering": ("getSteeringMessages", "get_steering_messages"),
    "followUp": ("getFollowUpMessages", "get_follow_up_messages"),
}


def run_pack(
    cases: Iterable[Mapping[str, Any]], policy: Policy = PI, *, seconds: float = SECONDS_PER_SCENARIO
) -> Iterator[tuple[str, str | None]]:
    """Play every case of a pack; gives (id, None) for a passed one and (id, first difference) for the others."""
    for case in cases:
        yield case["id"], play_and_compare(case, policy, seconds=seconds)


def play_and_compare(
    case: Mapping[str, Any], policy: Policy = PI, *, seconds: float = SECONDS_PER_SCENARIO
) -> str | None:
    """The first difference between what a scenario expects and what happens; None if there is none."""
    expected = dict(case["expected"])
    table = expected.pop("table", [])
    try:
        actual = asyncio.run(record_of(case["scenario"], policy, seconds))
    except Exception as error:  # noqa: BLE001  # whatever breaks is the verdict on this scenario, not the end of the pack
        return f"{type(error).__name__}: {error}"
    wanted, got = normal(resolved(expected, table)), normal(actual)
    for part in ("trace", "events"):  # where things began to differ says more than what was left over
        difference = first_difference(wanted.get(part, []), got.get(part, []), f".{part}")
        if difference is not None:
            return difference
    return first_difference(wanted, got)


async def record_of(
    scenario: Mapping[str, Any], policy: Policy = PI, seconds: float = SECONDS_PER_SCENARIO
) -> JsonDict:
    """The record of one scenario in the form of `expected`, references resolved."""
    stage = Stage(scenario)
    try:
        async with asyncio.timeout(seconds):
            outcome = await ENTRIES[scenario["entry"]](stage, policy)
    except TimeoutError:
        last = stage.recorder.trace[-1] if stage.recorder.trace else "nothing"
        raise AssertionError(f"still running after {seconds} s; last item: {json.dumps(last)[:300]}") from None
    record: JsonDict = {"trace": stage.recorder.trace, "outcome": outcome}
    if scenario["entry"] in ("stream", "streamContinue"):
        record["events"] = stage.recorder.events
    if stage.recorder.idle:
        record["idle"] = stage.recorder.idle
    if stage.model.responses_left:
        record["responsesLeft"] = stage.model.responses_left
    return record


class LowLevel:
    """Context, configuration and signal of a low-level entry, and the operations that its triggers may perform."""

    def __init__(self, stage: Stage, policy: Policy) -> None:
        self._stage = stage
        given = stage.scenario
        self.settings: Mapping[str, Any] = given.get("config", {})
        self.controller = AbortController()
        self.signal = None if self.settings.get("signal") is False else self.controller.signal
        if self.settings.get("preAborted"):
            self.controller.abort()
        self.queues = {
            name: Queue(hook, given["queues"][name], stage.recorder)
            for name, (hook, _option) in POLLS.items()
            if name in given.get("queues", {})
        }
        stage.recorder.perform = self._perform
        self.policy = policy

    def context(self) -> Context:
        given = self._stage.scenario.get("context", {})
        return Context(messages=messages(given.get("messages")), tools=self._stage.catalogue.named(given.get("tools")))

    def prompts(self) -> list[Any]:
        return messages(self._stage.scenario.get("prompts"))

    def config(self) -> LoopConfig:
        polls = {POLLS[name][1]: queue.poll for name, queue in self.queues.items()}
        return LoopConfig(
            model=model_of(self.settings.get("model")),
            thinking_level=self.settings.get("thinking", "off"),
            tool_execution=self.settings.get("toolExecution", "parallel"),
            policy=self.policy,
            api_key=self.settings.get("apiKey"),
            **polls,
            **self._stage.hooks.installed(),
        )

    async def emit(self, event: AgentEvent) -> None:
        item = event_item(event)
        self._stage.recorder.note(item, mark_of(item))

    async def _perform(self, operation: Operation) -> None:
        match operation["do"]:
            case "abort":
                self.controller.abort()
            case "steer" | "followUp" as name:
                queue = self.queues["steering" if name == "steer" else "followUp"]
                queue.add(core_agent.queued(operation))
            case name:
                raise AssertionError(f"operation {name} needs an agent")


async def play_run(stage: Stage, policy: Policy) -> JsonDict:
    low = LowLevel(stage, policy)
    return await _told(run_agent_loop(low.prompts(), low.context(), low.config(), low.emit, low.signal, stage.model))


async def play_continue(stage: Stage, policy: Policy) -> JsonDict:
    low = LowLevel(stage, policy)
    return await _told(run_agent_loop_continue(low.context(), low.config(), low.emit, low.signal, stage.model))


async def play_stream(stage: Stage, policy: Policy) -> JsonDict:
    low = LowLevel(stage, policy)
    return await _told(
        _consumed(stage, lambda: agent_loop(low.prompts(), low.context(), low.config(), low.signal, stage.model))
    )


async def play_stream_continue(stage: Stage, policy: Policy) -> JsonDict:
    low = LowLevel(stage, policy)
    return await _told(
        _consumed(stage, lambda: agent_loop_continue(low.context(), low.config(), low.signal, stage.model))
    )


async def play_tool_call(stage: Stage, policy: Policy) -> JsonDict:
    low = LowLevel(stage, policy)
    given = stage.scenario["call"]
    asked: AssistantMessage = message(  # type: ignore[assignment]
        {
            "role": "assistant",
            "content": [given],
            "api": API,
            "provider": DEFAULT_PROVIDER,
            "model": DEFAULT_MODEL,
            "usage": 0,
            "stopReason": "toolUse",
        }
    )

    def on_update(partial: ToolResult | str) -> None:
        item = {"update": given["id"], "partial": plain(partial)}
        stage.recorder.note(item, {"event": "tool_execution_update", "call": given["id"]})

    hooks = stage.hooks.installed()
    outcome = await run_tool_call(
        asked.content[0],  # type: ignore[arg-type]
        tools=stage.catalogue.all,
        assistant_message=asked,
        context=low.context(),
        signal=low.signal,
        on_update=on_update if low.settings.get("onUpdate", True) else None,
        policy=policy,
        **{name: hooks[name] for name in ("before_tool_call", "after_tool_call") if name in hooks},
    )
    return {"call": given["id"], "result": plain(outcome.result), "isError": outcome.is_error}


async def _consumed(stage: Stage, begin: Callable[[], Any]) -> Any:
    """Read an event stream to its end, then its result."""
    stream = begin()
    async for event in stream:
        item = event_item(event)
        stage.recorder.note(item, mark_of(item), into=stage.recorder.events)
    return await stream.result()


async def _told(running: Awaitable[Any]) -> JsonDict:
    """What a low-level entry gave back or raised."""
    try:
        outcome = await running
    except Exception as error:  # noqa: BLE001  # the text of whatever escapes is compared
        return {"raised": str(error)}
    return {"returned": plain_messages(outcome.new_messages)}


Entry = Callable[[Stage, Policy], Awaitable[JsonDict]]

ENTRIES: dict[str, Entry] = {
    "run": play_run,
    "continue": play_continue,
    "stream": play_stream,
    "streamContinue": play_stream_continue,
    "agent": core_agent.play,
    "toolCall": play_tool_call,
}

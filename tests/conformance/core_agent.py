"""Scenarios of the stateful agent: its steps, the listeners that watch it, its state as plain data."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tests.conformance.core_events import event_item, mark_of
from tests.conformance.core_recorder import Operation
from tests.conformance.core_stage import Stage
from tests.conformance.core_values import (
    JsonDict,
    ScriptedError,
    cut,
    message,
    messages,
    model_of,
    plain_message,
    plain_messages,
)

from antiphon.agent import Agent
from antiphon.core.content import content_from_wire
from antiphon.core.events import AgentEvent
from antiphon.core.messages import Message
from antiphon.core.policy import Policy
from antiphon.core.ports import AbortSignal

AWAITED = ("prompt", "continue", "reset", "waitForIdle")


async def play(stage: Stage, policy: Policy) -> JsonDict:
    """Execute the steps of an agent scenario; the outcome."""
    agent = build(stage, policy)
    player = Player(agent, stage)
    stage.recorder.perform = player.perform_in_trigger
    for step in stage.scenario["steps"]:
        await player.perform(step)
        await player.let_waiters_tell()
    await agent.wait_for_idle()
    await player.finish_waiting()
    return {"state": state_of(agent)}


def build(stage: Stage, policy: Policy) -> Agent:
    """The agent that `scenario.agent` describes."""
    given: Mapping[str, Any] = stage.scenario.get("agent", {})
    named = given.get("model", {})
    model = {} if named is None else {"model": model_of(named)}  # null: construct the agent without a model
    return Agent(
        stream=stage.model,
        **model,
        system_prompt=given.get("systemPrompt", ""),
        tools=stage.catalogue.named(given.get("tools", [])) or [],
        messages=messages(given.get("messages")),
        thinking_level=given.get("thinking", "off"),
        tool_execution=given.get("toolExecution", "parallel"),
        steering_mode=given.get("steeringMode", "one-at-a-time"),
        follow_up_mode=given.get("followUpMode", "one-at-a-time"),
        policy=policy,
        session_id=given.get("sessionId"),
        options=request_options(given),
        **stage.hooks.installed(),
    )


def request_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Request options that the scenario sets. The transport is the reference agent's default."""
    options: dict[str, Any] = {"transport": "auto"}
    if "maxRetryDelayMs" in given:
        options["max_retry_delay_ms"] = given["maxRetryDelayMs"]
    if "thinkingBudgets" in given:
        options["thinking_budgets"] = given["thinkingBudgets"]
    return options


class Player:
    """Performs operations on an agent, as steps or out of triggers."""

    def __init__(self, agent: Agent, stage: Stage) -> None:
        self._agent = agent
        self._stage = stage
        self._recorder = stage.recorder
        self._waiting: list[asyncio.Task[None]] = []
        self._subscribed: dict[str, Callable[[], None]] = {}
        self._listeners: dict[str, Listener] = {}
        agent.subscribe(self._record_event)
        for given in stage.scenario.get("listeners", ()):
            self._listeners[given["name"]] = Listener(given, stage)
            if not given.get("later"):
                self._subscribe(given["name"])

    async def perform(self, operation: Operation) -> None:
        """Carry out one step and record it if it is an awaited one."""
        name = operation["do"]
        if name not in AWAITED:
            self._act(operation)
            return
        item: JsonDict = {"op": name}
        try:
            await self._call(operation)
            item["ok"] = True
        except Exception as error:  # noqa: BLE001  # refusals and what a run lets out: all of it is the record's matter
            item["raised"] = str(error)
        self._recorder.note_quietly(item)

    async def perform_in_trigger(self, operation: Operation) -> None:
        """The same inside a run, where waiting for its end would wait for ever."""
        if operation["do"] == "waitForIdle":
            self._waiting.append(asyncio.create_task(self._note_idle()))
        else:
            await self.perform(operation)

    async def let_waiters_tell(self) -> None:
        """Who waited for the end of a run tells what it left, not what the next step makes of it."""
        while self._waiting and not self._agent.is_streaming:
            await self._waiting.pop(0)

    async def finish_waiting(self) -> None:
        """Wait until every `waitForIdle` of a trigger has been told."""
        for task in self._waiting:
            await task

    async def _note_idle(self) -> None:
        await self._agent.wait_for_idle()
        self._recorder.idle.append({"isStreaming": self._agent.is_streaming, "messages": len(self._agent.messages)})

    async def _call(self, operation: Operation) -> None:
        match operation["do"]:
            case "prompt":
                images = content_from_wire(operation.get("images"))
                await self._agent.prompt(prompt_of(operation), images=images)  # type: ignore[arg-type]
            case "continue":
                await self._agent.continue_()
            case "reset":
                done = self._agent.reset()
                if inspect.isawaitable(done):
                    await done
            case _:
                await self._agent.wait_for_idle()

    def _act(self, operation: Operation) -> None:
        agent = self._agent
        match operation["do"]:
            case "abort":
                agent.abort()
            case "steer":
                agent.steer(queued(operation))
            case "followUp":
                agent.follow_up(queued(operation))
            case "clearSteering":
                agent.clear_steering_queue()
            case "clearFollowUp":
                agent.clear_follow_up_queue()
            case "clearAll":
                agent.clear_all_queues()
            case "peek":
                self._recorder.note_quietly(peeked(agent))
            case "state":
                self._recorder.note_quietly({"op": "state", "state": state_of(agent)})
            case "subscribe":
                self._subscribe(operation["listener"])
            case "unsubscribe":
                self._subscribed.pop(operation["listener"])()
            case _:
                self._assign(operation)

    def _assign(self, operation: Operation) -> None:
        agent = self._agent
        match operation["do"]:
            case "setSteeringMode":
                agent.steering_mode = operation["mode"]
            case "setFollowUpMode":
                agent.follow_up_mode = operation["mode"]
            case "setTools":
                agent.tools = self._stage.catalogue.named(operation["tools"]) or []
            case "setMessages":
                agent.messages = cut(list(agent.messages), operation)
            case "setModel":
                agent.model = model_of(operation["model"])
            case "setThinking":
                agent.thinking_level = operation["thinking"]
            case name:
                raise AssertionError(f"unknown operation {name}")

    def _subscribe(self, name: str) -> None:
        self._subscribed[name] = self._agent.subscribe(self._listeners[name])

    async def _record_event(self, event: AgentEvent, _signal: AbortSignal) -> None:
        item = event_item(event)
        item["st"] = glimpse(self._agent)
        self._recorder.note(item, mark_of(item))


class Listener:
    """An extra listener: records what it hears, may be slow, may raise."""

    def __init__(self, given: Mapping[str, Any], stage: Stage) -> None:
        self._given = given
        self._recorder = stage.recorder
        self._heard: Counter[str] = Counter()

    def __call__(self, event: AgentEvent, _signal: AbortSignal) -> Coroutine[Any, Any, None] | None:
        kind = event.type
        return self._react(kind) if kind in self._given.get("on", (kind,)) else None

    async def _react(self, kind: str) -> None:
        item: JsonDict = {"listener": self._given["name"], "of": kind}
        self._heard[kind] += 1
        self._recorder.note(item, item)
        if self._given.get("slow"):
            for _ in range(self._given["slow"]):
                await asyncio.sleep(0)
            self._recorder.note_quietly({**item, "done": True})
        for rule in self._given.get("throwAt", ()):
            if rule["event"] == kind and rule.get("n", 1) in ("every", self._heard[kind]):
                raise ScriptedError(rule["message"])


def prompt_of(operation: Operation) -> str | Message | Sequence[Message]:
    if "messages" in operation:
        return messages(operation["messages"])
    return message(operation["message"]) if "message" in operation else operation["text"]


def queued(operation: Operation) -> Message:
    """The message that a `steer` or `followUp` operation queues."""
    return message(operation.get("message") or {"role": "user", "content": operation["text"]})


def peeked(agent: Agent) -> JsonDict:
    return {
        "op": "peek",
        "hasQueued": agent.has_queued_messages,
        "next": plain_messages(agent.peek_queued_messages()),
        "modes": [agent.steering_mode, agent.follow_up_mode],
    }


def glimpse(agent: Agent) -> list[Any]:
    """The state as an event item tells it."""
    live = agent.streaming_message
    return [
        agent.is_streaming,
        None if live is None else plain_message(live),
        sorted(agent.pending_tool_calls),
        agent.error_message or None,
        len(agent.messages),
    ]


def state_of(agent: Agent) -> JsonDict:
    """The full state as plain data."""
    streaming, live, pending, error, _count = glimpse(agent)
    return {
        "systemPrompt": agent.system_prompt,
        "model": agent.model.id,
        "thinking": agent.thinking_level,
        "tools": [tool.name for tool in agent.tools],
        "messages": plain_messages(agent.messages),
        "isStreaming": streaming,
        "streaming": live,
        "pending": pending,
        "error": error,
        "hasQueued": agent.has_queued_messages,
    }

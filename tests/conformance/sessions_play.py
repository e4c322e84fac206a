"""The pack `agent-session`: scripted answers against a whole session object, over a real file.

Times are real but short; the clock of messages and entries counts, so that no two of them are equal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from msgspec import UNSET, structs
from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_values import T0, expanded

from antiphon.core.content import ToolCall, block_from_wire, text_of
from antiphon.core.messages import AssistantMessage, Message, message_from_wire, message_to_wire
from antiphon.core.model import Model
from antiphon.core.ports import AbortSignal, ModelRequest, OnUpdate
from antiphon.core.response_events import Done, Failed, ResponseEvent, Start
from antiphon.core.session_events import SessionEvent
from antiphon.core.usage import Usage
from antiphon.core.wire import to_wire
from antiphon.errors import AntiphonError
from antiphon.session.create import Services, create_agent_session
from antiphon.session.ports import GivenModels
from antiphon.session.retry import RetrySettings
from antiphon.session.settings import SessionSettings
from antiphon.session_log import SessionLog, SessionStore, Sources
from antiphon.session_log.branches import BRANCH_PREAMBLE
from antiphon.session_log.calls import CALL_STARTED
from antiphon.session_log.compaction import CompactionSettings
from antiphon.session_log.compaction.summary import NO_HISTORY, SPLIT_HEADING, SYSTEM_PROMPT
from antiphon.session_log.entries import CustomEntry, MessageEntry, entry_to_wire
from antiphon.tools import LocalWorkspace

Json = Any
OURS = frozenset({"model_changed", "session_changed", "message_update", "tool_execution_update"})
"""Events that the records do not have, or leave out."""


def run_agent_session(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    return asyncio.run(_run(expanded(case), folder))


async def _run(case: Json, folder: Path) -> str | None:
    play = Play(case, folder)
    async with asyncio.timeout(20):
        for action in case["actions"]:
            await play.act(action)
        await play.finish()
    got = play.found()
    await play.session.dispose()
    return first_difference(normal(case["expect"]), normal(got))


def normal(record: Json) -> Json:
    """Without the words that each implementation chooses itself; results have no order."""
    out = {key: value for key, value in record.items() if key != "results"}
    out["results"] = sorted([_without_words(r) for r in record["results"]], key=json.dumps)
    out["events"] = [_without_words(event) for event in record["events"]]
    return cast("Json", _same_names(out))


def _without_words(item: Json) -> Json:
    item = dict(item)
    if "error" in item:
        item["error"] = True
    if item.get("type") == "compaction_end" and "errorMessage" in item:
        item["errorMessage"] = True
    message = item.get("message")
    if item.get("type") == "message_start" and message and message.get("stopReason") == "pending":
        item["message"] = {k: v for k, v in message.items() if k != "errorMessage"}
    return item


ALIASES = {
    "${NO_HISTORY}": NO_HISTORY,
    "${SPLIT_HEADING}": SPLIT_HEADING,
    "${BRANCH_PREAMBLE}": BRANCH_PREAMBLE,
}
_WORDED = ("Request was aborted", "Operation aborted")


def _same_names(value: Json) -> Json:
    if isinstance(value, str):
        for name, real in ALIASES.items():
            value = value.replace(real, name)
        if value.startswith("Not executed: the answer was cut off"):
            return "${TRUNCATED_CALL}"
        return "aborted" if value in _WORDED or value.startswith("Operation aborted while") else value
    if isinstance(value, list):
        return [_same_names(item) for item in value]
    return {k: _same_names(item) for k, item in value.items()} if isinstance(value, dict) else value


# ---- the scripted world ---------------------------------------------------------------------------------------------


class CountingClock:
    """Every look is a millisecond later; waiting is real."""

    def __init__(self) -> None:
        self._now = T0 + 86_400_000

    def now_ms(self) -> int:
        self._now += 1
        return self._now

    def monotonic(self) -> float:
        return asyncio.get_event_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ScriptedAnswers:
    """Answers requests in order; one too many fails."""

    def __init__(self, responses: list[Json], clock: CountingClock) -> None:
        self.responses = list(responses)
        self.requests: list[Json] = []
        self._clock = clock

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        self.requests.append(_request(request))
        given = self.responses.pop(0) if self.responses else {"stopReason": "error", "errorMessage": "no answer left"}
        return self._play(given, request)

    async def _play(self, given: Json, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        message = _answer(given, request.model, self._clock.now_ms())
        yield Start(message=structs.replace(message, content=(), stop_reason="pending", error_message=UNSET))
        if given.get("hang"):
            await request.signal.wait()
        elif "delay" in given:
            await _slept(given["delay"], request.signal)
        if request.signal.aborted:
            aborted = structs.replace(message, content=(), stop_reason="aborted", error_message="Request was aborted")
            yield Failed(reason="aborted", error=aborted)
        elif message.stop_reason in ("error", "aborted"):
            yield Failed(reason=message.stop_reason, error=message)
        else:
            yield Done(reason=message.stop_reason, message=message)


async def _slept(delay_ms: int, signal: AbortSignal) -> None:
    waits = (asyncio.ensure_future(asyncio.sleep(delay_ms / 1000)), asyncio.ensure_future(signal.wait()))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in waits:
        task.cancel()


def _answer(given: Json, model: Model, now_ms: int) -> AssistantMessage:
    content = tuple(block_from_wire(block) for block in given.get("content", ()))
    has_calls = any(type(block) is ToolCall for block in content)
    usage = given.get("usage") or {"input": 10, "output": 5, "totalTokens": 15}
    wire = {
        "role": "assistant",
        "content": [],
        "api": model.api,
        "provider": model.provider,
        "model": model.id,
        "usage": usage,
        "stopReason": given.get("stopReason") or ("toolUse" if has_calls else "stop"),
        "timestamp": now_ms,
    }
    if "errorMessage" in given:
        wire["errorMessage"] = given["errorMessage"]
    message = message_from_wire(wire)
    assert isinstance(message, AssistantMessage)
    assert isinstance(message.usage, Usage)
    return structs.replace(message, content=content)


def _request(request: ModelRequest) -> Json:
    first = request.messages[0] if len(request.messages) else None
    if first is not None and first.role == "system" and text_of(first.content) == SYSTEM_PROMPT:
        return {"summary": True}
    talk = [message for message in request.messages if message.role != "system"]
    last = text_of(talk[-1].content) if talk else ""
    return {"roles": [message.role for message in talk], "last": last[:60], "model": request.model.id}


class Echo:
    """The one tool: says something, after a while, or fails."""

    name = "echo"
    description = "Say something"
    parameters: Json = {"type": "object", "properties": {}, "additionalProperties": True}

    async def execute(self, _call_id: str, args: Json, signal: AbortSignal, _update: OnUpdate) -> str:
        if args.get("delay"):
            await _slept(args["delay"], signal)
        if signal.aborted:
            raise RuntimeError("Operation aborted")
        if args.get("fail"):
            raise RuntimeError("tool failed")
        return cast("str", args.get("say", "echoed"))


FAUX = Model(id="faux-1", provider="faux", api="faux", reasoning=True, context_window=100_000, max_tokens=4096)


class Play:
    """One case: the session, the actions, and what they lead to."""

    def __init__(self, case: Json, folder: Path) -> None:
        self.case = case
        self.clock = CountingClock()
        self.answers = ScriptedAnswers(case["responses"], self.clock)
        window, most = case.get("contextWindow", 100_000), case.get("maxTokens", 4096)
        first = structs.replace(FAUX, context_window=window, max_tokens=most)
        second = structs.replace(FAUX, id="faux-2", reasoning=False, context_window=1_000_000)
        sources = Sources(now_ms=self.clock.now_ms)
        store = SessionStore(folder / "sessions", cwd=str(folder), sources=sources)
        log = store.create()
        for message in case.get("history", ()):
            log.append_message(message_from_wire(message))
        services = Services(
            cwd=str(folder),
            models=GivenModels(self.answers, (first, second)),
            settings=_settings(case.get("settings", {})),
            workspace=LocalWorkspace(str(folder)),
        )
        self.session = create_agent_session(
            services,
            log,
            model=first,
            thinking_level="off",
            no_tools="builtin",
            custom_tools=(Echo(),),
            clock=self.clock,
        ).session
        self.models = {"faux-1": first, "faux-2": second}
        self.results: list[Json] = []
        self.events: list[Json] = []
        self._during = [{"left": watch.get("nth", 1), **watch} for watch in case.get("during", ())]
        self._tasks: list[asyncio.Task[None]] = []
        self.session.subscribe(self._hear)

    # -- events -------------------------------------------------------------------------------------------------------

    def _hear(self, event: SessionEvent) -> None:
        if event.type in OURS:
            return
        self.events.append(_event(event))
        for watch in self._during:
            if watch["left"] and _fits(event, watch["on"]):
                watch["left"] -= 1
                if not watch["left"]:
                    self._tasks.append(asyncio.ensure_future(self._act_later(watch)))

    async def _act_later(self, watch: Json) -> None:
        if "after" in watch:
            await asyncio.sleep(watch["after"] / 1000)
        for action in watch["actions"]:
            await self.act(action)

    async def finish(self) -> None:
        while self._tasks:
            await self._tasks.pop(0)
        await self.session.wait_for_idle()

    # -- actions ------------------------------------------------------------------------------------------------------

    async def act(self, action: Json) -> None:
        result: Json = {"do": action["do"]}
        try:
            result["ok"] = await ACTIONS[action["do"]](self, action)
        except (AntiphonError, ValueError):
            result["error"] = True
        self.results.append(result)

    def entry_of(self, find: Json) -> str:
        for entry in self.session.log.entries():
            if isinstance(entry, MessageEntry) and _said(entry.message) == (find["role"], find["text"]):
                return entry.id
        raise LookupError(find)

    # -- what has come of it ------------------------------------------------------------------------------------------

    def found(self) -> Json:
        log = self.session.log
        kept, parents = _without_records(log)
        ids = [entry.id for entry in kept]
        leaf = parents.get(log.leaf_id, log.leaf_id)
        matches = [message_to_wire(m) for m in self.session.messages] == [message_to_wire(m) for m in log.messages()]
        return {
            "results": self.results,
            "events": self.events,
            "requests": self.answers.requests,
            "unusedResponses": len(self.answers.responses),
            "entries": _entries(log, self.case["expect"]["entries"]),
            "leaf": ids.index(leaf) if leaf is not None else None,
            "context": [_message(message) for message in log.messages() if message.role != "system"],
            "agentMatchesProjection": matches,
            "idle": self.session.is_idle and not self.session.agent.is_streaming,
        }


def _settings(given: Json) -> SessionSettings:
    retry = {"enabled": True, "maxRetries": 2, "baseDelayMs": 1, **given.get("retry", {})}
    compaction = {"enabled": True, "reserveTokens": 1000, "keepRecentTokens": 50, **given.get("compaction", {})}
    return SessionSettings(
        retry=RetrySettings(
            enabled=retry["enabled"],
            max_retries=retry["maxRetries"],
            base_delay_ms=retry["baseDelayMs"],
            max_delay_ms=retry.get("maxAgentDelayMs", 60_000),
        ),
        compaction=CompactionSettings(
            compaction["enabled"], compaction["reserveTokens"], compaction["keepRecentTokens"]
        ),
        steering_mode=given.get("steeringMode", "one-at-a-time"),
        follow_up_mode=given.get("followUpMode", "one-at-a-time"),
    )


def _fits(event: SessionEvent, on: Json) -> bool:
    if event.type != on["event"]:
        return False
    if "role" in on and getattr(getattr(event, "message", None), "role", None) != on["role"]:
        return False
    return "tool" not in on or getattr(event, "tool_name", None) == on["tool"]


# ---- reduced records ------------------------------------------------------------------------------------------------


def _event(event: SessionEvent) -> Json:
    kind = event.type
    if kind in ("message_start", "message_end"):
        return {"type": kind, "message": _message(cast("Any", event).message)}
    wire = to_wire(event)
    if kind == "turn_end":
        results = [result["toolCallId"] for result in wire["toolResults"]]
        return {"type": kind, "message": _message(cast("Any", event).message), "toolResults": results}
    if kind == "agent_end":
        return {"type": kind, "messages": [m["role"] for m in wire["messages"]], "willRetry": wire["willRetry"]}
    if kind == "tool_execution_start":
        return {name: wire[name] for name in ("type", "toolCallId", "toolName")}
    if kind == "tool_execution_end":
        return {name: wire[name] for name in ("type", "toolCallId", "toolName", "isError")}
    if kind == "entry_appended":
        return {"type": kind, "entry": wire["entry"]["type"]}
    if kind == "compaction_end":
        result = wire.get("result")
        return {**wire, "result": None if result is None else {"summary": result["summary"]}}
    if kind == "queue_update":
        return {name: wire[name] for name in ("type", "steering", "followUp")}
    return wire


def _message(message: Any) -> Json:
    frozen = message.freeze() if hasattr(message, "freeze") else message
    data = message_to_wire(frozen)
    role = data["role"]
    if role == "system":
        return {"role": role}
    if role in ("branchSummary", "compactionSummary"):
        return {"role": role, "summary": data["summary"]}
    if role == "bashExecution":
        names = ("command", "output", "exitCode", "cancelled")
        return {"role": role, **{name: data[name] for name in names if name in data}}
    out: Json = {"role": role}
    if role == "assistant":
        out["stopReason"] = data["stopReason"]
        if "errorMessage" in data:
            out["errorMessage"] = data["errorMessage"]
        calls = [block["id"] for block in data["content"] if block["type"] == "toolCall"]
        if calls:
            out["calls"] = calls
    if role == "toolResult":
        out |= {"toolCallId": data["toolCallId"], "isError": data["isError"]}
    return {**out, "text": _text(data.get("content", ""))}


def _text(content: Json) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _said(message: Message) -> tuple[str, str]:
    data = message_to_wire(message)
    return data["role"], _text(data.get("content", ""))


def _entries(log: SessionLog, expected: Json) -> Json:
    entries, parents = _without_records(log)
    ids = [entry.id for entry in entries]
    names = {entry_id: number for number, entry_id in enumerate(ids)}
    out: list[Json] = []
    for number, entry in enumerate(entries):
        wire = {**entry_to_wire(entry), "parentId": parents.get(entry.parent_id, entry.parent_id)}
        want = expected[number] if number < len(expected) else {}
        item = _entry(entry, wire, names)
        before = ids[number - 1] if number else None
        if wire.get("parentId") != before:
            item["parent"] = names.get(wire.get("parentId"))
        if "tokensBefore" not in want:
            item.pop("tokensBefore", None)
        out.append(item)
    return out


def _without_records(log: SessionLog) -> tuple[list[Any], dict[str | None, str | None]]:
    """The entries without our records of started calls, and for each of those what stands in its place as a parent.

    The reference keeps none; to it they are state of an extension.
    """
    kept: list[Any] = []
    parents: dict[str | None, str | None] = {}
    for entry in log.entries():
        if isinstance(entry, CustomEntry) and entry.custom_type == CALL_STARTED:
            parents[entry.id] = parents.get(entry.parent_id, entry.parent_id)
        else:
            kept.append(entry)
    return kept, parents


def _entry(entry: Any, wire: Json, names: dict[str, int]) -> Json:
    kind = wire["type"]
    match kind:
        case "message":
            return {"type": kind, "message": _message(entry.message)}
        case "model_change":
            return {"type": kind, "modelId": wire["modelId"]}
        case "thinking_level_change":
            return {"type": kind, "level": wire["thinkingLevel"]}
        case "context_edit":
            return {"type": kind, "target": names[wire["targetId"]], "replacement": wire["replacement"]}
        case "compaction":
            return {
                "type": kind,
                "summary": wire["summary"],
                "firstKept": names[wire["firstKeptEntryId"]],
                "tokensBefore": wire["tokensBefore"],
                "hasCheckpoint": "systemMessage" in wire,
                "fromHook": wire.get("fromHook", False),
            }
        case "custom_message":
            return {"type": kind, "text": _text(wire["content"])}
        case "session_info":
            return {"type": kind, "name": wire["name"]}
        case "branch_summary":
            return {"type": kind, "summary": wire["summary"], "from": names.get(wire["fromId"], wire["fromId"])}
        case "label":
            return {"type": kind, "target": names[wire["targetId"]], "label": wire.get("label")}
        case _:
            return {"type": kind}


# ---- actions --------------------------------------------------------------------------------------------------------


async def _prompt(play: Play, action: Json) -> Json:
    await play.session.prompt(action["text"], streaming_behavior=action.get("behavior"))


async def _steer(play: Play, action: Json) -> Json:
    return await play.session.steer(action["text"], when_idle="queue")


async def _follow_up(play: Play, action: Json) -> Json:
    return await play.session.follow_up(action["text"], when_idle="queue")


async def _abort(play: Play, _action: Json) -> Json:
    await play.session.abort()


async def _clear_queue(play: Play, _action: Json) -> Json:
    cleared = play.session.clear_queue()
    return {"steering": list(cleared.steering), "followUp": list(cleared.follow_up)}


async def _compact(play: Play, action: Json) -> Json:
    return {"summary": (await play.session.compact(action.get("instructions"))).summary}


async def _state(play: Play, _action: Json) -> Json:
    session = play.session
    return {
        "isStreaming": session.is_streaming,
        "isIdle": session.is_idle,
        "pending": session.pending_message_count,
        "agentQueued": session.has_queued_messages,
    }


async def _stats(play: Play, _action: Json) -> Json:
    stats = to_wire(play.session.get_session_stats())
    return {name: value for name, value in stats.items() if name not in ("sessionId", "sessionFile", "cost")}


async def _last_text(play: Play, _action: Json) -> Json:
    return play.session.get_last_assistant_text()


async def _bash(play: Play, action: Json) -> Json:
    result = await play.session.execute_bash(action["command"], exclude_from_context=action.get("hidden", False))
    return to_wire(result)


async def _custom(play: Play, action: Json) -> Json:
    options = action.get("options", {})
    await play.session.send_custom_message(
        "note",
        action["text"],
        trigger_turn=options.get("triggerTurn"),
        deliver_as=options.get("deliverAs"),
    )


async def _set_model(play: Play, action: Json) -> Json:
    play.session.set_model(play.models[action["model"]])


async def _set_thinking(play: Play, action: Json) -> Json:
    play.session.set_thinking_level(action["level"])


async def _name(play: Play, action: Json) -> Json:
    play.session.set_session_name(action["name"])


async def _navigate(play: Play, action: Json) -> Json:
    options = action.get("options", {})
    done = await play.session.navigate_tree(
        play.entry_of(action["find"]),
        summarize=options.get("summarize", False),
        label=options.get("label"),
        custom_instructions=options.get("customInstructions"),
        replace_instructions=options.get("replaceInstructions", False),
    )
    summary = None if done.summary_entry is None else done.summary_entry.summary
    return {"cancelled": done.cancelled, "editorText": done.editor_text, "summary": summary}


ACTIONS: dict[str, Callable[[Play, Json], Awaitable[Json]]] = {
    "prompt": _prompt,
    "steer": _steer,
    "followUp": _follow_up,
    "abort": _abort,
    "clearQueue": _clear_queue,
    "compact": _compact,
    "state": _state,
    "stats": _stats,
    "lastText": _last_text,
    "bash": _bash,
    "custom": _custom,
    "setModel": _set_model,
    "setThinking": _set_thinking,
    "name": _name,
    "navigate": _navigate,
}

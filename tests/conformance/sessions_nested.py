"""The packs `nested` and `retry`: tools that call tools, and questions that are asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec import UNSET
from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_values import expanded, shortened, without_false_totals

from antiphon.core.calls import Outcome, ToolResult
from antiphon.core.content import Text, text_of
from antiphon.core.messages import AssistantMessage
from antiphon.core.usage import Usage
from antiphon.core.wire import to_wire
from antiphon.loop.abort import AbortController
from antiphon.loop.config import SYSTEM_CLOCK
from antiphon.session.nested_calls import NestedCalls, NestedEvent
from antiphon.session.one_answer import RetryNews, ask_with_retries
from antiphon.session.retry import RetrySettings

Json = Any


def run_nested(case: Json, _folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    got = asyncio.run(_nested(expanded(case)))
    expect = {name: value for name, value in case["expect"].items() if name in got}
    return first_difference(_named(expect), _named({name: got[name] for name in expect}))


def _named(record: Json) -> Json:
    return without_false_totals(shortened(record))


class Host:
    """Runs the scripted tool: it looks at `$` in its arguments."""

    def __init__(self, case: Json) -> None:
        self.events: list[Json] = []
        self.running = self.most = 0
        modes = case.get("tools", {})
        self.calls = NestedCalls(
            self.perform,
            self.hear,
            find=lambda name: _Mode(modes.get(name)),  # type: ignore[arg-type,return-value]
            sequential=lambda: bool(case.get("sequential")),
        )

    async def perform(self, call: Any, _signal: Any, update: Any) -> Outcome:
        self.running += 1
        self.most = max(self.most, self.running)
        script = call.arguments.get("$", {})
        for nested in script.get("calls", ()):
            await self.calls.call(call.id, nested["name"], nested.get("args"))
        for partial in script.get("updates", ()):
            update(ToolResult(content=(Text(text=partial),)))
        if "delay" in script:
            await asyncio.sleep(script["delay"] / 1000)
        self.running -= 1
        failed = bool(script.get("isError"))
        usage = script.get("usage")
        result = ToolResult(
            content=(Text(text=script.get("text", f"ran {call.name}")),),
            usage=UNSET if usage is None else _usage(usage),
        )
        return Outcome(result=result, is_error=failed, executed=True, duration_ms=1)

    def hear(self, event: NestedEvent) -> None:
        wire = to_wire(event)
        wire.pop("durationMs", None)
        if wire["type"] == "tool_execution_end":
            wire["resultText"] = "".join(block.get("text", "") for block in wire.pop("result")["content"])
        self.events.append(wire)


class _Mode:
    def __init__(self, mode: Json) -> None:
        self.execution_mode = mode if isinstance(mode, str) else (mode or {}).get("executionMode")


def _usage(given: Json) -> Usage:
    return Usage(
        input=given["input"],
        output=given["output"],
        cache_read=given["cacheRead"],
        cache_write=given["cacheWrite"],
        total_tokens=given["totalTokens"],
    )


async def _nested(case: Json) -> Json:
    host = Host(case)
    given = case["calls"]
    counted = isinstance(given, dict)
    calls = [{**given, "args": {"i": i}} for i in range(given["count"])] if counted else given
    works = [host.calls.call(call["caller"], call["name"], call["args"]) for call in calls]
    outcomes = await asyncio.gather(*works) if case.get("parallel") else [await work for work in works]
    callers = list(dict.fromkeys(call["caller"] for call in calls))
    records = {caller: _record(host.calls, caller, counted=counted) for caller in callers}
    shown = [{"id": outcome.tool_call.id, "isError": outcome.is_error} for outcome in outcomes]
    return {
        "events": {"count": len(host.events)} if counted else host.events,
        "outcomes": {"count": len(shown), "last": shown[-1]} if counted else shown,
        "record": records,
        "recordTwice": host.calls.take(callers[0]),
        "ranAtOnce": host.most,
    }


def _record(calls: NestedCalls, caller: str, *, counted: bool) -> Json:
    taken = calls.take(caller)
    assert taken is not None
    record, usage = taken
    if counted:
        return {"recorded": len(record["calls"]), "complete": record["complete"]}
    for call in record["calls"]:
        call.pop("durationMs", None)
    return {"calls": record} if usage is None else {"calls": record, "usage": to_wire(usage)}


# ---- retry ----------------------------------------------------------------------------------------------------------


def run_retry(case: Json, _folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    return first_difference(case["expect"], asyncio.run(_retry(case)))


async def _retry(case: Json) -> Json:
    controller = AbortController()
    responses = list(case["responses"])
    calls = 0
    events: list[Json] = []

    async def ask() -> AssistantMessage:
        nonlocal calls
        calls += 1
        return _answer(responses.pop(0))

    def tell(news: RetryNews) -> None:
        events.append(_news(news))
        if news.kind == "scheduled" and news.retry.attempt == case.get("abortDuringDelay"):
            controller.abort("aborted")

    answer = await ask_with_retries(
        ask, _policy(case["policy"]), tell, signal=controller.signal, clock=SYSTEM_CLOCK, context_window=100_000
    )
    return {
        "calls": calls,
        "events": events,
        "stopReason": answer.stop_reason,
        "errorMessage": None if answer.error_message is UNSET else answer.error_message,
        "text": text_of(answer.content),
    }


def _policy(given: Json) -> RetrySettings | None:
    if given is None:
        return None
    return RetrySettings(
        enabled=given["enabled"],
        max_retries=given["maxRetries"],
        base_delay_ms=given["baseDelayMs"],
        max_delay_ms=given["maxAgentDelayMs"],
    )


def _answer(given: Json) -> AssistantMessage:
    return AssistantMessage(
        content=(Text(text=given["text"]),) if given.get("text") else (),
        stop_reason=given.get("stopReason", "stop"),
        error_message=given.get("errorMessage", UNSET),
    )


def _news(news: RetryNews) -> Json:
    match news.kind:
        case "scheduled":
            retry = news.retry
            return {
                "type": "scheduled",
                "attempt": retry.attempt,
                "max": retry.max_attempts,
                "delayMs": retry.delay_ms,
                "errorMessage": retry.error,
            }
        case "attempt_start":
            return {"type": "attempt_start"}
        case _:
            return {
                "type": "finished",
                "success": news.success,
                "attempt": news.retry.attempt,
                "finalError": news.final_error,
            }

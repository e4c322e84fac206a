"""Runs the provider packs: bytes of streams, requests, hand-offs, failures, retries, counts.

`run(folder)` gives the id of each entry, and nothing if it holds or else the first difference. Entries of a protocol
without an adapter are left out. Nothing here needs a network: adapters get a transport that answers from the packs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from tests.conformance.providers_match import Matcher, broken_rule, with_house_texts
from tests.conformance.providers_stage import (
    Network,
    cuts,
    error_text,
    event_to_wire,
    events_of,
    final_message,
    message_to_pack,
    messages_of,
    model_of,
    request_of,
)

from antiphon.core.messages import AssistantMessage, user
from antiphon.core.model import THINKING_LEVELS, Model
from antiphon.core.partial_json import PartialReader, read_arguments
from antiphon.core.ports import ModelStream
from antiphon.core.system_state import collapse
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.core.wire import to_wire
from antiphon.loop.abort import AbortController
from antiphon.providers import failures
from antiphon.providers.estimate import estimate_context, output_cap
from antiphon.providers.handoff import transform
from antiphon.providers.levels import clamp_level, supported_levels
from antiphon.providers.registry import ADAPTERS, new_adapter
from antiphon.providers.retry_after import agent_wait_ms

Json = Any
Case = dict[str, Any]
Verdicts = Iterator[tuple[str, "str | None"]]

ALL_CUTS: tuple[int | str, ...] = ("whole", 64, 3, 1, "random")
QUICK_CUTS: tuple[int | str, ...] = ("whole", "random")
UNLISTED = {"accept", "content-type", "user-agent", "host", "content-length", "connection", "accept-encoding"}


def run(folder: Path, all_cuts: bool = True) -> Verdicts:
    """Verdicts on every entry of the folder. `all_cuts`: cut the streams in every way, not only in two."""
    wanted = ALL_CUTS if all_cuts else QUICK_CUTS
    with asyncio.Runner() as runner:
        for name, cases, check in _packs(folder, wanted):
            for case in cases:
                if "api" in case and not has_adapter(case["api"]):
                    continue
                yield f"{name}/{case['id']}", _verdict(runner, check, case)


def has_adapter(api: str) -> bool:
    package, _ = ADAPTERS[api]
    try:
        import_module(f"antiphon.providers.{package}.client")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith(f"antiphon.providers.{package}"):
            return False
        raise
    return True


Check = Callable[[Case], Any]


def _packs(folder: Path, wanted: Sequence[int | str]) -> Iterator[tuple[str, list[Case], Check]]:
    for base in (folder, folder / "better"):
        at = "better/" if base != folder else ""
        for path in sorted(base.glob("streams/*/")):
            cases = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(path.glob("*.json"))]
            yield f"{at}streams/{path.name}", cases, lambda case: check_stream(case, wanted)
        for path in sorted(base.glob("requests/*/requests.jsonl")):
            yield f"{at}requests/{path.parent.name}", _lines(path), check_request
        for name, check in _TABLES.items():
            path = base / f"{name}.jsonl"
            if path.exists():
                yield f"{at}{name}", _lines(path), check


def _lines(path: Path) -> list[Case]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _verdict(runner: asyncio.Runner, check: Check, case: Case) -> str | None:
    try:
        found = check(case)
        return runner.run(asyncio.wait_for(found, 60)) if asyncio.iscoroutine(found) else found
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# -- streams -----------------------------------------------------------------------------------------------------------


async def check_stream(case: Case, wanted: Sequence[int | str]) -> str | None:
    for size in (case["chunkSizes"],) if "chunkSizes" in case else wanted:
        found = await _check_stream(case, size)
        if found is not None:
            return f"cut {size}: {found}"
    return None


async def _check_stream(case: Case, size: Any) -> str | None:
    network = Network([{"sse": case["sse"], "end": case.get("end")}], cuts(size))
    controller = AbortController()
    abort = case.get("abort") or {}
    if abort.get("when") == "before":
        controller.abort("the test aborts")
    request = request_of(case, network, controller)
    events = await events_of(new_adapter(case["api"]), request, controller, abort.get("index"))
    message = final_message(events)
    told = [event_to_wire(event) for event in events]
    expected = with_house_texts(case["expected"])
    if abort.get("when") == "before" and network.requests:
        return "a request left in spite of the abort"
    if not all(reply.closed for reply in network.given):
        return "the connection was left open"
    compare = case.get("compare", "full")
    matcher = Matcher()
    found = broken_rule(told, message.content)
    if found is None and compare == "full":
        found = matcher.difference(_without_args(expected["events"]), told, "events")
    if found is None and compare in ("full", "message"):
        found = matcher.difference(expected["message"], message_to_pack(message), "message")
    if found is None and compare == "error":
        found = matcher.difference(expected["message"]["stopReason"], message.stop_reason, "stopReason")
    if found is None and "error" in expected:
        found = _wrong_error(expected["error"], message, case["model"].get("contextWindow"))
    return found


def _without_args(events: list[Case]) -> list[Case]:
    """`args` is the live state of a block, which events do not carry."""
    return [{name: item for name, item in event.items() if name != "args"} for event in events]


def _wrong_error(expected: Case, message: AssistantMessage, window: int | None) -> str | None:
    text = error_text(message)
    if not text:
        return "no error text"
    for words in expected["contains"]:
        if words not in text:
            return f"error text lacks {words!r}: {text}"
    failure = failures.classify(message, window)
    assert failure is not None
    if "class" in expected and failure.kind != expected["class"]:
        return f"class {failure.kind}, not {expected['class']}: {text}"
    for name in ("retryable", "overflow"):
        if getattr(failure, name) != expected[name]:
            return f"{name} should be {expected[name]}: {text}"
    if len(text) > expected.get("maxLength", 10**9):
        return f"error text of {len(text)} characters"
    if "retryAfterMs" in expected:
        low, high = expected["retryAfterMs"]
        if not low <= (failure.retry_after_ms or -1) <= high:
            return f"asked wait {failure.retry_after_ms}"
    return None


# -- requests ----------------------------------------------------------------------------------------------------------

_OK = {"status": 200, "headers": {"content-type": "text/event-stream"}, "body": ""}


async def check_request(case: Case) -> str | None:
    network, controller = Network([_OK]), AbortController()
    request = request_of(case, network, controller)
    message = final_message(await events_of(new_adapter(case["api"]), request, controller))
    if case.get("expected_error"):
        return "a request left" if network.requests else None if message.stop_reason == "error" else "no error"
    if not network.requests:
        return f"no request left: {error_text(message)}"
    sent = network.requests[0]
    matcher = Matcher()
    return (
        matcher.difference(case["expected_url"], _without_beta(sent.url), "url")
        or matcher.difference(with_house_texts(case["expected_body"]), json.loads(sent.body), "body")
        or matcher.difference(case["expected_headers"], _listed(sent.headers), "headers")
        or _wrong_level(case, message)
        or _wrong_transform(case, matcher)
    )


def _without_beta(url: str) -> str:
    return url.removesuffix("?beta=true")


def _listed(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in UNLISTED}


def _wrong_level(case: Case, message: AssistantMessage) -> str | None:
    if "expected_providerThinkingLevel" not in case:
        return None
    level = None if message.provider_thinking_level is UNSET else message.provider_thinking_level
    expected = case["expected_providerThinkingLevel"]
    return None if level == expected else f"providerThinkingLevel {level}, not {expected}"


def _wrong_transform(case: Case, matcher: Matcher) -> str | None:
    if "expected_transformed" not in case:
        return None
    model = model_of(case["model"])
    package, _ = ADAPTERS[case["api"]]
    rewriter = import_module(f"antiphon.providers.{package}.encode").rewriter(model)
    done = [to_wire(message) for message in transform(collapse(messages_of(case["context"])), model, rewriter)]
    for item in done:
        item.pop("timestamp", None)
    if case["api"] == "google-generative-ai":  # its prompt never was a message
        done = [item for item in done if item["role"] != "system"]
    return matcher.difference(with_house_texts(case["expected_transformed"]), done, "transformed")


# -- failures ----------------------------------------------------------------------------------------------------------


async def check_error(case: Case) -> str | None:
    if case["kind"] == "text":
        return check_text(case)
    reply = {"status": case["status"], "headers": case.get("headers", {}), "body": case["body"]}
    controller = AbortController()
    request = request_of(case, Network([reply]), controller)
    message = final_message(await events_of(new_adapter(case["api"]), request, controller))
    if message.stop_reason != case["expected"]["stopReason"]:
        return f"stop reason {message.stop_reason}"
    return _wrong_error(case["expected"], message, case["model"].get("contextWindow"))


def check_text(case: Case) -> str | None:
    given = case["message"]
    message = AssistantMessage(
        content=(),
        provider=given["provider"],
        stop_reason=given["stopReason"],
        error_message=given.get("errorMessage", UNSET),
        usage=msgspec.convert(given["usage"], Usage) if "usage" in given else NO_USAGE,
    )
    actual = {
        "retryable": failures.is_retryable(message),
        "overflow": failures.is_overflow(message, case["contextWindow"]),
        "recoverableLength": failures.is_recoverable_length(message, 1000),
    }
    return Matcher().difference(case["expected"], actual)


async def check_retry(case: Case) -> str | None:
    network, controller = Network(case["replies"]), AbortController()
    request = request_of(case, network, controller)
    loop = asyncio.get_running_loop()
    if case.get("abort"):
        loop.call_later(case["abort"]["ms"] / 1000, controller.abort)
    began = loop.time()
    message = final_message(await events_of(new_adapter(case["api"]), request, controller))
    elapsed = (loop.time() - began) * 1000
    expected = case["expected"]
    if len(network.requests) != expected["attempts"]:
        return f"{len(network.requests)} attempts, not {expected['attempts']}: {error_text(message)}"
    if message.stop_reason != expected["stopReason"]:
        return f"stop reason {message.stop_reason}: {error_text(message)}"
    return _wrong_waits(case, network, elapsed) or _wrong_end(expected, message)


def _wrong_waits(case: Case, network: Network, elapsed: float) -> str | None:
    expected = case["expected"]
    gaps = [(later - earlier) * 1000 for earlier, later in zip(network.at, network.at[1:], strict=False)]
    if any(gap < expected.get("minGapMs", 0) - 2 for gap in gaps):
        return f"gaps of {gaps} ms are too short"
    if any(gap > expected.get("maxGapMs", 1e9) + 1000 for gap in gaps):
        return f"gaps of {gaps} ms are too long"
    return f"took {elapsed} ms" if elapsed > expected.get("maxElapsedMs", 1e9) else None


def _wrong_end(expected: Case, message: AssistantMessage) -> str | None:
    text = error_text(message)
    missing = [words for words in expected.get("contains", ()) if words not in text]
    if missing:
        return f"error text lacks {missing}: {text}"
    if expected.get("retryable", failures.is_retryable(message)) != failures.is_retryable(message):
        return f"retryable should be {expected['retryable']}: {text}"
    return None


async def check_sequence(case: Case) -> str | None:
    adapter = new_adapter(case["api"])
    answers: list[AssistantMessage] = []
    matcher = Matcher()
    for number, turn in enumerate(case["turns"]):
        found = await _check_turn(case, turn, adapter, answers, matcher)
        if found is not None:
            return f"turn {number}: {found}"
    return None


async def _check_turn(
    case: Case, turn: Case, adapter: ModelStream, answers: list[AssistantMessage], matcher: Matcher
) -> str | None:
    network, controller = Network(turn["replies"]), AbortController()
    messages = [answers[item["$reply"]] if "$reply" in item else item for item in turn["context"]["messages"]]
    context = {**turn["context"], "messages": messages}
    request = request_of(case, network, controller, context=context, options=turn.get("options", {}))
    message = final_message(await events_of(adapter, request, controller))
    answers.append(message)
    sent = [{"headers": _listed(item.headers), "body": json.loads(item.body)} for item in network.requests]
    found = matcher.difference(with_house_texts(turn["expected_requests"]), sent, "requests")
    notes = [] if message.diagnostics is UNSET else [note["type"] for note in message.diagnostics]
    actual = {"stopReason": message.stop_reason, "diagnostics": notes}
    return found or matcher.difference(turn["expected"], actual, "answer")


# -- tables ------------------------------------------------------------------------------------------------------------


async def check_usage(case: Case) -> str | None:
    controller = AbortController()
    request = request_of({**case, "entry": "stream"}, Network([{"sse": case["sse"]}]), controller)
    message = final_message(await events_of(new_adapter(case["api"]), request, controller))
    return Matcher().difference(case["expected_usage"], to_wire(message.usage), "usage")


def check_partial(case: Case) -> str | None:
    reader = PartialReader()
    matcher = Matcher()
    for index, (piece, snapshot) in enumerate(zip(case["pieces"], case["expected"]["snapshots"], strict=True)):
        reader.feed(piece)
        found = matcher.difference(snapshot, reader.arguments, f"snapshots[{index}]")
        if found is not None:
            return found
    arguments, error = read_arguments("".join(case["pieces"]))
    actual = {"arguments": arguments} | ({} if error is UNSET else {"argumentsError": error})
    return matcher.difference(case["expected"]["final"], actual, "final")


def check_levels(case: Case) -> str | None:
    given = {"id": "m", "provider": "p", "api": "a", "reasoning": case["reasoning"]}
    if case.get("thinkingLevelMap") is not None:
        given["thinkingLevelMap"] = case["thinkingLevelMap"]
    model = msgspec.convert(given, Model)
    actual = {
        "supported": list(supported_levels(model)),
        "clamped": {level: clamp_level(model, level) for level in THINKING_LEVELS},
    }
    return Matcher().difference(case["expected"], actual)


def check_estimate(case: Case) -> str | None:
    if case["kind"] == "agent_retry_delay_ms":
        policy = case["policy"]
        actual: Any = agent_wait_ms(case["attempt"], policy["baseDelayMs"], policy.get("maxAgentDelayMs", 60_000))
    elif case["kind"] == "output_cap":
        words = case["user_text"]["repeat"] * case["user_text"]["times"]
        tokens = estimate_context([user(words)]).tokens
        actual = output_cap(model_of(case["model"]), case.get("maxTokens"), tokens)
    else:
        found = estimate_context(messages_of(case["context"]))
        actual = {
            "tokens": found.tokens,
            "usageTokens": found.usage_tokens,
            "trailingTokens": found.trailing_tokens,
            "lastUsageIndex": found.last_usage_index,
        }
    return Matcher().difference(case["expected"], actual)


_TABLES: dict[str, Check] = {
    "requests": check_request,
    "handoff": check_request,
    "errors": check_error,
    "retry": check_retry,
    "sequences": check_sequence,
    "usage_cost": check_usage,
    "partial_json": check_partial,
    "thinking_levels": check_levels,
    "estimates": check_estimate,
}

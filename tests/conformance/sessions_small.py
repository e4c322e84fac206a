"""The packs `convert`, `estimate`, `serialize` and `errors`: small functions, message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_summaries import words
from tests.conformance.sessions_values import expanded, shortened, without_false_totals

from antiphon.core.messages import AssistantMessage, message_from_wire, message_to_wire
from antiphon.core.usage import Usage, add_usage, total_tokens
from antiphon.core.wire import to_wire
from antiphon.session_log import convert
from antiphon.session_log.compaction.conversation import conversation_text
from antiphon.session_log.compaction.estimate import estimated_tokens
from antiphon.session_log.convert import to_model_messages
from antiphon.session_log.failures import is_overflow, is_recoverable_length, is_retryable, retry_delay_ms

Json = Any
WINDOW = 100_000


def run_convert(case: Json, _: Path) -> str | None:
    messages = [message_from_wire(given) for given in expanded(case["messages"])]
    got = [message_to_wire(message) for message in to_model_messages(messages)]
    return first_difference(shortened(_spelled_out(case["expect"])), shortened(got))


def _spelled_out(value: Json) -> Json:
    """The recorded names as our wording: the end of a branch summary is too short to be found in a text."""
    if isinstance(value, list):
        return [_spelled_out(item) for item in value]
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    if isinstance(value, str):
        for name in ("COMPACTION_PREFIX", "COMPACTION_SUFFIX", "BRANCH_PREFIX", "BRANCH_SUFFIX"):
            value = value.replace(f"${{{name}}}", getattr(convert, name))
    return value


def run_serialize(case: Json, _: Path) -> str | None:
    messages = [message_from_wire(given) for given in expanded(case["messages"])]
    got = words().named(conversation_text(messages))
    return first_difference(shortened(case["expect"]), shortened(got))


def run_estimate(case: Json, _: Path) -> str | None:
    for number, item in enumerate(expanded(case["items"])):
        if "message" in item:
            got, expect = estimated_tokens(message_from_wire(item["message"])), item["tokens"]
        elif "usage" in item:
            got, expect = total_tokens(_usage(item["usage"])), item["tokens"]
        else:
            got, expect = to_wire(add_usage(_usage(item["a"]), _usage(item["b"]))), item["sum"]
        found = first_difference(without_false_totals(expect), without_false_totals(got), f"item {number}")
        if found is not None:
            return found
    return None


def _usage(given: Json) -> Usage:
    return msgspec.convert(given, Usage)


def run_errors(case: Json, _: Path) -> str | None:
    for number, item in enumerate(case["items"]):
        got = _delay(item) if "delayMs" in item else _classified(item)
        expect = {key: item[key] for key in got if key in item}
        found = first_difference(expect, {key: got[key] for key in expect}, f"item {number} {item!r:.80}")
        if found is not None:
            return found
    return None


def _delay(item: Json) -> Json:
    cap = item.get("maxAgentDelayMs", 60_000)
    return {"delayMs": retry_delay_ms(item["attempt"], base_ms=item["baseDelayMs"], cap_ms=cap)}


def _classified(item: Json) -> Json:
    given = item.get("message", {"stopReason": "error", "errorMessage": item.get("errorMessage")})
    message = message_from_wire({"role": "assistant", "content": [], **given})
    assert isinstance(message, AssistantMessage)
    window = item.get("contextWindow", WINDOW)
    return {
        "retryable": is_retryable(message, window),
        "overflow": is_overflow(message, window),
        "recoverableLength": is_recoverable_length(message, item.get("maxTokens", 0)),
    }

"""The packs `compaction` and `branch-summary`: what is cut, what a summariser is asked, what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_values import Clock, Names, expanded, shortened, without_false_totals

from antiphon.core.messages import AssistantMessage, Message, message_from_wire, message_to_wire
from antiphon.core.wire import to_wire
from antiphon.session_log import SessionLog, SessionStore, convert
from antiphon.session_log.branches import (
    BRANCH_PREAMBLE,
    NOTHING_SAID,
    BranchPreparation,
    branch_budget,
    left_behind,
    prepare_branch,
)
from antiphon.session_log.compaction import CompactionSettings, Preparation, SummaryRefused, SummaryRequest, prepare
from antiphon.session_log.compaction.estimate import projected_tokens
from antiphon.session_log.compaction.summary import (
    NO_HISTORY,
    PREFIX_HEADING_IN_REQUEST,
    REQUEST_OPTIONS,
    SPLIT_HEADING,
)
from antiphon.session_log.compaction.when import over_threshold
from antiphon.session_log.entries import entry_to_wire
from antiphon.session_log.failures import is_retryable

Json = Any
WINDOW = 100_000
BRANCH_USAGE = {"input": 7, "output": 3, "totalTokens": 10}
"""What an answer of the pack `branch-summary` costs."""


def words() -> Names:
    """Our wording by the names that the data uses."""
    names = Names()
    for real, name in (
        (convert.COMPACTION_PREFIX, "${COMPACTION_PREFIX}"),
        (convert.COMPACTION_SUFFIX, "${COMPACTION_SUFFIX}"),
        (convert.BRANCH_PREFIX, "${BRANCH_PREFIX}"),
        (BRANCH_PREAMBLE, "${BRANCH_PREAMBLE}"),
        (SPLIT_HEADING, "${SPLIT_HEADING}"),
        (NO_HISTORY, "${NO_HISTORY}"),
    ):
        names.learn(real, name)
    return names


class Summariser:
    """Scripted answers, and what was asked."""

    def __init__(self, case: Json) -> None:
        given = case["responses"] if "responses" in case else [{"usage": BRANCH_USAGE, **case["response"]}]
        self._answers: Iterator[Json] = iter(given)
        self._retries = case.get("retry", {}).get("maxRetries", 0)
        self._level = case.get("thinkingLevel")
        self.asked: list[Json] = []

    def ask(self, request: SummaryRequest, focus: str | None) -> AssistantMessage:
        """The next answer; transient failures are asked again as often as the case allows."""
        answer = self._once(request, focus)
        while self._retries and is_retryable(answer, WINDOW):
            self._retries -= 1
            answer = self._once(request, focus)
        return answer

    def _once(self, request: SummaryRequest, focus: str | None) -> AssistantMessage:
        sent = request.messages(0)
        described = {
            "kind": request.kind,
            "hasSystem": sent[0].role == "system",
            "tools": False,
            "cacheRetention": REQUEST_OPTIONS["cache_retention"],
            "reasoning": self._level,
            "freshRoutingId": True,
            **_described(request, focus),
        }
        self.asked.append(described)
        return answer_of(next(self._answers))


def answer_of(given: Json) -> AssistantMessage:
    content = given.get("content", [{"type": "text", "text": given.get("text", "")}])
    wire = {"role": "assistant", "stopReason": "stop", **{k: v for k, v in given.items() if k != "text"}}
    if given.get("aborted"):
        wire["stopReason"] = "aborted"
        del wire["aborted"]
    answer = message_from_wire({**wire, "content": content})
    assert isinstance(answer, AssistantMessage)
    return answer


def _described(request: SummaryRequest, focus: str | None) -> Json:
    """Conversation, earlier summary and focus that a request really contains."""
    text = request.text
    out: Json = {}
    if request.kind == "turn-prefix":
        out["conversation"] = text.split("\n\n---\n\n")[0].removeprefix(f"{PREFIX_HEADING_IN_REQUEST}\n\n")
    else:
        found = re.match(r"<conversation>\n(.*?)\n</conversation>", text, re.DOTALL)
        assert found is not None
        out["conversation"] = found.group(1)
    earlier = re.search(r"<previous-summary>\n(.*?)\n</previous-summary>", text, re.DOTALL)
    if earlier is not None:
        out["previousSummary"] = earlier.group(1)
    if focus is not None and request.kind != "replaced" and text.endswith(focus):
        out["focus"] = focus
    return out


def loaded(case: Json, folder: Path) -> SessionLog:
    """The entries of a case as a session in memory."""
    store = SessionStore(folder, cwd="/proj", sources=Clock().sources(), seals=False)
    return store.in_memory(json.dumps(expanded(entry)).encode() for entry in case["entries"])


def run_compaction(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    log = loaded(case, folder)
    given = case["settings"]
    settings = CompactionSettings(given["enabled"], given["reserveTokens"], given["keepRecentTokens"])
    preparation = prepare(log.projection(), settings)
    tokens = projected_tokens(log.projection())
    got: Json = {
        "tokens": {
            "tokens": tokens.tokens,
            "usageTokens": tokens.usage_tokens,
            "trailingTokens": tokens.trailing_tokens,
            "lastUsageIndex": tokens.last_usage_index,
        },
        "preparation": None if preparation is None else _preparation_data(preparation, log),
    }
    if "contextWindow" in case:
        got["shouldCompact"] = over_threshold(tokens.tokens, case["contextWindow"], settings)
    if "responses" in case and preparation is not None:
        got.update(_compacted(case, log, preparation))
    expect = dict(case["expect"])
    if "error" in expect:
        expect["error"] = "refused"
    return _difference(expect, got)


def _difference(expect: Json, got: Json) -> str | None:
    got = words().named({key: value for key, value in got.items() if key in expect})
    return first_difference(shortened(without_false_totals(expect)), shortened(without_false_totals(got)))


def _preparation_data(preparation: Preparation, log: SessionLog) -> Json:
    return {
        "firstKeptEntryId": preparation.first_kept_id,
        "summarize": _sources(preparation.history, log),
        "turnPrefix": _sources(preparation.turn_prefix, log),
        "isSplitTurn": preparation.is_split_turn,
        "tokensBefore": preparation.tokens_before,
        "previousSummary": preparation.previous_summary,
        "readFiles": list(preparation.files.read),
        "modifiedFiles": list(preparation.files.modified),
    }


def _sources(messages: Sequence[Message], log: SessionLog) -> list[str]:
    origin = {id(message): item.entry.id for item in log.projection().items for message in item.messages}
    return [origin[id(message)] for message in messages]


def _compacted(case: Json, log: SessionLog, preparation: Preparation) -> Json:
    summariser, focus = Summariser(case), case.get("customInstructions")
    got: Json = {"requests": summariser.asked}
    try:
        summary = preparation.summary([summariser.ask(request, focus) for request in preparation.requests(focus)])
    except SummaryRefused:
        return {**got, "error": "refused"}
    got["result"] = {
        "summary": summary.text,
        "firstKeptEntryId": summary.first_kept_id,
        "tokensBefore": summary.tokens_before,
        "usage": to_wire(summary.usage),
        "details": summary.files.details(),
    }
    new_id = log.append_compaction(
        summary.text,
        summary.first_kept_id,
        summary.tokens_before,
        details=summary.files.details(),
        usage=summary.usage,
        from_hook=False,
    )
    entry = {**entry_to_wire(log.entry(new_id)), "id": "@new", "timestamp": "<ts>"}
    if "systemMessage" in entry:
        entry["systemMessage"] = {**entry["systemMessage"], "timestamp": "<ts>"}
    got["entry"] = entry
    got["contextAfter"] = [
        ["@new" if item.entry.id == new_id else item.entry.id, message_to_wire(message)["role"]]
        for item in log.projection().items
        for message in item.messages
    ]
    got["tokensAfter"] = projected_tokens(log.projection()).tokens
    return got


def run_branch(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    log = loaded(case, folder)
    old = [] if case["oldLeaf"] is None else log.path_entries(case["oldLeaf"])
    collected, ancestor = left_behind(old, log.path_entries(case["target"]))
    budget = case.get("budget", 0)
    preparation = prepare_branch(collected, budget)
    asked = prepare_branch(
        collected, budget or branch_budget(case.get("contextWindow"), case.get("reserveTokens", 16_384))
    )
    files = {"readFiles": list(preparation.files.read), "modifiedFiles": list(preparation.files.modified)}
    got: Json = {
        "collected": [entry.id for entry in collected],
        "commonAncestorId": ancestor,
        "included": [message_to_wire(message)["role"] for message in preparation.messages],
        "totalTokens": preparation.tokens,
        **files,
    }
    if "response" in case:
        got["requests"], got["result"] = _branch_summary(case, asked)
    expect = json.loads(json.dumps(case["expect"]))
    result = expect.get("result", {})
    if "error" in result:
        result["error"] = "refused"
    if result.get("summary") == "No content to summarize":
        result["summary"] = NOTHING_SAID
    return _difference(expect, got)


def _branch_summary(case: Json, preparation: BranchPreparation) -> tuple[Json, Json]:
    summariser, instructions = Summariser(case), case.get("customInstructions")
    request = preparation.request(instructions, replace=case.get("replaceInstructions", False))
    answer = None if request is None else summariser.ask(request, instructions)
    if answer is not None and answer.stop_reason == "aborted":
        return summariser.asked, {"aborted": True}
    try:
        text, usage = preparation.summary(answer)
    except SummaryRefused:
        return summariser.asked, {"error": "refused"}
    if answer is None:
        return [], {"summary": text}
    files = {"readFiles": list(preparation.files.read), "modifiedFiles": list(preparation.files.modified)}
    return summariser.asked, {"summary": text, "usage": to_wire(usage), **files}

"""What each wire demands of a request, written down from the provider specification and the vendors' documents.

Not a schema of everything: the rules that a conversation handed from model to model can break. A function per protocol
gives the broken rules of a body, each as one line; an empty list is a request that the server would take.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Body = dict[str, Any]

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def _is_data_url(url: Any) -> bool:
    return isinstance(url, str) and url.startswith("data:image/") and ";base64," in url


def _is_base64(data: Any) -> bool:
    try:
        return isinstance(data, str) and bool(base64.b64decode(data, validate=True))
    except binascii.Error:
        return False


def _is_object_text(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


# -- Chat Completions --------------------------------------------------------------------------------------------------


def chat_faults(body: Body) -> Iterator[str]:
    """Every call is answered by tool messages right behind it, and nothing else is."""
    if not body.get("messages"):
        yield "messages: must not be empty"
    waiting: list[str] = []
    for index, message in enumerate(body.get("messages", ())):
        at = f"messages.{index}"
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield f"{at}: role {role!r}"
        if role == "tool":
            id_ = message.get("tool_call_id")
            if id_ not in waiting:
                yield f"{at}: result {id_!r} answers no call before it"
            else:
                waiting.remove(id_)
            if not isinstance(message.get("content"), str):
                yield f"{at}: content of a result must be a text"
            continue
        if waiting:
            yield f"{at}: calls {waiting} are not answered"
            waiting = []
        yield from _chat_content(at, message)
        for call in message.get("tool_calls", ()):
            yield from _chat_call(at, call, waiting)
    if waiting:
        yield f"messages: calls {waiting} are not answered"


def _chat_content(at: str, message: Body) -> Iterator[str]:
    content = message.get("content")
    if message.get("tool_calls") == []:
        yield f"{at}: tool_calls must not be empty"
    if content is None and not message.get("tool_calls"):
        yield f"{at}: neither content nor calls"
    if isinstance(content, list):
        if not content:
            yield f"{at}: content must not be empty"
        for part in content:
            kind = part.get("type")
            if kind == "image_url":
                if message.get("role") != "user" or not _is_data_url(part["image_url"].get("url")):
                    yield f"{at}: an image that cannot stand here"
            elif kind != "text" or not isinstance(part.get("text"), str):
                yield f"{at}: part of type {kind!r}"


def _chat_call(at: str, call: Body, waiting: list[str]) -> Iterator[str]:
    id_, function = call.get("id"), call.get("function", {})
    if not isinstance(id_, str) or not 0 < len(id_) <= 40:
        yield f"{at}: call id {id_!r} is not 1 to 40 long"
    if id_ in waiting:
        yield f"{at}: call id {id_!r} is used twice"
    waiting.append(str(id_))
    if call.get("type") != "function" or not function.get("name") or not _is_object_text(function.get("arguments")):
        yield f"{at}: call {id_!r} is not a function with a JSON object as arguments"


# -- Responses ---------------------------------------------------------------------------------------------------------


_LED_TO = ("message", "function_call", "reasoning")
_PARTS = {"user": ("input_text", "input_image"), "assistant": ("output_text", "refusal")}


def responses_faults(body: Body) -> Iterator[str]:
    """Every call has one output behind it; a reasoning item is followed by the item that it led to."""
    items = body.get("input")
    if not items:
        yield "input: must not be empty"
        return
    calls: dict[str, str] = {}
    ids: set[str] = set()
    for index, item in enumerate(items):
        at = f"input.{index}"
        kind = item.get("type", "message" if "role" in item else None)
        id_ = item.get("id")
        if id_ is not None:
            if not isinstance(id_, str) or not _PLAIN_ID.fullmatch(id_):
                yield f"{at}: id {id_!r}"
            if id_ in ids:
                yield f"{at}: id {id_!r} is used twice"
            ids.add(id_)
        if kind == "message":
            yield from _responses_message(at, item)
        elif kind == "function_call":
            yield from _responses_call(at, item, calls)
        elif kind == "function_call_output":
            if calls.get(item.get("call_id")) != "open":
                yield f"{at}: output of {item.get('call_id')!r} answers no open call"
            calls[item.get("call_id")] = "answered"
            yield from _responses_output(at, item.get("output"))
        elif kind == "reasoning":
            following = items[index + 1] if index + 1 < len(items) else {}
            if (
                following.get("type") not in ("message", "function_call", "reasoning")
                or following.get("role") == "user"
            ):
                yield f"{at}: a reasoning item without the item that it led to"
            if not item.get("encrypted_content"):
                yield f"{at}: reasoning that is not stored must be encrypted"
        else:
            yield f"{at}: item of type {kind!r}"
    yield from (f"input: call {call!r} has no output" for call, state in calls.items() if state == "open")


def _responses_message(at: str, item: Body) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if isinstance(content, str):
        if role not in ("system", "developer", "user"):
            yield f"{at}: text content of {role!r}"
        return
    if not content:
        yield f"{at}: content must not be empty"
    allowed = {"user": ("input_text", "input_image"), "assistant": ("output_text", "refusal")}.get(
        str(role), ("input_text",)
    )
    for part in content or ():
        if part.get("type") not in allowed:
            yield f"{at}: part {part.get('type')!r} of {role!r}"
        if part.get("type") == "input_image" and not _is_data_url(part.get("image_url")):
            yield f"{at}: an image without a data URL"
    if role == "assistant" and not str(item.get("id", "")).startswith("msg_"):
        yield f"{at}: id {item.get('id')!r} of an answer"


def _responses_call(at: str, item: Body, calls: dict[str, str]) -> Iterator[str]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not _PLAIN_ID.fullmatch(call_id):
        yield f"{at}: call_id {call_id!r}"
    if calls.get(str(call_id)) == "open":
        yield f"{at}: call_id {call_id!r} is used twice"
    calls[str(call_id)] = "open"
    if "id" in item and not str(item["id"]).startswith("fc_"):
        yield f"{at}: id {item['id']!r} of a function call"
    if not item.get("name") or not _is_object_text(item.get("arguments")):
        yield f"{at}: call without name or object as arguments"


def _responses_output(at: str, output: Any) -> Iterator[str]:
    if isinstance(output, str):
        return
    if not isinstance(output, list) or not output:
        yield f"{at}: output must be a text or parts"
        return
    for part in output:
        if part.get("type") not in ("input_text", "input_image"):
            yield f"{at}: output part {part.get('type')!r}"


# -- Anthropic Messages ------------------------------------------------------------------------------------------------


def messages_faults(body: Body) -> Iterator[str]:
    """Every `tool_use` is answered at the head of the very next message; thinking is signed; nothing is blank."""
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: must be at least 1"
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        if not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
            yield "thinking.budget_tokens: must be at least 1024 and below max_tokens"
        if "temperature" in body:
            yield "temperature: not with thinking"
    if json.dumps(body).count('"cache_control"') > 4:
        yield "cache_control: at most 4"
    messages = body.get("messages") or []
    if not messages or messages[0].get("role") != "user":
        yield "messages: the first one must be the user's"
    waiting: list[str] = []
    for index, message in enumerate(messages):
        at = f"messages.{index}"
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if not blocks and "output_config" not in message:
            yield f"{at}: content must not be empty"
        if message.get("role") == "user":
            yield from _tool_results(at, blocks, waiting)
            waiting = []
        elif waiting:
            yield f"{at}: {waiting} are not answered in the next message"
        for block in blocks:
            yield from _messages_block(f"{at} ({message.get('role')})", block, str(message.get("role")))
        if message.get("role") == "assistant":
            waiting = [block["id"] for block in blocks if block.get("type") == "tool_use"]
            if len(set(waiting)) != len(waiting):
                yield f"{at}: an id is used twice"
    if waiting:
        yield f"messages: {waiting} are not answered"


def _tool_results(at: str, blocks: list[Body], waiting: list[str]) -> Iterator[str]:
    answered = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    if sorted(map(str, answered)) != sorted(waiting):
        yield f"{at}: {answered} answer {waiting}"
    if any(block.get("type") != "tool_result" for block in blocks[: len(answered)]):
        yield f"{at}: results must come first"


def _messages_block(at: str, block: Body, role: str) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text":
        if not str(block.get("text", "")).strip():
            yield f"{at}: blank text"
    elif kind == "image":
        source = block.get("source", {})
        if role != "user" or source.get("type") != "base64" or not _is_base64(source.get("data")):
            yield f"{at}: an image that cannot stand here"
    elif kind == "tool_use":
        if (
            role != "assistant"
            or not _PLAIN_ID.fullmatch(str(block.get("id")))
            or not isinstance(block.get("input"), dict)
        ):
            yield f"{at}: tool_use {block.get('id')!r}"
    elif kind == "tool_result":
        inner = block.get("content")
        parts = inner if isinstance(inner, list) else []
        if block.get("is_error") and any(part.get("type") != "text" for part in parts):
            yield f"{at}: an error result may hold only text"
        for part in parts:
            yield from _messages_block(at, part, role)
    elif kind == "thinking":
        if not block.get("signature"):
            yield f"{at}: thinking without a signature"
    elif kind != "redacted_thinking":
        yield f"{at}: block of type {kind!r}"


# -- Gemini ------------------------------------------------------------------------------------------------------------

_DATA = ("text", "inlineData", "functionCall", "functionResponse")


def gemini_faults(body: Body) -> Iterator[str]:
    """As many responses as calls, right behind them; one kind of data a part; signatures are base64."""
    contents = body.get("contents") or []
    if not contents:
        yield "contents: must not be empty"
    waiting: list[tuple[str, str | None]] = []
    for index, turn in enumerate(contents):
        at = f"contents.{index}"
        parts = turn.get("parts") or []
        if turn.get("role") not in ("user", "model") or not parts:
            yield f"{at}: role {turn.get('role')!r} with {len(parts)} parts"
        for part in parts:
            if sum(name in part for name in _DATA) != 1:
                yield f"{at}: a part needs exactly one kind of data, has {sorted(part)}"
            if "thoughtSignature" in part and not _is_base64(part["thoughtSignature"]):
                yield f"{at}: a signature that is no base64"
            if "inlineData" in part and not _is_base64(part["inlineData"].get("data")):
                yield f"{at}: an image that is no base64"
        responses = [_named(part["functionResponse"]) for part in parts if "functionResponse" in part]
        if responses or waiting:
            if sorted(responses, key=str) != sorted(waiting, key=str):
                yield f"{at}: responses {responses} to calls {waiting}"
            if turn.get("role") != "user":
                yield f"{at}: responses must be the user's"
        waiting = [_named(part["functionCall"]) for part in parts if "functionCall" in part]
        if waiting and turn.get("role") != "model":
            yield f"{at}: calls must be the model's"
    if waiting:
        yield f"contents: calls {waiting} are not answered"


def _named(call: Body) -> tuple[str, str | None]:
    return str(call.get("name")), call.get("id")


FAULTS: dict[str, Callable[[Body], Iterator[str]]] = {
    "openai-completions": chat_faults,
    "openai-responses": responses_faults,
    "anthropic-messages": messages_faults,
    "google-generative-ai": gemini_faults,
}
"""api → the broken rules of a body."""

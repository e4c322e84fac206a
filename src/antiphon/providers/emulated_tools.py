"""Tools for a server that has none, by asking for JSON of a fixed shape (pure).

The request names the tools in its text and carries a JSON schema that admits a call of one tool, or an answer; what
comes back is read as that while it streams (`emulated_answers`). Nothing is needed from the server but
`response_format`. Two styles:

`ask` leaves every choice to the model and shows it the whole history, calls and results included: for models that can
be trusted with a choice. `guided_tools.ask` makes the choices that a very small model cannot make.

What was measured, and why there are two: docs/decisions/0007-emulated-tools.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from antiphon.core.content import Text, ToolCall, text_of
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, calls_of
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject
from antiphon.providers import wire_json
from antiphon.providers.tool_guess import properties_of, required_names
from antiphon.providers.wire_json import clean

TOOL_KEY: Final = "tool"
ARGUMENTS_KEY: Final = "arguments"
ANSWER_KEY: Final = "answer"

_HOW_TO: Final = (
    'You can use tools. Reply with one JSON object and nothing else: {"tool": NAME, "arguments": {...}} to use a tool, '
    'after which you are given its result, or {"answer": TEXT} when you can answer. The tools:'
)
_MESSAGE_BYTES: Final = 32
"""What a chat template may put around a message."""
_RESERVED_TOKENS: Final = 64
_UNKNOWN_WINDOW: Final = 8192
_MOST_NESTED: Final = 8


class Asked(Struct, frozen=True):
    """Messages to send. `schema`: what the answer must look like (None: free text). `stop`: a text that ends it."""

    messages: list[JsonObject]
    schema: JsonObject | None = None
    stop: str | None = None


def room(window: int, answer_tokens: int, bytes_per_token: int) -> int:
    """How many bytes of text a request may hold so that the answer still fits the window (tokens; 0: unknown).

    With 1 byte for a token it cannot overflow, whatever the text; English has about 4, digits and rare scripts 1 to 2.
    """
    tokens = (window if window > 0 else _UNKNOWN_WINDOW) - answer_tokens - _RESERVED_TOKENS
    return max(256, tokens * bytes_per_token)


def ask(messages: Sequence[Message], state: SystemState, room: int, tool_choice: Any = None) -> Asked:
    """The request in which the model chooses. `messages` went through the hand-off; system messages are passed over.

    A call that is the very same as one before it, in answer to the same message of the user, has gone in a circle:
    then only an answer is admitted.
    """
    tools, must_call = allowed(state.tools, tool_choice)
    if not tools:
        return Asked(dialogue(state.prompt, _spoken(messages, as_json=False), room))
    options = [] if goes_in_circles(messages) else [call_schema(tool) for tool in tools]
    if not options or not must_call:
        options.append(_object_schema({ANSWER_KEY: {"type": "string"}}, [ANSWER_KEY]))
    prompt = "\n\n".join(part for part in (state.prompt, _HOW_TO + "".join(map(_described, tools))) if part)
    return Asked(dialogue(prompt, _spoken(messages, as_json=True), room), any_of(options))


def allowed(tools: Sequence[ToolDeclaration], choice: Any) -> tuple[Sequence[ToolDeclaration], bool]:
    """The tools that a `tool_choice` leaves, and whether one must be called."""
    if choice == "none":
        return (), False
    if isinstance(choice, dict):
        named = cast("JsonObject", choice)
        name = cast("JsonObject", named.get("function") or named).get("name")
        return [tool for tool in tools if tool.name == name] or tools, True
    return tools, choice in ("required", "any")


def goes_in_circles(messages: Sequence[Message]) -> bool:
    """Was the last call made before, since the user spoke?"""
    seen: list[ToolCall] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        if isinstance(message, AssistantMessage):
            seen += calls_of(message)
    return any(call.name == seen[0].name and call.arguments == seen[0].arguments for call in seen[1:])


# -- what is said ------------------------------------------------------------------------------------------------------


def _described(tool: ToolDeclaration) -> str:
    """A tool and its arguments, a line each."""
    required = required_names(tool)
    lines = [f"\n- {tool.name}: {' '.join(tool.description.split())}"]
    for name, schema in properties_of(tool).items():
        more = cast("JsonObject", schema) if isinstance(schema, dict) else {}
        kind = more.get("type", "any")
        optional = "" if name in required else ", optional"
        about = f": {more['description']}" if "description" in more else ""
        lines.append(f"  {name} ({kind if isinstance(kind, str) else wire_json.encode_text(kind)}{optional}){about}")
    return clean("\n".join(lines))


def _spoken(messages: Iterable[Message], *, as_json: bool) -> list[tuple[str, str]]:
    """Role and words of each message. Calls are told as the JSON that made them, results as words of the user."""
    said: list[tuple[str, str]] = []
    for message in messages:
        if isinstance(message, UserMessage):
            said.append(("user", text_of(message.content)))
        elif isinstance(message, ToolResultMessage):
            outcome = "Error" if message.is_error else "Result"
            said.append(("user", f"{outcome} of {message.tool_name}:\n{text_of(message.content)}"))
        elif isinstance(message, AssistantMessage):
            said.append(("assistant", _assistant_words(message, as_json=as_json)))
    return [(role, clean(text)) for role, text in said if text.strip()]


def _assistant_words(message: AssistantMessage, *, as_json: bool) -> str:
    lines: list[str] = []
    for block in message.content:
        if type(block) is ToolCall:
            lines.append(wire_json.encode_text({TOOL_KEY: block.name, ARGUMENTS_KEY: block.arguments}))
        elif type(block) is Text and block.text.strip():
            lines.append(wire_json.encode_text({ANSWER_KEY: block.text}) if as_json else block.text)
    return "\n".join(lines)


def dialogue(prompt: str, said: Sequence[tuple[str, str]], room: int) -> list[JsonObject]:
    """Prompt and what was said, as messages of alternating roles. The oldest are dropped, long ones cut, to fit."""
    prompt = cut(clean(prompt), room // 2)
    left = room - size(prompt) - _MESSAGE_BYTES
    kept: list[tuple[str, str]] = []
    for role, text in reversed(said):
        text = cut(text, max(64, left - _MESSAGE_BYTES) if not kept else room // 3)
        left -= size(text) + _MESSAGE_BYTES
        if left < 0 and kept:
            break
        kept.append((role, text))
    while len(kept) > 1 and kept[-1][0] != "user":
        kept.pop()  # templates want the user to begin
    messages: list[JsonObject] = [{"role": "system", "content": prompt}] if prompt.strip() else []
    for role, text in reversed(kept):
        if messages and messages[-1]["role"] == role:
            messages[-1] = {"role": role, "content": f"{messages[-1]['content']}\n\n{text}"}
        else:
            messages.append({"role": role, "content": text})
    return messages


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def cut(text: str, limit: int) -> str:
    """The text; or its head and tail, together at most `limit` bytes."""
    if size(text) <= limit:
        return text
    data = text.encode("utf-8", "replace")
    half = max(0, (limit - 8) // 2)
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore")
    return f"{head}\n[...]\n{tail}"[:limit]


# -- what may come back ------------------------------------------------------------------------------------------------


def call_schema(tool: ToolDeclaration) -> JsonObject:
    """A call of this tool. Only what every server's grammar understands is kept of its schema."""
    arguments = plain_schema(tool.parameters, tool.parameters)
    if arguments.get("type") != "object":
        arguments = {"type": "object"}
    return call_of(tool.name, arguments)


def call_of(name: str, arguments: JsonObject) -> JsonObject:
    """A call of the tool `name` with arguments of this schema."""
    return _object_schema({TOOL_KEY: {"const": name}, ARGUMENTS_KEY: arguments}, [TOOL_KEY, ARGUMENTS_KEY])


def any_of(options: Sequence[JsonObject]) -> JsonObject:
    return options[0] if len(options) == 1 else {"anyOf": list(options)}


def _object_schema(properties: JsonObject, required: Sequence[str]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def plain_schema(schema: Any, root: JsonObject, depth: int = 0) -> JsonObject:
    """The schema in few words: types, members, items, enumerations, alternatives. References are written out."""
    if not isinstance(schema, dict) or depth > _MOST_NESTED:
        return {}
    given = cast("JsonObject", schema)
    if isinstance(reference := given.get("$ref"), str):
        return plain_schema(_referred(reference, root), root, depth + 1)
    for word in ("anyOf", "oneOf"):
        options = given.get(word)
        if isinstance(options, list) and options:
            return {"anyOf": [plain_schema(option, root, depth + 1) for option in options]}
    plain: JsonObject = {name: given[name] for name in ("type", "enum", "const") if name in given}
    if isinstance(given.get("properties"), dict):
        members = cast("JsonObject", given["properties"])
        required = [name for name in given.get("required") or () if name in members]
        properties = {name: plain_schema(member, root, depth + 1) for name, member in members.items()}
        plain = _object_schema(properties, required)
    if "items" in given:
        plain["items"] = plain_schema(given["items"], root, depth + 1)
    return plain


def _referred(reference: str, root: JsonObject) -> Any:
    """What a local reference such as `#/$defs/name` names; nothing if it is not there."""
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        found = cast("JsonObject", found).get(part) if isinstance(found, dict) else None
    return found

"""Emulated tools for a very small model, such as the embedded one: what it cannot decide is decided here (pure).

A message of the user: the words decide whether a tool is meant and which (`tool_guess`); the model only fills in its
arguments, under a schema that holds it to the file names and numbers that were mentioned. Without a fitting tool it
answers in free text.

A tool result: free text in answer to one message that holds the question and the result. With the history it repeats
what it sees there; with the choice "call or answer" it calls for ever. So each message of the user gets at most one
round of tools.

Every wording was measured: docs/decisions/0007-emulated-tools.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from antiphon.core.content import text_of
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject
from antiphon.providers.emulated_tools import Asked, allowed, any_of, call_of, cut, dialogue, plain_schema, size
from antiphon.providers.tool_guess import (
    file_names,
    guess,
    is_number,
    is_path,
    numbers,
    properties_of,
    required_names,
)
from antiphon.providers.wire_json import clean

RESULT_BYTES: Final = 2400
"""Of a tool result the model is shown this much: reading is what takes its time."""
_LONGEST_TEXT: Final = 160
_ONE_LINE: Final = 200
_SENTENCE = re.compile(r"(?<=[.!?])\s")


def ask(messages: Sequence[Message], state: SystemState, room: int, tool_choice: Any = None) -> Asked:
    """The request for what stands at the end. `messages` went through the hand-off."""
    last = next((m for m in reversed(messages) if isinstance(m, _SPEAKING)), None)
    if isinstance(last, ToolResultMessage):
        return _answer(messages, room)
    question = clean(text_of(last.content)) if isinstance(last, UserMessage) else ""
    tools, must_call = allowed(state.tools, tool_choice)
    fitting = guess(question, tools) or (tools if must_call else ())
    if not fitting:
        return Asked(dialogue(state.prompt, _words(messages), room))
    prompt = _call_prompt(cut(question, room // 2), fitting)
    return Asked([_user(cut(prompt, room))], any_of([_call_schema(tool, question) for tool in fitting]))


_SPEAKING = (UserMessage, AssistantMessage, ToolResultMessage)


def _user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def _words(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """What was said, without what the tools had to do with it."""
    said = [(m.role, clean(text_of(m.content))) for m in messages if isinstance(m, UserMessage | AssistantMessage)]
    return [(role, text) for role, text in said if text.strip()]


def _answer(messages: Sequence[Message], room: int) -> Asked:
    """The last question with the results that have come since, in words that depend on how long they are."""
    results: list[str] = []
    question = ""
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            results.append(clean(text_of(message.content)))
        elif isinstance(message, UserMessage):
            question = clean(text_of(message.content))
            break
    result = cut("\n\n".join(reversed(results)), min(room // 2, RESULT_BYTES))
    question = cut(question, room // 4)
    if "\n" in result.strip() or size(result) > _ONE_LINE:
        return Asked([_user(f"{question}\nI found this: {result}\nSo what is the answer?")])
    prompt = f'I asked: {question}\nThe reply was: "{result.strip()}"\nWhat was the reply?'
    return Asked([_user(prompt)], stop="\n")


def _call_prompt(question: str, tools: Sequence[ToolDeclaration]) -> str:
    lines = [f"- {tool.name}({', '.join(_wanted(tool, question))}): {_first_sentence(tool)}" for tool in tools]
    if len(tools) == 1:
        names = ", ".join(_wanted(tools[0], question))
        fill_in = f"Fill in the JSON of the tool call for this request{': ' if names else ''}{names}."
        return f"Request: {question}\nTool: {lines[0]}\n{fill_in}"
    listed = "\n".join(lines)
    return f"Request: {question}\nTools:\n{listed}\nFill in the JSON of the tool call that fits this request."


def _first_sentence(tool: ToolDeclaration) -> str:
    return clean(_SENTENCE.split(" ".join(tool.description.split()), maxsplit=1)[0])


def _wanted(tool: ToolDeclaration, question: str) -> list[str]:
    """Arguments to fill in: those a call needs, and a path if the question names one."""
    required = required_names(tool)
    mentioned = bool(file_names(question))
    return [name for name in properties_of(tool) if name in required or (mentioned and is_path(name))]


def _call_schema(tool: ToolDeclaration, question: str) -> JsonObject:
    names = _wanted(tool, question)
    members = {name: plain_schema(schema, tool.parameters) for name, schema in properties_of(tool).items()}
    counted = sum(is_number(members[name]) for name in names)
    narrowed = {name: _narrowed(members[name], name, question, counted) for name in names}
    arguments = {"type": "object", "properties": narrowed, "required": names, "additionalProperties": False}
    return call_of(tool.name, arguments)


def _narrowed(schema: JsonObject, name: str, question: str, counted: int = 0) -> JsonObject:
    """The schema, held to what the question mentions; texts and lists come to an end.

    `counted`: how many numbers the call takes. With fewer in the question they are not all mentioned.
    """
    if "enum" in schema or "const" in schema:
        return schema
    mentioned = file_names(question) if is_path(name) else []
    figures = numbers(question)
    if schema.get("type") == "string":
        return {"enum": mentioned} if mentioned else {**schema, "maxLength": _LONGEST_TEXT}
    if is_number(schema) and figures and len(figures) >= counted > 0:
        return {"enum": [figure for figure in figures if isinstance(figure, int)] or figures}
    if schema.get("type") == "array":
        items = _narrowed(cast("JsonObject", schema.get("items") or {}), "", question)
        return {**schema, "items": items, "minItems": 1, "maxItems": 1}
    if isinstance(schema.get("properties"), dict):
        members = cast("JsonObject", schema["properties"])
        return {**schema, "properties": {key: _narrowed(item, key, question) for key, item in members.items()}}
    return schema

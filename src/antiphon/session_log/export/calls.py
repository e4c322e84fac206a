"""Tool calls on a page: what was asked for and what came of it, folded into one line each. Pure."""

from __future__ import annotations

from html import escape
from typing import Any, cast

from msgspec import UNSET

from antiphon.core.content import Content, Image, Text, ToolCall
from antiphon.core.messages import ToolResultMessage
from antiphon.core.wire import JsonObject, JsonValue, to_wire
from antiphon.session_log.entries import MessageEntry
from antiphon.session_log.export.blocks import count, duration, folded, image
from antiphon.session_log.export.paint import language_of, painted, painted_diff, painted_json, printable
from antiphon.session_log.export.steps import Step

_TOLD = ("command", "path", "file_path", "pattern", "query", "url", "name", "prompt", "task")
"""Arguments that say best what a call is about, the best first."""
_EDITS = ("edits", "oldText", "newText")
_GIST_CHARACTERS = 110
_MOST_NESTED = 100


def call_html(call: ToolCall, result: Step | None) -> str:
    """One call with its result."""
    message = _result_of(result)
    state = "open" if message is None else "error" if message.is_error else "done"
    said = {"open": "no result", "error": "error", "done": ""}[state]
    took = "" if message is None else duration(message.duration_ms)
    marks = "".join(f'<span class="mark">{escape(mark)}</span>' for mark in (took, said) if mark)
    head = (
        f'<span class="tool">{escape(call.name)}</span><code class="gist">{escape(_gist(call.arguments))}</code>{marks}'
    )
    anchor = "" if result is None else f' id="{escape(result.anchor)}"'
    body = _asked(call, message) + ("" if message is None else result_html(message, call.arguments, result))
    return f'<details class="call {state}"{anchor}><summary>{head}</summary>{body}</details>'


def _result_of(step: Step | None) -> ToolResultMessage | None:
    message = step.entry.message if step is not None and isinstance(step.entry, MessageEntry) else None
    return message if isinstance(message, ToolResultMessage) else None


def _gist(arguments: JsonObject) -> str:
    """The first line of what a call is about."""
    texts = [arguments[name] for name in _TOLD if isinstance(arguments.get(name), str)]
    texts += [value for value in arguments.values() if isinstance(value, str)]
    line = next((text for text in texts if text.strip()), "").strip().split("\n", 1)[0]
    return line if len(line) <= _GIST_CHARACTERS else line[: _GIST_CHARACTERS - 1] + "…"


# ---- what was asked for ---------------------------------------------------------------------------------------------


def _asked(call: ToolCall, result: ToolResultMessage | None) -> str:
    """The arguments, in the form in which a person would write them."""
    rest = dict(call.arguments)
    path = rest["path"] if isinstance(rest.get("path"), str) else None
    parts: list[str] = []
    if isinstance(rest.get("command"), str):
        parts.append(_pre(painted(rest.pop("command"), "bash")))
    if path is not None and isinstance(rest.get("content"), str):
        parts.append(_pre(painted(rest.pop("content"), language_of(path))))
    edits = _edits(rest)
    if edits is not None:
        rest = {name: value for name, value in rest.items() if name not in _EDITS}
        if _diff_of(result) is None:
            parts.append(_pre(painted_diff(edits)))
    if rest and not (list(rest) == ["path"] and path == _gist(rest)):
        parts.insert(0, _pre(painted_json(rest)))
    return "".join(parts)


def _edits(arguments: JsonObject) -> str | None:
    """Replacements of texts as a diff; nothing if there are none."""
    given = arguments.get("edits")
    edits = given if isinstance(given, list) else [arguments]
    texts = [_replacement(edit) for edit in edits if isinstance(edit, dict)]
    found = [text for text in texts if text is not None]
    return "\n\n".join(found) if found else None


def _replacement(edit: JsonObject) -> str | None:
    old, new = edit.get("oldText"), edit.get("newText")
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    return "\n".join([*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))])


# ---- what came of it ------------------------------------------------------------------------------------------------


def result_html(message: ToolResultMessage, arguments: JsonObject, step: Step | None = None) -> str:
    """The result of a call."""
    diff = _diff_of(message)
    parts = [_pre(painted_diff(diff))] if diff is not None else []
    parts += _blocks(message.content, _language(message, arguments))
    if message.nested_calls is not UNSET:
        parts.append(_nested(message.nested_calls))
    if step is not None and step.edit is not None:
        parts.append(edit_note(step))
    return f'<div class="result">{"".join(parts) or _pre("(nothing)")}</div>'


def _language(message: ToolResultMessage, arguments: JsonObject) -> str:
    """What a result is written in: a file that was read is known by its name."""
    path = arguments.get("path")
    return language_of(path) if message.tool_name == "read" and not message.is_error and isinstance(path, str) else ""


def _diff_of(message: ToolResultMessage | None) -> str | None:
    details: Any = UNSET if message is None else message.details
    diff = cast("JsonObject", details).get("diff") if isinstance(details, dict) else None
    return diff if isinstance(diff, str) and diff else None


def _blocks(content: Content, language: str) -> list[str]:
    parts: list[str] = []
    for block in content:
        match block:
            case Text(text=text):
                parts.append(_pre(painted(printable(text), language)) if text else "")
            case Image():
                parts.append(image(block))
            case _:
                parts.append(folded("other content", painted_json(to_wire(block))))
    return parts


def _nested(record: JsonValue) -> str:
    """Calls that a tool made itself."""
    calls = record.get("calls") if isinstance(record, dict) else None
    if not isinstance(calls, list) or not calls:
        return ""
    lines = [_nested_line(call) for call in calls[:_MOST_NESTED] if isinstance(call, dict)]
    return folded(count(len(calls), "call") + " inside", "\n".join(lines))


def _nested_line(call: JsonObject) -> str:
    name, arguments = str(call.get("name", "")), call.get("arguments")
    gist = _gist(cast("JsonObject", arguments)) if isinstance(arguments, dict) else ""
    return f'<span class="tool">{escape(name)}</span> {escape(gist)}'


def edit_note(step: Step) -> str:
    """That the model no longer sees an entry, or sees something else."""
    edit = step.edit
    if edit is None:
        return ""
    if edit.replacement is None:
        return '<p class="edit">no longer shown to the model</p>'
    content = edit.replacement.content
    text = content if isinstance(content, str) else "\n".join(b.text for b in content if type(b) is Text)
    return folded("the model is shown another text", escape(text), "edit")


def _pre(html: str) -> str:
    return f'<pre class="code">{html}</pre>'

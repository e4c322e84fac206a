"""Entries of a session as parts of a page. Pure.

What was said becomes an article, what was set becomes a line, marks about the tree become nothing: they show elsewhere.
"""

from __future__ import annotations

from html import escape
from typing import Any, final

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall, text_of
from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    calls_of,
)
from antiphon.core.usage import Usage
from antiphon.core.wire import to_wire
from antiphon.session_log.convert import shell_text
from antiphon.session_log.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelEntry,
    UnknownEntry,
    UsageEntry,
)
from antiphon.session_log.export.blocks import duration, folded, image, usage_line
from antiphon.session_log.export.calls import call_html, edit_note, result_html
from antiphon.session_log.export.paint import painted_json, printable
from antiphon.session_log.export.prose import bare, prose
from antiphon.session_log.export.steps import Step
from antiphon.session_log.projection import custom_message

_TITLE_CHARACTERS = 80


@final
class Shown(Struct, frozen=True, gc=False):
    """A part of the page. `kind` and `title`: how the tree names it; without a title it is not in the tree."""

    html: str
    kind: str = ""
    title: str = ""


NOTHING = Shown("")


def shown(step: Step) -> Shown:
    """An entry as part of a page; nothing if it says nothing, or is shown with another one."""
    match step.entry:
        case MessageEntry(message=message):
            return NOTHING if step.answered else _message(message, step)
        case CustomMessageEntry(display=True) as entry:
            return _message(custom_message(entry), step)
        case CompactionEntry(summary=summary, tokens_before=tokens, usage=usage):
            about = f"Summary of what was said before ({tokens:,.0f} tokens)"
            return _summary(step, "compaction", about, summary, usage)
        case BranchSummaryEntry(summary=summary, usage=usage) if summary:
            return _summary(step, "branch", "Summary of another way", summary, usage)
        case _:
            return Shown(_line(step.entry))


def _line(entry: Entry) -> str:
    """What was set or spent, in one line."""
    match entry:
        case ModelChangeEntry(provider=provider, model_id=model_id):
            return _note(f"model: {provider}/{model_id}")
        case ThinkingLevelEntry(thinking_level=level):
            return _note(f"thinking level: {level}")
        case SessionInfoEntry(name=name):
            return _note(f"named: {name}" if name else "name taken away")
        case UsageEntry(kind=kind, usage=usage):
            return _note(f"{kind}: {usage_line(usage) or 'nothing'}")
        case UnknownEntry(type=kind, data=data):
            return folded(f"entry of kind {kind or '(none)'}", painted_json(data), "note")
        case _:
            return ""


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


# ---- messages -------------------------------------------------------------------------------------------------------


def _message(message: Message, step: Step) -> Shown:
    match message:
        case SystemMessage():
            body = folded("prompt and tools", escape(_system_text(message)))
            return Shown(_framed(step, "system", "System", body))
        case UserMessage(content=content):
            return Shown(_framed(step, "user", "User", _content(content)), "user", _title(content))
        case AssistantMessage():
            return _answer(message, step)
        case ToolResultMessage(tool_name=name):
            body = f"<details><summary>result</summary>{result_html(message, {}, None)}</details>"
            kind = "toolResult error" if message.is_error else "toolResult"
            return Shown(_framed(step, kind, f"Result of {name}", body))
        case HostMessage():
            return _host(message, step)


def _answer(message: AssistantMessage, step: Step) -> Shown:
    """An answer with its thinking, its calls and their results, and what it cost."""
    results = iter(step.results)
    parts = [
        call_html(block, next(results, None)) if type(block) is ToolCall else _block(block) for block in message.content
    ]
    parts.append(_failure(message))
    spent = [message.model, duration(message.duration_ms), usage_line(message.usage)]
    foot = " · ".join(part for part in spent if part)
    parts.append(f"<footer>{escape(foot)}</footer>" if foot else "")
    kind = "assistant error" if message.stop_reason == "error" else "assistant"
    names = [call.name for call in calls_of(message)]
    title = _title(message.content) or (f"→ {', '.join(names)}" if names else message.stop_reason)
    return Shown(_framed(step, kind, "Assistant", "".join(parts)), "assistant", _cut(title))


def _failure(message: AssistantMessage) -> str:
    if message.stop_reason in ("stop", "toolUse") and not message.error_message:
        return ""
    said = message.error_message if isinstance(message.error_message, str) else ""
    return f'<pre class="failure">{escape(": ".join(part for part in (message.stop_reason, said) if part))}</pre>'


def _host(message: HostMessage, step: Step) -> Shown:
    text = _host_text(message)
    if message.role == "bashExecution":
        command = str(message.data.get("command", ""))
        return Shown(_framed(step, "host", "Shell", _pre(text)), "user", _cut(f"$ {command}"))
    name = str(message.data.get("customType") or message.role)
    return Shown(_framed(step, "host", name, f'<div class="text">{escape(text)}</div>'), "host", _cut(text))


def _summary(step: Step, kind: str, about: str, summary: str, usage: Usage | UnsetType) -> Shown:
    spent = "" if usage is UNSET else usage_line(usage)
    foot = f"<footer>{escape(spent)}</footer>" if spent else ""
    body = f"<details><summary>{escape(about)}</summary>{prose(summary)}</details>{foot}"
    return Shown(_framed(step, "summary", "Summary", body), kind, "Summary")


def _framed(step: Step, kind: str, title: str, body: str) -> str:
    entry = step.entry
    label = f'<span class="label">{escape(step.label)}</span>' if step.label else ""
    time = f'<time datetime="{escape(entry.timestamp)}">{escape(_moment(entry))}</time>'
    stamp = f'<a href="#{escape(step.anchor)}">{time}</a>'
    heading = f"<h2>{escape(title)}{label}{stamp}</h2>"
    return f'<article class="{kind}" id="{escape(step.anchor)}">{heading}{body}{edit_note(step)}</article>'


def _moment(entry: Entry) -> str:
    """The time of an entry as people write it: to the second, UTC."""
    stamp = entry.timestamp
    return f"{stamp[:10]} {stamp[11:19]}" if len(stamp) == 24 and stamp.endswith("Z") else stamp or "no time"


# ---- blocks ---------------------------------------------------------------------------------------------------------


def _content(content: str | Content) -> str:
    return prose(content) if isinstance(content, str) else "".join(_block(block) for block in content)


def _block(block: Any) -> str:
    match block:
        case Text(text=text):
            return prose(text)
        case Thinking(thinking=thinking, redacted=redacted):
            hidden = "(hidden by the provider)" if redacted is True else ""
            return folded("thinking", escape(printable(thinking)) or hidden, "thinking") if thinking or hidden else ""
        case Image():
            return image(block)
        case ToolCall(name=name, arguments=arguments):
            return folded(f"calls {name}", painted_json(arguments))
        case _:
            return folded("other content", painted_json(to_wire(block)))


def _title(content: str | Content) -> str:
    """The first words."""
    text = text_of(content)
    if not text.strip() and not isinstance(content, str):
        return "(image)" if any(type(block) is Image for block in content) else ""
    return _cut(bare(text[: 4 * _TITLE_CHARACTERS]))


def _cut(text: str) -> str:
    line = " ".join(printable(text[: 4 * _TITLE_CHARACTERS]).split())
    return line if len(line) <= _TITLE_CHARACTERS else line[: _TITLE_CHARACTERS - 1] + "…"


def _pre(text: str) -> str:
    return f'<pre class="code">{escape(printable(text))}</pre>'


def _system_text(message: SystemMessage) -> str:
    sections = {} if message.sections is UNSET else message.sections
    tools = () if message.tools_added is UNSET else message.tools_added
    texts = [text_of(message.content)]
    texts += [text for text in sections.values() if text]
    texts += [f"tool {tool.name}: {tool.description}" for tool in tools]
    return "\n\n".join(text for text in texts if text)


def _host_text(message: HostMessage) -> str:
    data = message.data
    if message.role == "bashExecution":
        return shell_text(data)
    content = data.get("content", data.get("summary", ""))
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))

"""A session to read: one page of HTML that needs nothing else, not even scripts, or Markdown. Pure.

Everything that was said is text of somebody else: it is escaped, never interpreted. The page forbids scripts, frames
and every request to elsewhere, so that it can be opened and passed on without fear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, cast

from msgspec import UNSET

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall
from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from antiphon.core.wire import to_wire, without_surrogates
from antiphon.session_log.convert import shell_text
from antiphon.session_log.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelEntry,
)
from antiphon.session_log.log import SessionLog
from antiphon.session_log.projection import custom_message

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --user: #2b6cb022; --tool: #8881; --bad: #c5303022; }
body { font: 15px/1.55 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: 0 0 1rem; font-size: .85rem; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
article { margin: 0 0 1rem; padding: .6rem .9rem; border-radius: .5rem; border: 1px solid var(--line); }
article.user { background: var(--user); } article.toolResult, article.system { background: var(--tool); }
article.error { background: var(--bad); }
article > h2 { font-size: .75rem; font-weight: 600; margin: 0 0 .3rem; opacity: .75; }
pre, .text { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
pre { font: 13px/1.45 ui-monospace, monospace; }
details { margin: .3rem 0; } summary { cursor: pointer; opacity: .85; }
img { max-width: 100%; } p.note { font-size: .8rem; opacity: .7; text-align: center; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def session_html(log: SessionLog) -> str:
    """The active path as one HTML page: everything that was said on it, also what the model no longer sees."""
    title = escape(log.name or f"Session {log.session_id}")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>{title}</h1>{_facts(log)}</header><main>",
        *(_article(entry, log.label(entry.id)) for entry in log.path_entries()),
        "</main></body></html>",
    ]
    return cast("str", without_surrogates("\n".join(part for part in parts if part)))


def _facts(log: SessionLog) -> str:
    rows = [
        ("session", log.session_id),
        ("created", log.header.timestamp),
        ("folder", log.cwd),
        ("forked from", "" if log.header.parent_session is UNSET else log.header.parent_session),
        ("entries", f"{len(log.path_ids())} shown of {log.entry_count}"),
    ]
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in rows if value) + "</dl>"


def _article(entry: Entry, label: str | None) -> str:
    match entry:
        case MessageEntry(message=message):
            return _message_article(message, entry, label)
        case CustomMessageEntry(display=True):
            return _message_article(custom_message(entry), entry, label)
        case CompactionEntry(summary=summary):
            return _framed("summary", "Summary of what was said before", _folded("summary", summary), entry, label)
        case BranchSummaryEntry(summary=summary) if summary:
            return _framed("summary", "Summary of another branch", _folded("summary", summary), entry, label)
        case ModelChangeEntry(provider=provider, model_id=model_id):
            return f'<p class="note">model: {escape(provider)}/{escape(model_id)}</p>'
        case ThinkingLevelEntry(thinking_level=level):
            return f'<p class="note">thinking level: {escape(level)}</p>'
        case _:
            return ""


def _message_article(message: Message, entry: Entry, label: str | None) -> str:
    match message:
        case SystemMessage():
            return _framed("system", "system", _folded("prompt and tools", _system_text(message)), entry, label)
        case UserMessage(content=content):
            return _framed("user", "user", _content(content), entry, label)
        case AssistantMessage():
            said = _content(message.content) + _failure(message)
            kind = "assistant error" if message.stop_reason == "error" else "assistant"
            return _framed(kind, f"assistant · {message.model}" if message.model else "assistant", said, entry, label)
        case ToolResultMessage(content=content, tool_name=name, is_error=is_error):
            body = f"<details{' open' if is_error else ''}><summary>result</summary>{_content(content)}</details>"
            kind = "toolResult error" if is_error else "toolResult"
            return _framed(kind, f"result of {name}" + (" (error)" if is_error else ""), body, entry, label)
        case HostMessage():
            return _framed("host", message.role, f"<pre>{escape(_host_text(message))}</pre>", entry, label)


def _framed(kind: str, title: str, body: str, entry: Entry, label: str | None) -> str:
    marked = f" · {escape(label)}" if label else ""
    stamp = f' <time datetime="{escape(entry.timestamp)}">{escape(entry.timestamp)}</time>'
    heading = f"<h2>{escape(title)}{marked}{stamp}</h2>"
    return f'<article class="{kind}" id="{escape(entry.id)}">{heading}{body}</article>'


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _failure(message: AssistantMessage) -> str:
    text = message.error_message
    return f'<pre class="failure">{escape(text)}</pre>' if isinstance(text, str) and text else ""


def _content(content: str | Content) -> str:
    if isinstance(content, str):
        return f'<div class="text">{escape(content)}</div>'
    return "".join(_block(block) for block in content)


def _block(block: Any) -> str:
    match block:
        case Text(text=text):
            return f'<div class="text">{escape(text)}</div>' if text else ""
        case Thinking(thinking=thinking):
            return _folded("thinking", thinking) if thinking else ""
        case ToolCall(name=name, arguments=arguments):
            return _folded(f"calls {name}", json.dumps(arguments, ensure_ascii=False, indent=2))
        case Image(data=data, mime_type=kind) if kind in SHOWN_IMAGES and _BASE64.fullmatch(data):
            return f'<img alt="image" src="data:{kind};base64,{data}">'
        case Image(mime_type=kind):
            return f'<p class="note">an image ({escape(kind)}) that is not shown</p>'
        case _:
            return _folded("other", json.dumps(to_wire(block), ensure_ascii=False, indent=2))


def _system_text(message: SystemMessage) -> str:
    sections = {} if message.sections is UNSET else message.sections
    tools = () if message.tools_added is UNSET else message.tools_added
    texts = [message.content if isinstance(message.content, str) else _plain(message.content)]
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


def _plain(content: Content) -> str:
    return "\n".join(block.text for block in content if type(block) is Text)


def session_markdown(log: SessionLog) -> str:
    """The words of the active path as Markdown: users and answers in full, calls and results as fenced code."""
    title = (log.name or f"Session {log.session_id}").replace("\n", " ")
    parts = [f"# {title}"]
    for entry in log.path_entries():
        if isinstance(entry, MessageEntry):
            parts.extend(_markdown(entry.message))
        elif isinstance(entry, CompactionEntry | BranchSummaryEntry) and entry.summary:
            parts.append(f"## Summary\n\n{entry.summary}")
    return cast("str", without_surrogates("\n\n".join(parts) + "\n"))


def _markdown(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(content=content):
            yield f"## User\n\n{content if isinstance(content, str) else _plain(content)}"
        case AssistantMessage(content=content):
            yield from _markdown_answer(content)
        case ToolResultMessage(content=content, tool_name=name):
            yield f"Result of `{name}`:\n\n{fenced(_plain(content))}"
        case HostMessage(role="bashExecution"):
            yield f"## User\n\n{shell_text(message.data)}"
        case _:
            return


def _markdown_answer(content: Content) -> Iterator[str]:
    text = _plain(content)
    yield f"## Assistant\n\n{text}" if text else "## Assistant"
    for block in content:
        if type(block) is ToolCall:
            arguments = json.dumps(block.arguments, ensure_ascii=False, indent=2)
            yield f"Calls `{block.name}`:\n\n{fenced(arguments, 'json')}"


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than every run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


FORMATS: dict[str, Callable[[SessionLog], str]] = {"html": session_html, "markdown": session_markdown}
"""What a session can be exported as, besides the file format itself."""

"""A session as Markdown: what was said on the active path, calls and results as fenced code. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import cast

from antiphon.core.content import Content, Text, ToolCall
from antiphon.core.messages import AssistantMessage, HostMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.wire import without_surrogates
from antiphon.session_log.convert import shell_text
from antiphon.session_log.entries import BranchSummaryEntry, CompactionEntry, MessageEntry
from antiphon.session_log.log import SessionLog


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


def _plain(content: Content) -> str:
    return "\n".join(block.text for block in content if type(block) is Text)

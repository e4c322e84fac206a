"""Prompt and tools as history: a fold over system messages.

Nothing that a model was told is rewritten; a later system message adds to it, replaces a named section, or takes tools
away. `SystemState` is what holds after the messages folded so far. Folding one message costs what that message
changes; the joined prompt and the tuple of tools are made when first asked for.

`declare` keeps the transcript honest about the tools that can really run: it puts the difference between what the
model was told and what is installed into a system message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.content import text_of
from antiphon.core.declarations import ToolDeclaration, ToolName
from antiphon.core.messages import Message, SystemMessage
from antiphon.core.wire import JsonObject, JsonValue


class Declared(Protocol):
    """What counts when tools are compared: a tool that can run, or its declaration."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> JsonObject: ...


Texts: TypeAlias = "tuple[Texts, str] | None"  # newest first, shared between states


@final
class _Tools:
    """Tools in force, oldest first. Shared by all states between two changes, and so are its caches.

    `matched` is a tuple of tools that was compared and found to be exactly what is declared here.
    """

    __slots__ = ("by_name", "in_order", "matched")

    def __init__(self, by_name: dict[str, ToolDeclaration]) -> None:
        self.by_name = by_name
        self.in_order: tuple[ToolDeclaration, ...] = tuple(by_name.values())
        self.matched: Sequence[Declared] | None = () if not by_name else None

    def after(self, message: SystemMessage) -> _Tools:
        """A redefined tool keeps its place, one that was removed and added again goes last."""
        if not message.tools_added and not message.tools_removed:
            return self
        by_name = dict(self.by_name)
        for tool in message.tools_removed or ():
            by_name.pop(tool.name, None)
        for added in message.tools_added or ():
            by_name[added.name] = added
        return _Tools(by_name)


_NO_TOOLS = _Tools({})
_NO_SECTIONS: Mapping[str, str] = MappingProxyType({})


@final
class SystemState:
    """Prompt, named sections and tools in force. Treat it as immutable: it is."""

    __slots__ = ("_content", "_prompt", "_sections", "_texts", "_tools", "is_empty")

    def __init__(self) -> None:
        self.is_empty = True
        """No system message was folded so far (an empty one counts as one)."""
        self._texts: Texts = None
        self._sections = _NO_SECTIONS
        self._tools = _NO_TOOLS
        self._content: str | None = ""
        self._prompt: str | None = ""

    def apply(self, message: SystemMessage) -> SystemState:
        """The state after one more system message."""
        after = SystemState.__new__(SystemState)
        text = text_of(message.content)
        after.is_empty = False
        after._texts = (self._texts, text) if text else self._texts
        after._sections = _sections_after(self._sections, message.sections)
        after._tools = self._tools.after(message)
        after._content = None if text else self._content
        after._prompt = None if text or after._sections is not self._sections else self._prompt
        return after

    @property
    def content(self) -> str:
        """What the messages said outside of sections, joined by blank lines."""
        if self._content is None:
            texts: list[str] = []
            rest = self._texts
            while rest is not None:
                rest, text = rest
                texts.append(text)
            self._content = "\n\n".join(reversed(texts))
        return self._content

    @property
    def sections(self) -> Mapping[str, str]:
        """Named parts of the prompt in the order in which they were first declared. Read only."""
        return self._sections

    @property
    def prompt(self) -> str:
        """The whole prompt: content, then sections, joined by blank lines."""
        if self._prompt is None:
            parts = (self.content, *self._sections.values())
            self._prompt = "\n\n".join([part for part in parts if part])
        return self._prompt

    @property
    def tools(self) -> tuple[ToolDeclaration, ...]:
        """Tools the model knows of."""
        return self._tools.in_order

    def tool(self, name: str) -> ToolDeclaration | None:
        """The declaration of one tool, if the model knows of it."""
        return self._tools.by_name.get(name)

    def as_message(self, timestamp: int | float = 0) -> SystemMessage | None:
        """One message that says all of it; nothing if there was no system message."""
        if self.is_empty:
            return None
        return SystemMessage(
            content=self.content,
            sections=dict(self._sections) if self._sections else UNSET,
            tools_added=self.tools or UNSET,
            timestamp=timestamp,
        )

    def declares(self, tools: Sequence[Declared]) -> bool:
        """Is this exactly what the model was told? The comparison is skipped when these very tools matched before."""
        known = self._tools
        if known.matched is tools:
            return True
        if any(tool_changes(known.in_order, tools)):
            return False
        if type(tools) is tuple:  # a list may change behind our back
            known.matched = tools
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SystemState):
            return NotImplemented
        return self is other or self.as_message() == other.as_message()

    __hash__ = None  # type: ignore[assignment]  # as unhashable as the schemas it holds

    def __repr__(self) -> str:
        return f"<SystemState of {len(self.prompt)} characters and {len(self.tools)} tools>"


def replay(messages: Iterable[Message]) -> SystemState:
    """What the system messages of a conversation add up to."""
    state = SystemState()
    for message in messages:
        if type(message) is SystemMessage:
            state = state.apply(message)
    return state


def _sections_after(before: Mapping[str, str], given: dict[str, str | None] | UnsetType) -> Mapping[str, str]:
    if not given:
        return before
    sections = dict(before)
    for name, text in given.items():
        if text is None:
            sections.pop(name, None)
        else:
            sections[name] = text
    return MappingProxyType(sections)


def same_declaration(a: Declared, b: Declared) -> bool:
    """Would a model read the same? Name, description and parameters count, and so does the key order in a schema."""
    return a is b or (a.name == b.name and a.description == b.description and same_json(a.parameters, b.parameters))


def same_json(a: JsonValue, b: JsonValue) -> bool:
    """Equality of decoded JSON in which key order counts, numbers compare by value, and true is not 1."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("JsonObject", a), cast("JsonObject", b)
        return list(left) == list(right) and all(map(same_json, left.values(), right.values()))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        items, others = cast("Sequence[Any]", a), cast("Sequence[Any]", b)
        return len(items) == len(others) and all(map(same_json, items, others))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def tool_changes(
    previous: Sequence[Declared], current: Sequence[Declared]
) -> tuple[tuple[ToolDeclaration, ...], tuple[ToolName, ...]]:
    """What to add and what to remove so that `previous` becomes `current`; a changed tool is in both lists.

    Of several tools with one name the last one counts as the definition, as it does in a replay.
    """
    before = {tool.name: tool for tool in previous}
    now = {tool.name: tool for tool in current}
    added = tuple(declaration_of(tool) for tool in current if not _is_same(before.get(tool.name), tool))
    removed = tuple(ToolName(name=tool.name) for tool in previous if not _is_same(now.get(tool.name), tool))
    return added, removed


def _is_same(known: Declared | None, tool: Declared) -> bool:
    return known is not None and same_declaration(known, tool)


def declaration_of(tool: Declared) -> ToolDeclaration:
    """What a model is told about a tool."""
    if type(tool) is ToolDeclaration:
        return tool
    sampling: Literal[False] | dict[str, Any] | UnsetType = getattr(tool, "constrained_sampling", UNSET)
    return ToolDeclaration(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        constrained_sampling=UNSET if sampling is None else sampling,
    )


def declare(
    pending: Sequence[Message],
    state: SystemState,
    tools: Sequence[Declared] | None,
    *,
    timestamp: int | float = 0,
) -> tuple[Message, ...]:
    """The pending messages, changed so that behind them the model knows exactly `tools`.

    `state` is what holds before them. The difference goes into the last pending system message, in place of what that
    one says about tools; without one, into a new system message (of `timestamp`) in front. Earlier pending system
    messages stay as they are and count.

    Source: loop specification 4.2.
    """
    installed = () if tools is None else tools
    last = _last_system(pending)
    if last < 0:
        if state.declares(installed):
            return tuple(pending)
        return (_with_tools(SystemMessage(timestamp=timestamp), state, installed), *pending)
    for message in pending[:last]:
        if type(message) is SystemMessage:
            state = state.apply(message)
    corrected = _with_tools(cast("SystemMessage", pending[last]), state, installed)
    return (*pending[:last], corrected, *pending[last + 1 :])


def _last_system(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if type(messages[index]) is SystemMessage:
            return index
    return -1


def _with_tools(message: SystemMessage, state: SystemState, tools: Sequence[Declared]) -> SystemMessage:
    """The message with the true difference as its tool fields; itself if it says just that."""
    added, removed = ((), ()) if state.declares(tools) else tool_changes(state.tools, tools)
    if _says(message, added, removed):
        return message
    return msgspec.structs.replace(message, tools_added=added or UNSET, tools_removed=removed or UNSET)


def _says(message: SystemMessage, added: tuple[ToolDeclaration, ...], removed: tuple[ToolName, ...]) -> bool:
    said = message.tools_added or ()
    return (
        (message.tools_removed or ()) == removed and len(said) == len(added) and all(map(same_declaration, said, added))
    )


def initial_system_message(
    prompt: str, tools: Sequence[Declared] = (), timestamp: int | float = 0
) -> SystemMessage | None:
    """The message a conversation begins with; nothing if there is neither a prompt nor a tool."""
    if not prompt and not tools:
        return None
    declarations = tuple(declaration_of(tool) for tool in tools)
    return SystemMessage(content=prompt, tools_added=declarations or UNSET, timestamp=timestamp)


def normalize_context(prompt: str, tools: Sequence[Declared], messages: Sequence[Message]) -> tuple[Message, ...]:
    """A request of prompt, tools and messages as messages alone: prompt and tools go in front, as a message."""
    first = initial_system_message(prompt, tools)
    return tuple(messages) if first is None else (first, *messages)


def collapse(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation with all system messages folded into one in front, of the time of the first one."""
    systems = [message for message in messages if type(message) is SystemMessage]
    folded = replay(systems).as_message(systems[0].timestamp if systems else 0)
    rest = [message for message in messages if type(message) is not SystemMessage]
    return tuple(rest) if folded is None else (folded, *rest)

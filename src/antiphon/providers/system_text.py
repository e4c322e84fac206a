"""System messages on the wire: what is told in front, and how later changes read where they stand.

Source: providers specification 3.2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct

from antiphon.core.content import text_of
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import Message, SystemMessage
from antiphon.core.system_state import SystemState, replay
from antiphon.core.transcript import Transcript
from antiphon.providers.house_texts import section_removed, section_updated
from antiphon.providers.wire_json import clean


def folded_state(messages: Sequence[Message]) -> SystemState:
    """Prompt and tools in force behind the last message. O(1) for a transcript whose state is known."""
    return messages.system if isinstance(messages, Transcript) else replay(messages)


def text_in_place(message: SystemMessage) -> str:
    """What a later system message says where it stands: its text, then section by section what changed."""
    sections = {} if message.sections is UNSET else message.sections
    parts = [text_of(message.content)]
    for name, text in sections.items():
        parts.append(section_removed(name) if text is None else f"{section_updated(name)}\n\n{text}")
    return clean("\n\n".join(part for part in parts if part))


def leading_text(message: SystemMessage) -> str:
    """What the first system message says: its text, then its sections."""
    return clean(SystemState().apply(message).prompt)


class Anchor(Struct, frozen=True):
    """Where tools that are added later begin to be declared in place (3.3).

    `ordinal`: how many system messages the list at the top of the request covers; `tools`: that list.
    """

    ordinal: int
    tools: tuple[ToolDeclaration, ...]


def tool_anchor(messages: Sequence[Message]) -> Anchor:
    """Behind the last system message that removed a tool or declared a name again; at least behind a leading one."""
    state = SystemState()
    ordinal = 0
    anchor = Anchor(0, ())
    for index, message in enumerate(messages):
        if type(message) is not SystemMessage:
            continue
        known = {tool.name for tool in state.tools}
        redeclares = any(tool.name in known for tool in message.tools_added or ())
        state = state.apply(message)
        ordinal += 1
        if index == 0 or message.tools_removed or redeclares:
            anchor = Anchor(ordinal, state.tools)
    return anchor

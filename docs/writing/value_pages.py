"""Pages about values: events, messages and their parts, read from the structs."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec
from docs.writing.markdown import code, paragraphs, table

from antiphon.core import events, response_events, session_events
from antiphon.core.calls import Outcome, ToolResult
from antiphon.core.content import Image, Text, Thinking, ToolCall
from antiphon.core.declarations import ToolDeclaration, ToolName
from antiphon.core.messages import AssistantMessage, HostMessage, SystemMessage, ToolResultMessage, UserMessage
from antiphon.core.model import Model, Prices, PriceTier
from antiphon.core.usage import Cost, Usage
from antiphon.core.wire import EXTRA

OPENING = (
    "A name that differs on the wire is given behind the arrow. *optional*: may be absent, and is `UNSET` then in"
    " Python. Numbers of time are milliseconds. Fields of other programs survive in `extra`"
    " ([decision 4](../decisions/0004-unknown-fields-survive.md)).\n"
)


def _events() -> Iterator[str]:
    yield "# Events\n"
    yield (
        "Everything happens between a start and an end event. A listener hears them in this order; "
        "[how a run speaks](../explanation/run-turn-message.md) tells the story.\n"
    )
    yield OPENING
    yield "## Of a run\n"
    yield from _structs(get_args(events.AgentEvent))
    yield "## Of a conversation\n"
    yield "Told to listeners of a session, besides those of its runs. `agent_end` is told in this form there.\n"
    yield from _structs(get_args(session_events.OwnSessionEvent))
    yield "## Of a model\n"
    yield "What a stream function yields; the loop passes growth on inside of `message_update`.\n"
    yield from _structs(get_args(response_events.ResponseEvent))


def events_page() -> str:
    """The page of everything that is told: by a run, by a conversation, by a model."""
    return "\n".join(_events())


def messages() -> str:
    """The page of messages and their parts."""
    parts = [
        "# Messages\n",
        "A transcript is a list of messages; who speaks is in `role`. All are frozen: a change makes another.\n",
        OPENING,
        "## Messages\n",
        *_structs((SystemMessage, UserMessage, AssistantMessage, ToolResultMessage, HostMessage)),
        "## Blocks of content\n",
        *_structs((Text, Thinking, Image, ToolCall)),
        "## Tools and results\n",
        *_structs((ToolDeclaration, ToolName, ToolResult, Outcome)),
        "## Models, tokens, prices\n",
        *_structs((Model, Prices, PriceTier, Usage, Cost)),
    ]
    return "\n".join(parts)


def rpc() -> str:
    """The page of commands that may be sent to a conversation over lines."""
    from antiphon.modes.rpc.protocol import COMMANDS

    parts = [
        "# RPC commands\n",
        "`antiphon --mode rpc` reads one JSON object a line and writes one a line: answers"
        ' (`{"type": "response", "id", "command", "success", "data" or "error"}`) and [events](events.md). A command'
        " has its name in `type` and may have an `id`, which its answer repeats. How to use them:"
        " [drive antiphon from another program](../how-to/json-and-rpc.md).\n",
        "A name that differs in Python is given in front of the arrow. *optional*: may be left out.\n",
        "## Commands\n",
        *_structs(COMMANDS.values()),
    ]
    return "\n".join(parts)


def _structs(kinds: Iterable[type]) -> Iterator[str]:
    for kind in kinds:
        yield _struct(kind)


def _struct(kind: Any) -> str:
    """Heading, docstring and fields of one struct."""
    tag = kind.__struct_config__.tag
    title = code(tag) if isinstance(tag, str) and not tag.startswith("$") else code(kind.__name__)
    says = f"Python: {code(kind.__name__)}." if title != code(kind.__name__) else ""
    own = kind.__doc__ if kind.__doc__ != kind.__mro__[1].__doc__ else ""
    lines = [f"### {title}\n", " ".join(filter(None, [says, paragraphs(own)])) + "\n"]
    rows = [_field(kind, info) for info in msgspec.structs.fields(kind) if info.encode_name != EXTRA]
    if rows:
        lines.append(table(("field", "type", ""), rows))
    return "\n".join(line for line in lines if line.strip())


def _field(kind: type, info: Any) -> tuple[str, str, str]:
    name = code(info.name)
    memory = info.encode_name.startswith("$")
    if not memory and info.encode_name != info.name:
        name += f" → {code(info.encode_name)}"
    annotation = _annotation(kind, info.name)
    notes = ["in memory only"] if memory else []
    if "UnsetType" in annotation:
        notes.append("optional")
    elif info.default is not msgspec.NODEFAULT:
        notes.append(f"default {code(_shown(info.default))}")
    return name, code(" or ".join(p for p in annotation.split(" | ") if p != "UnsetType")), ", ".join(notes)


def _annotation(kind: type, name: str) -> str:
    for cls in kind.__mro__:
        found = inspect.get_annotations(cls).get(name)
        if found is not None:
            return _spelled_out(str(found), vars(sys.modules[cls.__module__]))
    raise LookupError(f"{kind.__name__}.{name} has no annotation")


def _spelled_out(annotation: str, names: dict[str, Any]) -> str:
    """The annotation with the words of a `Literal` in the place of its name."""

    def words(found: re.Match[str]) -> str:
        known = names.get(found[0])
        return " | ".join(map(repr, get_args(known))) if get_origin(known) is Literal else found[0]

    plain = re.sub(r"Literal\[([^\]]*)\]", lambda m: m[1].replace(", ", " | ").replace('"', "'"), annotation)
    return re.sub(r"\b[A-Z]\w+\b", words, plain)


def _shown(value: object) -> str:
    """A default on one line; structs by name."""
    return f"{type(value).__name__}()" if isinstance(value, msgspec.Struct) else repr(value)

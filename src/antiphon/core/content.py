"""Blocks: what a message consists of."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.wire import JsonObject, Typed, split_extra
from antiphon.errors import WireError


@final
class Text(Typed, frozen=True, kw_only=True, gc=False, tag="text"):
    """Words. `text_signature` is opaque provider data for replay."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    text_signature: str | UnsetType = UNSET


@final
class Thinking(Typed, frozen=True, kw_only=True, gc=False, tag="thinking"):
    """Reasoning of a model. `redacted`: the provider hides it, the signature is the opaque payload."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str
    thinking_signature: str | UnsetType = UNSET
    redacted: bool | UnsetType = UNSET


@final
class Image(Typed, frozen=True, kw_only=True, gc=False, tag="image"):
    """A picture: base64 `data` and its media type."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str


@final
class ToolCall(Typed, frozen=True, kw_only=True, gc=False, tag="toolCall"):
    """A request of the model to run a tool. `arguments_error`: the argument text was not one JSON object."""

    type: ClassVar[Literal["toolCall"]] = "toolCall"
    id: str
    name: str
    arguments: JsonObject
    thought_signature: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    arguments_error: str | UnsetType = UNSET


@final
class Foreign(Typed, frozen=True, kw_only=True, gc=False, tag="$foreign"):
    """A block of a kind we do not know, kept whole in `extra`."""

    @property
    def type(self) -> str:
        return str(self.extra.get("type", "")) if self.extra is not UNSET else ""


Block: TypeAlias = Text | Thinking | Image | ToolCall | Foreign
Content: TypeAlias = tuple[Block, ...]

_BLOCKS: dict[str, type[Text] | type[Thinking] | type[Image] | type[ToolCall]] = {
    "text": Text,
    "thinking": Thinking,
    "image": Image,
    "toolCall": ToolCall,
}


def block_from_wire(given: Any) -> Block:
    """The block that a JSON object describes; one that fits no known kind stays whole as `Foreign`."""
    if not isinstance(given, dict):
        return Text(text=str(given))
    data = cast("JsonObject", given)
    name = data.get("type")
    kind = _BLOCKS.get(name) if isinstance(name, str) else None
    if kind is None:
        return Foreign(extra=data)
    parts = split_extra(data, kind)
    extra = parts.pop("extra", UNSET)
    try:
        block = msgspec.convert({"type": data["type"], **_wire_names(parts, kind)}, kind)
    except msgspec.ValidationError:
        return Foreign(extra=data)
    return block if extra is UNSET else msgspec.structs.replace(block, extra=extra)


def _wire_names(parts: JsonObject, kind: type[Text] | type[Thinking] | type[Image] | type[ToolCall]) -> JsonObject:
    wire = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    return {wire[name]: item for name, item in parts.items()}


def content_from_wire(given: Any) -> Content:
    """Blocks of a JSON list. `null` and missing are an empty list, a plain text is one text block.

    Raises:
        WireError: it is anything else.
    """
    if given is None or given is UNSET:
        return ()
    if isinstance(given, str):
        return (Text(text=given),)
    if not isinstance(given, list | tuple):
        raise WireError(f"`content` must be a text or a list of blocks, not {type(given).__name__}")
    return tuple(block_from_wire(item) for item in cast("list[Any]", given))


def text_of(content: str | Content) -> str:
    """The words of a content, blocks joined by newlines; everything else is left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if type(block) is Text)

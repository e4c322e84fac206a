"""From what a tool's function returns to what the loop takes."""

from __future__ import annotations

import inspect
from typing import Any, cast

import msgspec

from antiphon.core.calls import ToolResult
from antiphon.core.content import Block, Foreign, Image, Text, Thinking, ToolCall
from antiphon.core.ports import ToolReturn
from antiphon.core.wire import encode

_BLOCKS = (Text, Image, Thinking, ToolCall, Foreign)


def tool_return(value: Any) -> ToolReturn:
    """A text, a result, blocks and None as they are; anything else as JSON, for programs and for the model.

    Raises:
        TypeError: the value has no JSON form.
    """
    if value is None or isinstance(value, (str, ToolResult)):
        return value
    if isinstance(value, _BLOCKS):
        return (value,)
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(item, _BLOCKS) for item in cast("list[Any]", value))
    ):
        return tuple(cast("list[Block]", value))
    return data_result(value)


def data_result(value: Any) -> ToolResult:
    """A result of structured content, and the same as compact JSON text."""
    if inspect.isawaitable(value):
        raise TypeError("the tool returned something to await; write it as `async def`")
    data = json_form(value)
    return ToolResult(content=(Text(text=encode(data).decode()),), structured_content=data)


def json_form(value: Any) -> Any:
    """The value as plain JSON data: dataclasses, structs, enums, dates become what they look like in JSON."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign)
    except (TypeError, NotImplementedError) as error:
        raise TypeError(f"the tool returned a {type(value).__name__}, which has no JSON form: {error}") from error


def _foreign(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # a pydantic model describes itself
    if dump is not None:
        return dump(mode="json")
    fspath = getattr(value, "__fspath__", None)
    if fspath is not None:
        return fspath()
    raise NotImplementedError(f"{type(value).__qualname__} is not supported")

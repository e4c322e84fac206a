"""Tools in the shape of Chat Completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.wire import JsonObject
from antiphon.providers.constrained import (
    OPENAI_RULES,
    Grammar,
    NotConvertible,
    grammar_of,
    strict_parameters,
    wants_strict,
)
from antiphon.providers.dialects import ChatDialect


def grammars_of(tools: Iterable[ToolDeclaration], supported: bool) -> dict[str, Grammar]:
    """Grammars by tool name. Where the server takes none, such tools are ordinary functions.

    Raises:
        NotConvertible: a tool asks for a grammar that it cannot have.
    """
    if not supported:
        return {}
    found = ((tool.name, grammar_of(tool)) for tool in tools)
    return {name: grammar for name, grammar in found if grammar is not None}


def encode_tools(
    tools: Iterable[ToolDeclaration], flags: ChatDialect, grammars: Mapping[str, Grammar]
) -> list[JsonObject]:
    """The tool list of a request.

    Raises:
        NotConvertible: a tool insists on strict sampling and cannot have it.
    """
    return [_encode_tool(tool, flags, grammars.get(tool.name)) for tool in tools]


def _encode_tool(tool: ToolDeclaration, flags: ChatDialect, grammar: Grammar | None) -> JsonObject:
    if grammar is not None:
        form = {"type": "grammar", "grammar": {"syntax": grammar.syntax, "definition": grammar.definition}}
        return {"type": "custom", "custom": {"name": tool.name, "description": tool.description, "format": form}}
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if flags.supports_strict_mode:
        strict = strict_parameters(tool, OPENAI_RULES)
        function["strict"] = strict is not None
        if strict is not None:
            function["parameters"] = strict
    elif wants_strict(tool) == "require":
        raise NotConvertible(f"tool {tool.name} requires strict sampling, which this server does not have")
    return {"type": "function", "function": function}

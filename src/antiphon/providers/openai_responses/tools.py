"""Tools in the shape of Responses."""

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
from antiphon.providers.dialects import ResponsesDialect


def grammars_of(tools: Iterable[ToolDeclaration], flags: ResponsesDialect) -> dict[str, Grammar]:
    """Grammars by tool name. Where the server takes none, such tools are ordinary functions.

    Raises:
        NotConvertible: a tool asks for a grammar that it cannot have.
    """
    if not flags.supports_open_ai_grammar_tools:
        return {}
    found = ((tool.name, grammar_of(tool)) for tool in tools)
    return {name: grammar for name, grammar in found if grammar is not None}


def encode_tools(
    tools: Iterable[ToolDeclaration], flags: ResponsesDialect, grammars: Mapping[str, Grammar]
) -> list[JsonObject]:
    """The tool list of a request.

    Raises:
        NotConvertible: a tool insists on strict sampling and cannot have it.
    """
    return [_encode_tool(tool, flags, grammars.get(tool.name)) for tool in tools]


def _encode_tool(tool: ToolDeclaration, flags: ResponsesDialect, grammar: Grammar | None) -> JsonObject:
    named: JsonObject = {"name": tool.name, "description": tool.description}
    if grammar is not None:
        form = {"type": "grammar", "syntax": grammar.syntax, "definition": grammar.definition}
        return {"type": "custom", **named, "format": form}
    function = {"type": "function", **named, "parameters": tool.parameters}
    if flags.supports_strict_mode:
        strict = strict_parameters(tool, OPENAI_RULES)
        function["strict"] = strict is not None
        if strict is not None:
            function["parameters"] = strict
    elif wants_strict(tool) == "require":
        raise NotConvertible(f"tool {tool.name} requires strict sampling, which this server does not have")
    return function

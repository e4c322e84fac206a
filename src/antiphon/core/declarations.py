"""What a model is told about a tool."""

from __future__ import annotations

from typing import Any, Literal, final

from msgspec import UNSET, UnsetType

from antiphon.core.wire import JsonObject, Wire


@final
class ToolDeclaration(Wire, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """Name, description and argument schema, as they stand in a system message and in a request.

    `constrained_sampling` asks a provider to sample only arguments that fit; false switches it off.
    """

    name: str
    description: str
    parameters: JsonObject
    constrained_sampling: Literal[False] | dict[str, Any] | UnsetType = UNSET


@final
class ToolName(Wire, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """A tool that is no longer available."""

    name: str

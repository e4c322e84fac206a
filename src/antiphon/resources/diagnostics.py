"""What there is to say about files: one line each, with the file, and what to do. Never an exception."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.wire import Wire

Severity: TypeAlias = Literal["info", "warning", "error"]
Scope: TypeAlias = Literal["user", "project", "temporary"]
State: TypeAlias = Literal["used", "shadowed", "refused", "off"]


@final
class Diagnostic(Wire, frozen=True, kw_only=True, gc=False):
    """`message` is one clear line for a person; an `error` ends a start."""

    type: Severity
    message: str


@final
class SourceInfo(Wire, frozen=True, kw_only=True, gc=False):
    """Where a resource came from. `source`: local (a settings entry), auto (a folder), cli, builtin, sdk, inline."""

    path: str
    source: str
    scope: Scope
    origin: Literal["top-level", "package"] = "top-level"
    base_dir: str | UnsetType = UNSET


@final
class Finding(Wire, frozen=True, kw_only=True, gc=False):
    """One resource that was looked at: is it used, and why or why not?"""

    kind: Literal["setting", "context", "prompt", "skill", "template", "extension", "models", "credentials", "trust"]
    name: str
    state: State
    reason: str
    path: str = ""


def warning(message: str) -> Diagnostic:
    """Something a person should know; work goes on."""
    return Diagnostic(type="warning", message=message)

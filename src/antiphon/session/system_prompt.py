"""What the model is told about its place, its tools and its manners. Pure: facts of the machine come as values."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.ports import Tool

BASE = (
    "You are a coding agent. You work in the user's folder with the tools you are given: look before you change "
    "something, make the smallest change that does what was asked, check the result, and say in few words what you did."
)


def system_prompt(
    *, cwd: str, tools: Sequence[Tool], date: str, base: str | None = None, appended: Sequence[str] = ()
) -> str:
    """The prompt of a session: base, tools, what was appended, and the facts of the place."""
    parts = [BASE if base is None else base]
    if tools:
        names = ", ".join(tool.name for tool in tools)
        parts.append(f"Tools: {names}. Paths are relative to the working folder unless they are absolute.")
    parts += appended
    parts.append(f"Working folder: {cwd}\nDate: {date}")
    return "\n\n".join(parts)

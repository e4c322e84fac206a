"""How to make the command tools with the options of a recorded case; the frame is in `tools_packs.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon.core.ports import Tool
from antiphon.tools.bash import BashOptions, bash_tool
from antiphon.tools.find import find_tool
from antiphon.tools.grep import grep_tool
from antiphon.tools.workspace import LocalWorkspace


def makers() -> dict[str, Callable[[LocalWorkspace, dict[str, Any]], Tool]]:
    """Name → tool for a workspace and the options of a case."""
    return {
        "bash": lambda workspace, options: bash_tool(workspace, bash_options(options)),
        "grep": lambda workspace, _options: grep_tool(workspace),
        "find": lambda workspace, _options: find_tool(workspace),
    }


def bash_options(options: dict[str, Any]) -> BashOptions:
    """Recorded option names → ours."""
    return BashOptions(shell_path=options.get("shellPath"), command_prefix=options.get("commandPrefix"))

"""The door sign: public names are there, loaded when asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.tools.children import command, environment

import antiphon.tools as tools
from antiphon.core.ports import Tool
from antiphon.tools import LocalWorkspace, coding_tools, read_only_tools


def test_every_public_name_is_there_and_sorted() -> None:
    assert tools.__all__ == sorted(tools.__all__)
    assert all(getattr(tools, name) is not None for name in tools.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tools.nothing


def test_the_two_sets(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    default: list[Tool] = coding_tools(workspace)
    reading: list[Tool] = read_only_tools(workspace)
    assert [tool.name for tool in default] == ["read", "bash", "edit", "write"]
    assert [tool.name for tool in reading] == ["read", "grep", "find", "ls"]
    for tool in (*default, *reading):
        assert tool.description and tool.parameters["type"] == "object"


def test_the_door_alone_loads_next_to_nothing() -> None:
    code = (
        "import sys, antiphon.tools; "
        "print([m for m in sys.modules if m.startswith('antiphon.tools.')], 'asyncio' in sys.modules)"
    )
    ran = subprocess.run(command(code), capture_output=True, text=True, check=True, env=environment())
    assert ran.stdout == "[] False\n"


def test_optional_libraries_are_not_loaded_by_the_tools() -> None:
    code = (
        "import sys, antiphon.tools as t; [getattr(t, n) for n in t.__all__ if n not in ('find_tool', 'grep_tool')]; "
        "print([m for m in ('PIL', 'pydantic', 'jsonschema_rs', 'httpx2') if m in sys.modules])"
    )
    ran = subprocess.run(command(code), capture_output=True, text=True, check=True, env=environment())
    assert ran.stdout == "[]\n"

"""Chapter 08: tools that break one promise each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from antiphon.course.saboteurs.registry import Saboteur
from antiphon.tools.define import ToolContext, tool

Replace = Callable[[Path, Any], Any]
"""The wrong tool for a folder, made around the right one."""


def _saboteur(name: str, caught_by: str, promise: str, promise_zh: str, tool_name: str, wrong: Replace) -> Saboteur:
    def change(module: Any) -> Mapping[str, Any]:
        def coding_tools(folder: Path) -> list[Any]:
            tools = module.coding_tools(folder)
            return [wrong(folder, right) if right.name == tool_name else right for right in tools]

        return {"coding_tools": coding_tools}

    return Saboteur(name, f"test_{caught_by}", promise, promise_zh, change)


def reads_everywhere(folder: Path, _right: Any) -> Any:
    @tool
    def read(path: str, offset: int = 1, limit: int = 500) -> str:
        return (folder / path).read_text("utf-8")

    return read


def cuts_silently(_folder: Path, right: Any) -> Any:
    @tool
    def read(path: str, offset: int = 1, limit: int = 500) -> str:
        return str(right(path=path, offset=offset, limit=limit)).partition("\n[")[0] + "\n"

    return read


def writes_everywhere(folder: Path, _right: Any) -> Any:
    @tool
    def write(path: str, content: str) -> str:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, "utf-8")
        return f"{len(content)} characters"

    return write


def appends(folder: Path, _right: Any) -> Any:
    @tool
    def write(path: str, content: str) -> str:
        with (folder / path).open("a") as file:
            file.write(content)
        return f"{len(content)} characters"

    return write


def edits_the_first(folder: Path, _right: Any) -> Any:
    @tool
    def edit(path: str, old: str, new: str) -> str:
        place = folder / path
        place.write_text(place.read_text().replace(old, new, 1))
        return "changed"

    return edit


def every_exit_is_fine(_folder: Path, right: Any) -> Any:
    @tool
    async def bash(command: str, timeout: float = 60, *, ctx: ToolContext) -> str:  # noqa: ASYNC109
        try:
            return str(await right.function(command=command, timeout=timeout, ctx=ctx))
        except Exception as error:  # noqa: BLE001 - this is the mistake
            return str(error)

    return bash


TOOL_SABOTEURS: tuple[Saboteur, ...] = (
    _saboteur(
        "reads-everywhere",
        "read_file_stays_inside",
        "no path of a model leads out of the folder",
        "模型的路径不能指到文件夹之外",
        "read",
        reads_everywhere,
    ),
    _saboteur(
        "cuts-silently",
        "read_file_says_how_to_go_on",
        "what is left out is said",
        "省略了什么要说出来",
        "read",
        cuts_silently,
    ),
    _saboteur(
        "writes-everywhere",
        "write_file_stays_inside",
        "nothing is written outside of the folder",
        "不在文件夹之外写任何东西",
        "write",
        writes_everywhere,
    ),
    _saboteur("appends", "write_file_replaces", "write replaces", "write 会替换原有内容", "write", appends),
    _saboteur(
        "edits-the-first",
        "edit_file_refuses_what_is_there_twice",
        "an edit that could mean two places changes neither",
        "可能指两处的修改，一处也不改",
        "edit",
        edits_the_first,
    ),
    _saboteur(
        "every-exit-is-fine",
        "bash_command_that_fails_says_how",
        "a command that fails is an error",
        "失败的命令就是错误",
        "bash",
        every_exit_is_fine,
    ),
)

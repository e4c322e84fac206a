"""The bash tool as a model meets it. Texts are pinned by the recorded data; here is what the data cannot show."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.calls import ToolResult
from antiphon.core.content import text_of
from antiphon.loop.abort import AbortController, never_aborted
from antiphon.tools.accumulate import Output
from antiphon.tools.bash import BashOptions, BashTool, bash_tool
from antiphon.tools.faults import OperationAborted, ToolFault
from antiphon.tools.progress import Progress
from antiphon.tools.spill_files import SpillFiles
from antiphon.tools.workspace import LocalWorkspace


def tool_in(folder: Path, **options: Any) -> BashTool:
    spills = SpillFiles(str(folder))
    return bash_tool(LocalWorkspace(folder, spills=spills), BashOptions(**options))


async def run(
    tool: BashTool, command: str, timeout: Any = None, on_update: Callable[[Any], None] = lambda _: None
) -> ToolResult:
    arguments = {"command": command} if timeout is None else {"command": command, "timeout": timeout}
    return await tool.execute("c1", arguments, never_aborted(), on_update)


async def text(tool: BashTool, command: str) -> str:
    return text_of((await run(tool, command)).content)


async def test_reports_come_at_a_bounded_rate_and_the_last_shows_everything(tmp_path: Path) -> None:
    """A command that prints 500 times in half a second causes a handful of reports."""
    reports: list[tuple[float, ToolResult]] = []
    loop = asyncio.get_running_loop()
    result = await run(
        tool_in(tmp_path),
        "for i in $(seq 500); do echo $i; read -t 0.001 <> <(:); done; true",
        on_update=lambda report: reports.append((loop.time(), report)),
    )
    assert reports[0][1] == ToolResult()
    times = [time for time, _ in reports[1:-1]]
    assert all(later - earlier > 0.08 for earlier, later in zip(times, times[1:], strict=False))
    assert text_of(reports[-1][1].content) == text_of(result.content)
    assert reports[-1][1].details == {}


MEMORY = """
import asyncio, resource, sys
sys.path.insert(0, {source!r})
from antiphon.loop.abort import never_aborted
from antiphon.tools.spill_files import SpillFiles
from antiphon.tools.bash import bash_tool
from antiphon.tools.workspace import LocalWorkspace
tool = bash_tool(LocalWorkspace({folder!r}, spills=SpillFiles({folder!r})))
async def main():
    await tool.execute("1", {{"command": "echo"}}, never_aborted(), lambda report: None)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    command = "yes 0123456789012345678901234567890123456789012345678 | head -c {size}"
    result = await tool.execute("1", {{"command": command}}, never_aborted(), lambda report: None)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, result.details["truncation"]["totalBytes"])
asyncio.run(main())
"""


async def memory_for(size: int, folder: Path) -> int:
    """KiB by which a process grows when its command prints so many bytes."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    script = MEMORY.format(source=source, folder=str(folder), size=size)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    grown, total = map(int, out.split())
    assert total == size
    assert sum(path.stat().st_size for path in folder.glob("*.log")) == size
    return grown


async def test_output_of_any_length_costs_constant_memory(tmp_path: Path) -> None:
    assert await memory_for(50_000_000, tmp_path) < 16 * 1024


@pytest.mark.slow
async def test_a_gigabyte_of_output_costs_constant_memory(tmp_path: Path) -> None:
    assert await memory_for(1_000_000_000, tmp_path) < 16 * 1024


async def test_a_report_comes_although_nothing_more_is_printed(tmp_path: Path) -> None:
    """The second line falls into the pause after the first report; a timer shows it while the command is quiet."""
    seen = asyncio.Event()
    (tmp_path / "wait").touch()

    def look(report: ToolResult) -> None:
        if text_of(report.content) == "one\ntwo\n":
            seen.set()

    command = "echo one; sleep 0.02; echo two; while [ -e wait ]; do sleep 0.01; done"
    running = asyncio.create_task(run(tool_in(tmp_path), command, on_update=look))
    await asyncio.wait_for(seen.wait(), 10)
    (tmp_path / "wait").unlink()
    await running


async def test_nothing_is_reported_after_the_end() -> None:
    """A timer that was set before the end finds nothing to say."""
    reports: list[Any] = []
    progress = Progress(Output(SpillFiles()), reports.append)
    progress.feed(b"one\n")
    progress.feed(b"two\n")
    progress.finish()
    assert [text_of(report.content) for report in reports] == ["", "one\ntwo\n"]
    progress.feed(b"three\n")
    progress.at_time()
    assert len(reports) == 2


async def test_long_output_belongs_to_the_session_and_can_be_removed(tmp_path: Path) -> None:
    tool = tool_in(tmp_path)
    result = await run(tool, "seq 100000")
    assert isinstance(result.details, dict)
    path = Path(result.details["fullOutputPath"])
    assert path.read_text() == "".join(f"{i}\n" for i in range(1, 100001))
    assert path.stat().st_mode & 0o777 == 0o600
    assert "content" not in result.details["truncation"], "the shown text is not stored twice"
    tool.workspace.spills.remove_all()
    assert not path.exists()


async def test_a_line_end_does_not_hide_how_much_of_a_character_was_split_between_reads(tmp_path: Path) -> None:
    """Characters of several bytes, cut by the pipe at any place, arrive whole."""
    shown = await text(tool_in(tmp_path), "for i in $(seq 3000); do printf '\\xe4'; printf '\\xb8\\xad'; done")
    assert shown == "中" * 3000


async def test_a_command_too_long_for_one_argument(tmp_path: Path) -> None:
    long = "é" * 300_000
    assert await text(tool_in(tmp_path), f"x='{long}'; echo ${{#x}} $# $0") == "300000 0 bash\n"


async def test_a_command_too_long_for_the_system_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ToolFault, match="too long for the system: write it to a file"):
        await run(tool_in(tmp_path), "x" * 20_000_000)


async def test_a_command_with_a_zero_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolFault, match="NUL"):
        await run(tool_in(tmp_path), "echo a\0b")


async def test_a_lone_surrogate_becomes_the_replacement_character(tmp_path: Path) -> None:
    assert await text(tool_in(tmp_path), "echo a\ud800b") == "a\ufffdb\n"


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), 0, -1])
async def test_time_limits_that_mean_nothing(timeout: float, tmp_path: Path) -> None:
    with pytest.raises(ToolFault, match="Invalid timeout: must be a finite number of seconds"):
        await run(tool_in(tmp_path), "true", timeout)


async def test_variables_are_asked_for_at_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session, model and level may change between two commands of one tool."""
    monkeypatch.setenv("OUTER_SESSION", "outer")
    given: dict[str, str | None] = {"ANTIPHON_MODEL": "one", "OUTER_SESSION": None}
    tool = tool_in(tmp_path, environment=lambda: given)
    command = 'echo "$ANTIPHON_MODEL ${OUTER_SESSION-unset}"'
    assert await text(tool, command) == "one unset\n"
    given["ANTIPHON_MODEL"] = "two"
    assert await text(tool, command) == "two unset\n"


async def test_our_own_programs_come_first_on_the_path(tmp_path: Path) -> None:
    assert (await text(tool_in(tmp_path, bin_folder="/own/bin"), "echo $PATH")).startswith("/own/bin:")
    assert os.environ["PATH"] in await text(tool_in(tmp_path), "echo $PATH")


async def test_time_out_and_abort_say_what_happened_to_background_writers(tmp_path: Path) -> None:
    result = await run(tool_in(tmp_path), "(while :; do echo x; sleep 0.02; done) & exit 3", 0.3)
    assert result.is_error is True
    assert text_of(result.content).endswith(
        "Command timed out after 0.3 seconds. The shell exited with code 3 after 0.0 seconds, "
        "but background processes it started kept writing output until the timeout."
    )


async def test_abort_gives_what_was_printed_so_far(tmp_path: Path) -> None:
    stop, begun = AbortController(), asyncio.Event()

    def look(report: ToolResult) -> None:
        if report.content:
            begun.set()

    tool = tool_in(tmp_path)
    running = asyncio.create_task(tool.execute("c1", {"command": "echo begun; sleep 300"}, stop.signal, look))
    await asyncio.wait_for(begun.wait(), 10)
    stop.abort()
    result = await running
    assert text_of(result.content) == "begun\n\n\nCommand aborted"
    assert (result.is_error, result.details) == (True, {})


async def test_an_abort_before_the_start(tmp_path: Path) -> None:
    stop = AbortController()
    stop.abort()
    with pytest.raises(OperationAborted, match="Operation aborted"):
        await tool_in(tmp_path).execute("c1", {"command": "touch made"}, stop.signal, lambda _: None)
    assert not (tmp_path / "made").exists()

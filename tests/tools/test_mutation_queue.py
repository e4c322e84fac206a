"""One writer per file, in order; writers of different files side by side; an abort never lies."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path

import pytest
from tests.tools.children import command, environment
from tests.tools.memory_files import NoProcesses

from antiphon.loop.abort import AbortController
from antiphon.tools.faults import OperationAborted, ToolFault
from antiphon.tools.local_files import exclusive_between_processes
from antiphon.tools.port import Commit
from antiphon.tools.workspace import LocalWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    return LocalWorkspace(tmp_path, processes=NoProcesses())


@pytest.mark.requirement("S3-122")
async def test_writers_of_one_file_go_in_the_order_in_which_they_asked(workspace: LocalWorkspace) -> None:
    order: list[int] = []

    async def write(number: int) -> None:
        async with workspace.writing("f" if number % 2 else "./d/../f") as turn:
            await turn.call(order.append, number)

    await asyncio.gather(*(write(number) for number in range(40)))
    assert order == list(range(40))


async def test_writers_of_different_files_do_not_wait_for_each_other(workspace: LocalWorkspace) -> None:
    meeting = threading.Barrier(2, timeout=5)

    async def write(name: str) -> None:
        async with workspace.writing(name) as turn:
            await turn.call(meeting.wait)

    await asyncio.gather(write("one"), write("two"))


async def test_a_file_is_the_same_through_a_link(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    async with workspace.writing("real") as first:
        second = asyncio.create_task(_write(workspace, "link"))
        assert first.path == str(tmp_path / "real")
        await _settle()
        assert not second.done()
    await second


async def _write(workspace: LocalWorkspace, name: str) -> None:
    async with workspace.writing(name) as turn:
        await turn.call(int)


async def _settle() -> None:
    """Give other tasks many turns, and threads the time of a visit."""
    for _ in range(20):
        await asyncio.to_thread(int)


async def test_two_workspaces_of_one_process_share_the_lines(tmp_path: Path, workspace: LocalWorkspace) -> None:
    other = LocalWorkspace(tmp_path / "elsewhere", processes=NoProcesses())
    async with workspace.writing("f"):
        second = asyncio.create_task(_write(other, "../f"))
        await _settle()
        assert not second.done()
    await second


async def test_an_aborted_waiter_leaves_and_the_others_keep_their_order(workspace: LocalWorkspace) -> None:
    aborting = AbortController()
    order: list[str] = []

    async def write(name: str, controller: AbortController | None) -> None:
        async with workspace.writing("f", controller.signal if controller else None):
            order.append(name)

    async with workspace.writing("f"):
        tasks = [
            asyncio.create_task(write("a", None)),
            asyncio.create_task(write("b", aborting)),
            asyncio.create_task(write("c", None)),
        ]
        await _settle()
        aborting.abort()
        with pytest.raises(OperationAborted):
            await tasks[1]
        assert order == []
    await asyncio.gather(tasks[0], tasks[2])
    assert order == ["a", "c"]


async def test_a_cancelled_waiter_leaves_too(workspace: LocalWorkspace) -> None:
    async with workspace.writing("f"):
        waiting = asyncio.create_task(_write(workspace, "f"))
        await _settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await _write(workspace, "f")


async def test_the_right_is_kept_until_the_thread_has_ended_even_after_an_abort(workspace: LocalWorkspace) -> None:
    aborting, stuck, entered = AbortController(), threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        stuck.wait()

    async def first() -> None:
        async with workspace.writing("f", aborting.signal) as turn:
            await turn.call(work)

    task = asyncio.create_task(first())
    await asyncio.to_thread(entered.wait)
    second = asyncio.create_task(_write(workspace, "f"))
    aborting.abort()
    with pytest.raises(OperationAborted):
        await task
    await _settle()
    assert not second.done()
    stuck.set()
    await second


async def test_an_abort_before_the_commit_means_nothing_has_changed(workspace: LocalWorkspace) -> None:
    aborting, go_on, entered = AbortController(), threading.Event(), threading.Event()
    committed: list[bool] = []

    def work(commit: Commit) -> None:
        entered.set()
        go_on.wait()
        committed.append(commit())

    async def change() -> None:
        async with workspace.writing("f", aborting.signal) as turn:
            await turn.change(work)

    task = asyncio.create_task(change())
    await asyncio.to_thread(entered.wait)
    before = asyncio.get_running_loop().time()
    aborting.abort()
    with pytest.raises(OperationAborted):
        await task
    assert asyncio.get_running_loop().time() - before < 0.1
    go_on.set()
    await _write(workspace, "f")
    assert committed == [False]


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_a_change_that_is_being_made_is_waited_for(workspace: LocalWorkspace, how: str) -> None:
    """The reference reports edits as aborted although they were written."""
    aborting, go_on, committed = AbortController(), threading.Event(), threading.Event()

    def work(commit: Commit) -> str:
        assert commit()
        committed.set()
        go_on.wait()
        return "written"

    async def change() -> str:
        async with workspace.writing("f", aborting.signal) as turn:
            return await turn.change(work)

    task = asyncio.create_task(change())
    await asyncio.to_thread(committed.wait)
    if how == "abort":
        aborting.abort()
    else:
        task.cancel()
    await _settle()
    assert not task.done()
    go_on.set()
    if how == "abort":
        assert await task == "written"
    else:
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_event_loops_in_two_threads_do_not_meet_in_one_file(workspace: LocalWorkspace) -> None:
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(1000):
            pass
        inside -= 1

    async def several() -> None:
        for _ in range(10):
            async with workspace.writing("f") as turn:
                await turn.call(work)

    await asyncio.gather(asyncio.to_thread(asyncio.run, several()), several())
    assert most == 1


EDITS = """
import asyncio, sys
from antiphon.tools.workspace import LocalWorkspace
from antiphon.tools.edit import edit_tool
async def main(folder, name):
    tool = edit_tool(LocalWorkspace(folder))
    from antiphon.loop.abort import never_aborted
    for number in range(100):
        args = {"path": "f", "edits": [{"oldText": f"{name}{number}.", "newText": f"{name}{number}!"}]}
        while True:
            try:
                await tool.execute("c", args, never_aborted(), lambda _: None)
                break
            except Exception as error:
                if "somebody else" not in str(error):
                    raise
asyncio.run(main(*sys.argv[1:]))
"""


def test_two_processes_lose_no_edit(tmp_path: Path) -> None:
    """100 + 100 edits are 200 edits. The reference loses some of 40 + 40."""
    names = [f"{who}{number}." for who in "ab" for number in range(100)]
    (tmp_path / "f").write_text("\n".join(names) + "\n")
    children = [subprocess.Popen(command(EDITS, str(tmp_path), who), env=environment()) for who in "ab"]

    assert [child.wait(60) for child in children] == [0, 0]
    assert (tmp_path / "f").read_text() == "\n".join(names).replace(".", "!") + "\n"


async def test_a_writer_waits_for_another_process(workspace: LocalWorkspace, tmp_path: Path) -> None:
    with exclusive_between_processes(str(tmp_path / "f")):
        task = asyncio.create_task(_write(workspace, "f"))
        await _settle()
        assert not task.done()
    await task


async def test_a_change_that_is_cancelled_before_its_commit_is_not_made(workspace: LocalWorkspace) -> None:
    go_on, entered = threading.Event(), threading.Event()
    committed: list[bool] = []

    def work(commit: Commit) -> None:
        entered.set()
        go_on.wait()
        committed.append(commit())

    async def change() -> None:
        async with workspace.writing("f") as turn:
            await turn.change(work)

    task = asyncio.create_task(change())
    await asyncio.to_thread(entered.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await _write(workspace, "f")
    assert committed == [False]


async def test_waiting_for_another_process_has_an_end(
    workspace: LocalWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.tools.mutation_queue.OTHER_PROCESS_WAIT_SECONDS", 0.05)
    with exclusive_between_processes(str(tmp_path / "f")), pytest.raises(ToolFault, match="Another process"):
        await _write(workspace, "f")


async def test_waiting_for_another_process_can_be_aborted(workspace: LocalWorkspace, tmp_path: Path) -> None:
    aborting = AbortController()

    async def change() -> None:
        async with workspace.writing("f", aborting.signal) as turn:
            await turn.change(lambda commit: None)

    with exclusive_between_processes(str(tmp_path / "f")):
        task = asyncio.create_task(change())
        await _settle()
        aborting.abort()
        with pytest.raises(OperationAborted):
            await task
    await _write(workspace, "f")

"""Commands of the user: run in the folder, told as they speak, kept where they split nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.session.stage import SETTINGS, Stage, texts

from antiphon.core.session_events import BashExecutionUpdate
from antiphon.core.wire import to_wire
from antiphon.errors import ConfigurationError
from antiphon.session.hooks import SessionHooks, ShellGiven, ShellResult
from antiphon.session.user_shell import BashResult, CleanText
from antiphon.testing import calls, says, settle
from antiphon.tools import LocalWorkspace


def stage_in(tmp_path: Path, script: Any = (), **options: Any) -> Stage:
    return Stage(script, workspace=LocalWorkspace(str(tmp_path)), **options)


async def test_output_comes_as_it_is_written_and_the_result_reaches_the_model(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, [says("seen")])
    chunks: list[str] = []
    result = await stage.session.execute_bash("echo hi; exit 3", id="x1", on_chunk=chunks.append)
    assert to_wire(result) == {"output": "hi\n", "cancelled": False, "truncated": False, "exitCode": 3}
    updates = stage.of(BashExecutionUpdate)
    assert "".join(update.delta for update in updates) == "".join(chunks) == "hi\n"
    assert {update.id for update in updates} == {"x1"}
    await stage.session.prompt("what?")
    assert texts(stage.model.asked[0])[0].startswith("user: Ran `echo hi; exit 3`")


async def test_hidden_output_does_not_reach_the_model(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, [says("nothing")])
    await stage.session.execute_bash("echo secret", exclude_from_context=True)
    await stage.session.prompt("what?")
    assert "secret" not in str(stage.model.asked)


async def test_a_result_during_a_run_follows_the_settlement(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, [calls("A"), says("done")])
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    await stage.session.execute_bash("echo mid")
    gate.open()
    await going
    assert stage.kinds[-2:] == ["message assistant", "message bashExecution"]


async def test_a_command_runs_in_the_folder_with_the_prefix_and_without_facts_of_the_session(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, settings=replace(SETTINGS, shell_command_prefix="greet=hello"))
    result = await stage.session.execute_bash('echo "$greet $AI_AGENT $ANTIPHON_SESSION_ID"; pwd')
    assert result.output == f"hello antiphon \n{tmp_path.resolve()}\n"


async def test_a_command_can_be_stopped(tmp_path: Path) -> None:
    stage = stage_in(tmp_path)
    running = asyncio.ensure_future(stage.session.execute_bash("echo begun; sleep 60"))
    await stage.until("bash_execution_update")
    assert stage.session.is_bash_running
    stage.session.abort_bash()
    result = await running
    assert result.cancelled
    assert not stage.session.is_bash_running
    assert stage.kinds[-1] == "message bashExecution"


async def test_long_output_is_cut_and_kept_in_a_file(tmp_path: Path) -> None:
    stage = stage_in(tmp_path)
    result = await stage.session.execute_bash("seq 1 5000")
    assert result.truncated
    assert result.output.endswith("5000\n") or result.output.endswith("5000")
    assert Path(str(result.full_output_path)).read_text().startswith("1\n2\n")
    Path(str(result.full_output_path)).unlink()


async def test_an_extension_may_answer_instead_and_a_broken_one_refuses(tmp_path: Path) -> None:
    answers: list[Any] = [ShellResult(output="remote\n", exit_code=0), ValueError("no"), "nonsense"]

    async def elsewhere(_given: ShellGiven) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    stage = stage_in(tmp_path, hooks=SessionHooks(user_bash=elsewhere))
    assert (await stage.session.execute_bash("ls")).output == "remote\n"
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="refused"):
            await stage.session.execute_bash("ls")
    assert stage.kinds.count("message bashExecution") == 1


async def test_without_a_folder_there_is_no_shell() -> None:
    stage = Stage()
    with pytest.raises(ConfigurationError, match="no folder"):
        await stage.session.execute_bash("ls")
    stage.session.record_bash_result("ls", BashResult("a\n", False, False, 0))
    await settle()
    assert stage.kinds[-1] == "message bashExecution"


@pytest.mark.parametrize("cut", range(1, 30))
def test_control_sequences_are_taken_out_however_they_are_cut(cut: int) -> None:
    data = "a\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07é\tb".encode()
    clean = CleanText()
    assert clean.feed(data[:cut]) + clean.feed(data[cut:]) + clean.feed(b"", final=True) == "ared\né\tb"

"""How a one-shot run ends when somebody wants it to: signals, readers that go, at every phase."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.modes.children import NOTHING, PIPE, SIGNALS, Child, Place, run, served, shell, started
from tests.providers.fake_server import Answer, Break, Refuse, Step

PHASES = ("reading", "asking", "streaming", "tool", "retry")
SCRIPT: dict[str, list[Step]] = {
    "reading": [],
    "asking": [Break(Answer(text="x"), events=0, silent=True)],
    "streaming": [Break(Answer(text="Hello there"), events=3, silent=True)],
    "tool": [Answer(calls=(("bash", {"command": "echo $$ > pid; sleep 100"}),))],
    "retry": [Refuse(503, "overloaded")] * 9,
}


@asynccontextmanager
async def in_phase(place: Place, phase: str, *arguments: str) -> AsyncIterator[Child]:
    """A child that has come to a phase of its run and stays there."""
    place.settings(retry={"baseDelayMs": 60000})
    async with served(place, *SCRIPT[phase]) as server:
        stdin = PIPE if phase == "reading" else NOTHING
        async with started(place, *arguments, "go", stdin=stdin) as child:
            if phase == "reading":
                await until(lambda: b"read" in Path("/proc", str(child.process.pid), "wchan").read_bytes())
            elif phase == "asking":
                await until(lambda: bool(server.seen))
            elif phase == "streaming":
                await (child.said("text_delta") if "json" in arguments else until(lambda: bool(server.seen)))
            elif phase == "tool":
                await until(lambda: (place.cwd / "pid").exists() and bool((place.cwd / "pid").read_text().strip()))
            else:
                await (child.said("auto_retry_start") if "json" in arguments else until(lambda: bool(server.seen)))
            yield child


async def until(condition: object) -> None:
    """Look now and then; for things outside of this process that give no sign."""
    assert callable(condition)
    for _ in range(2000):
        try:
            if condition():
                return
        except OSError:
            pass
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


def nothing_is_left(place: Place) -> None:
    """No command of ours still runs, and the session is whole."""
    pid = place.cwd / "pid"
    if pid.exists():
        assert not Path("/proc", pid.read_text().strip()).exists()
    for file in place.session_files():
        assert file.read_bytes().endswith(b"\n")
        assert place.session_lines()[0]["type"] == "session"
        roles = place.roles()
        assert roles[:2] == ["system", "user"]
        assert roles.count("toolResult") == (1 if pid.exists() else 0)


def each(names: str, values: list[tuple[object, ...]], usual: set[tuple[object, ...]]) -> pytest.MarkDecorator:
    """All of the values; those that are not usual are in the slow part."""
    marked = [value if value in usual else pytest.param(*value, marks=pytest.mark.slow) for value in values]
    return pytest.mark.parametrize(names.split(), marked)


@each(
    "phase number code mode",
    [(phase, number, code, mode) for phase in PHASES for number, code in SIGNALS for mode in ("print", "json")],
    {
        ("reading", signal.SIGINT, 130, "print"),
        ("asking", signal.SIGHUP, 129, "json"),
        ("streaming", signal.SIGTERM, 143, "json"),
        ("streaming", signal.SIGINT, 130, "print"),
        ("tool", signal.SIGTERM, 143, "print"),
        ("tool", signal.SIGINT, 130, "json"),
        ("retry", signal.SIGTERM, 143, "json"),
    },
)
async def test_a_signal_ends_a_run_in_order(place: Place, phase: str, number: int, code: int, mode: str) -> None:
    arguments = ("-p",) if mode == "print" else ("--mode", "json")
    async with in_phase(place, phase, *arguments) as child:
        child.send(number)
        done = await child.done(10)
    assert done.code == code
    if mode == "json" and phase != "reading":
        assert done.records[-1] == {"type": "agent_settled", "aborted": True}
    nothing_is_left(place)


@pytest.mark.parametrize(("number", "code"), SIGNALS[1:2])
async def test_the_second_signal_ends_it_at_once(place: Place, number: int, code: int) -> None:
    """A command that does not mind being asked to end still ends with us."""
    command = "trap '' TERM INT HUP; echo $$ > pid; while true; do sleep 0.1; done"
    async with served(place, Answer(calls=(("bash", {"command": command}),))), started(place, "-p", "go") as child:
        child.close_stdin()
        await until(lambda: (place.cwd / "pid").exists() and bool((place.cwd / "pid").read_text().strip()))
        child.send(number)
        child.send(number)
        assert (await child.done(10)).code == code
    await until(lambda: not Path("/proc", (place.cwd / "pid").read_text().strip()).exists())


@pytest.mark.slow
async def test_a_signal_that_was_ignored_stays_ignored(place: Place) -> None:
    """As under nohup."""
    async with served(place, Break(Answer(text="x"), events=2, silent=True)):
        process = await shell(place, "trap '' HUP; exec $COMMAND --mode json go <&-")
        assert process.stdout is not None
        while b"message_update" not in await process.stdout.readline():
            pass
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 143


@pytest.mark.parametrize("mode", ["print", "json"])
async def test_a_reader_that_has_gone_ends_the_run(place: Place, mode: str) -> None:
    arguments = ("-p", "go") if mode == "print" else ("--mode", "json", "go")
    reading, writing = os.pipe()
    quiet = NOTHING
    async with (
        served(place, Answer(text="Hello")),
        started(place, *arguments, stdin=quiet, stdout=writing) as child,
    ):
        os.close(writing)
        os.close(reading)
        done = await child.done(10)
    assert done.code == 1
    assert done.error_lines == ["Error: standard output cannot be written: Broken pipe"]


@pytest.mark.parametrize("mode", ["print", "json"])
async def test_a_full_disk_behind_standard_output(place: Place, mode: str) -> None:
    arguments = ("-p", "go") if mode == "print" else ("--mode", "json", "go")
    full = os.open("/dev/full", os.O_WRONLY)
    quiet = NOTHING
    async with served(place, Answer(text="Hello")), started(place, *arguments, stdin=quiet, stdout=full) as child:
        os.close(full)
        done = await child.done(10)
    assert (done.code, done.error_lines) == (1, ["Error: standard output cannot be written: No space left on device"])


async def test_a_closed_standard_output(place: Place) -> None:
    async with served(place, Answer(text="Hello")):
        process = await shell(place, "exec $COMMAND -p go >&-")
        _, said = await process.communicate()
    assert (process.returncode, said) == (1, b"Error: standard output cannot be written: Bad file descriptor\n")


@pytest.mark.slow
async def test_closed_standard_error_and_input(place: Place) -> None:
    async with served(place, Answer(text="Hello")):
        process = await shell(place, "exec $COMMAND -p go 2>&- <&-")
        said, _ = await process.communicate()
    assert (process.returncode, said) == (0, b"Hello\n")


async def test_a_slow_reader_slows_the_run(place: Place) -> None:
    """JSON mode over a pipe that nobody reads: the second request is not sent before the first answer is read."""
    big = Answer(text="x" * 300_000, calls=(("ls", {}),))
    reading, writing = os.pipe()
    quiet = NOTHING
    async with (
        served(place, big, Answer(text="end")) as server,
        started(place, "--mode", "json", "go", stdin=quiet, stdout=writing) as child,
    ):
        os.close(writing)
        await until(lambda: bool(server.seen))
        await asyncio.sleep(0.5)
        assert len(server.seen) == 1
        await asyncio.to_thread(_read_all, reading)
        assert (await child.done()).code == 0
        assert len(server.seen) == 2
    os.close(reading)


def _read_all(descriptor: int) -> None:
    while os.read(descriptor, 1 << 16):
        pass


async def test_prompts_behind_an_aborted_one_are_not_sent(place: Place) -> None:
    async with served(place, Break(Answer(text="x"), events=2, silent=True), Answer(text="never")) as server:
        async with started(place, "--mode", "json", "one", "two", stdin=NOTHING) as child:
            await child.said("message_update")
            child.send(signal.SIGINT)
            assert (await child.done(10)).code == 130
        assert len(server.seen) == 1


async def test_what_was_interrupted_can_be_continued(place: Place) -> None:
    async with in_phase(place, "tool", "-p") as child:
        child.send(signal.SIGKILL)
        await child.done(10)
    async with served(place, Answer(text="I see")) as server:
        done = await run(place, "-c", "-p", "what happened?")
        assert (done.code, done.text) == (0, "I see\n")
        sent = server.seen[0].body["messages"]
    assert any(m["role"] == "tool" for m in sent)
    assert place.roles() == ["system", "user", "assistant", "toolResult", "user", "assistant"]

"""How a one-shot run ends when somebody wants it to: what `test_every_end.py` cannot say in its table."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from tests.modes.children import NOTHING, SIGNALS, Place, run, served, shell, started
from tests.providers.fake_server import Answer, Break, Flood


async def until(condition: object) -> None:
    """Look now and then; for things outside of this process that give no sign."""
    assert callable(condition)
    for _ in range(2000):
        try:
            if condition():
                return
        except (OSError, ValueError):
            pass
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


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
        await until(lambda: _waiting_in(reading) >= PIPE_BYTES)
        assert len(server.seen) == 1
        await asyncio.to_thread(_read_all, reading)
        assert (await child.done()).code == 0
        assert len(server.seen) == 2
    os.close(reading)


@pytest.mark.parametrize("mode", ["json", pytest.param("rpc", marks=pytest.mark.slow)])
async def test_an_endless_answer_waits_for_its_reader(place: Place, mode: str) -> None:
    """Nobody reads: the provider is not read either, so nothing piles up. Once somebody does, it goes on."""
    flood = Flood("word " * 200)
    reading, writing = os.pipe()
    arguments = ("--mode", "rpc") if mode == "rpc" else ("--mode", "json", "go")
    async with served(place, flood), started(place, *arguments, stdout=writing) as child:
        os.close(writing)
        if mode == "rpc":
            await child.write({"type": "prompt", "message": "go"})
        else:
            child.close_stdin()
        await until(lambda: flood.times > 0)
        at = await standstill(flood)
        assert at * len(flood.words) < 20_000_000, "buffers of sockets and pipes, not more"
        status = Path("/proc", str(child.process.pid), "status").read_text()
        resident_kb = int(next(line.split()[1] for line in status.split("\n") if line.startswith("VmRSS")))
        assert resident_kb < 200_000
        os.set_blocking(reading, False)

        def read_on() -> bool:
            with suppress(BlockingIOError):
                os.read(reading, 1 << 20)
            return flood.times > at + 50

        await until(read_on)
        child.send(signal.SIGTERM)
        assert (await child.done(10)).code == 143
    os.close(reading)


PIPE_BYTES = 60_000
"""So much at least lies in a pipe into which nothing more goes."""


def _waiting_in(reading: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, b"\0" * 4))[0])


async def standstill(flood: Flood) -> int:
    """Returns how much was sent when no more is taken."""
    before = -1
    while before != flood.times:
        before = flood.times
        await asyncio.sleep(0.3)
    return before


@pytest.mark.parametrize("mode", ["print", "json"])
async def test_a_reader_that_does_not_read_does_not_hold_up_a_signal(place: Place, mode: str) -> None:
    """A pipe that is full already: the answer cannot go out, and the exit code still names the signal."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    arguments = ("-p", "go") if mode == "print" else ("--mode", "json", "go")
    async with served(place), started(place, *arguments, stdin=NOTHING, stdout=writing) as child:
        os.close(writing)
        if mode == "print":
            await until(lambda: place.roles()[-1] == "assistant")
        else:
            await until(lambda: "poll" in Path("/proc", str(child.process.pid), "wchan").read_text())
        child.send(signal.SIGTERM)
        done = await child.done(10)
    os.close(reading)
    assert done.code == 143
    assert "Traceback" not in done.err


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
    call = Answer(calls=(("bash", {"command": "echo $$ > pid; sleep 100"}),))
    async with served(place, call), started(place, "-p", "go", stdin=NOTHING) as child:
        await until(lambda: bool((place.cwd / "pid").read_text().strip()))
        child.send(signal.SIGKILL)
        await child.done(10)
    os.kill(int((place.cwd / "pid").read_text()), signal.SIGKILL)  # nobody was left to do it
    async with served(place, Answer(text="I see")) as server:
        done = await run(place, "-c", "-p", "what happened?")
        assert (done.code, done.text) == (0, "I see\n")
        sent = server.seen[0].body["messages"]
    assert any(m["role"] == "tool" for m in sent)
    assert place.roles() == ["system", "user", "assistant", "toolResult", "user", "assistant"]

"""Standard output: whole and in order, a slow reader is waited for, foreign writers are kept out."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import subprocess
import sys
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.modes.children import SOURCE

from antiphon.modes.output import Output, OutputFailed, as_bytes, one_line


class Pipe:
    """Both ends of a pipe; each is closed once."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def close_reading(self) -> None:
        if self.reading >= 0:
            os.close(self.reading)
        self.reading = -1

    def close(self) -> None:
        self.close_reading()
        os.close(self.writing)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def drained(reading: int) -> bytes:
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_NONBLOCK)
    parts: list[bytes] = []
    try:
        while data := os.read(reading, 1 << 20):
            parts.append(data)
    except BlockingIOError:
        pass
    return b"".join(parts)


def test_a_terminal_gets_no_control_characters() -> None:
    """Names in sessions, settings and folders are the words of others."""
    hostile = "a\x1b]0;title\x07b\x9bc\u202ed\n"
    mine, theirs = pty.openpty()
    tty.setraw(theirs)
    output = Output(theirs, theirs)
    output.text(hostile)
    output.say(hostile)
    output.dim(hostile)
    assert os.read(mine, 4096) == b"a]0;titlebcd\n" * 2 + b"\x1b[2ma]0;titlebcd\n\x1b[0m"
    os.close(theirs)
    os.close(mine)


def test_a_pipe_gets_what_was_said(pipe: Pipe) -> None:
    Output(pipe.writing, pipe.writing).text("a\x1bb")
    Output(pipe.writing, pipe.writing).dim("c\x1bd")
    assert drained(pipe.reading) == b"a\x1bbc\x1bd"


async def test_what_fits_is_written_at_once(pipe: Pipe) -> None:
    output = Output(pipe.writing)
    assert output.offer(b"one\n") is None
    assert drained(pipe.reading) == b"one\n"


async def test_a_slow_reader_is_waited_for_and_order_is_kept(pipe: Pipe) -> None:
    output = Output(pipe.writing)
    lines = [bytes([65 + n]) * 50_000 + b"\n" for n in range(10)]
    tasks = [asyncio.create_task(output.send(line)) for line in lines]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert output.backlog_bytes > 300_000
    read = b""
    while len(read) < sum(map(len, lines)):
        read += drained(pipe.reading)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert read == b"".join(lines)
    assert output.backlog_bytes == 0


async def test_a_line_whose_sender_is_cancelled_is_written_whole(pipe: Pipe) -> None:
    output = Output(pipe.writing)
    task = asyncio.create_task(output.send(b"x" * 200_000 + b"\n"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    read = b""
    while not read.endswith(b"\n"):
        read += drained(pipe.reading)
        await asyncio.sleep(0)
    assert len(read) == 200_001
    assert output.offer(b"next\n") is None
    assert drained(pipe.reading) == b"next\n"


async def test_a_reader_that_has_gone_is_told_once_and_for_all(pipe: Pipe) -> None:
    output = Output(pipe.writing)
    waiting = output.offer(b"x" * 200_000)
    assert waiting is not None
    pipe.close_reading()
    with pytest.raises(OutputFailed, match="standard output cannot be written: Broken pipe"):
        await waiting
    for _ in range(2):
        with pytest.raises(OutputFailed):
            output.offer(b"more")
    assert output.failure is not None


async def test_giving_up_ends_the_waiting(pipe: Pipe) -> None:
    output = Output(pipe.writing)
    waiting = [output.offer(b"x" * 200_000), output.offer(b"y")]
    output.give_up()
    for one in waiting:
        assert one is not None
        with pytest.raises(OutputFailed):
            await one
    await output.flush()


async def test_a_descriptor_that_somebody_made_non_blocking(pipe: Pipe) -> None:
    fcntl.fcntl(pipe.writing, fcntl.F_SETFL, os.O_NONBLOCK)
    output = Output(pipe.writing)
    task = asyncio.create_task(output.send(b"z" * 300_000))
    read = b""
    while not task.done():
        read += drained(pipe.reading)
        await asyncio.sleep(0)
    assert read + drained(pipe.reading) == b"z" * 300_000


async def test_a_full_disk_is_a_failure() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    output = Output(descriptor)
    with pytest.raises(OutputFailed, match="No space left"):
        output.offer(b"x")
    os.close(descriptor)


async def test_files_are_written_without_waiting(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    output = Output(descriptor)
    assert output.offer(b"x" * 1_000_000) is None
    os.close(descriptor)
    assert (tmp_path / "out").stat().st_size == 1_000_000


def test_words_for_a_person_go_nowhere_if_standard_error_is_gone(pipe: Pipe) -> None:
    output = Output(pipe.writing, err=999)
    output.error("nobody hears this")
    pipe.close_reading()
    Output(1, pipe.writing).error("nor this")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\nb", "a b"), ("a\x1b[31mb", "a [31mb"), ("  a \u2028 b ", "a b"), ("a\0b", "a b"), ("中文", "中文")],
)
def test_a_report_is_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_halves_of_characters_can_be_written() -> None:
    assert as_bytes("a\ud83d") == "a\ufffd".encode()
    assert as_bytes("\ud83d\ude00") == "\N{GRINNING FACE}".encode()


FOREIGN = """
import ctypes, os, subprocess, sys
from antiphon.modes.output import take_over
print("before")
output = take_over()
print("a library prints")
sys.stdout.write("and writes")
sys.stdout.flush()
os.write(1, b" raw ")
subprocess.run(["echo", "a child"])
ctypes.CDLL(None).puts(b"C code")
ctypes.CDLL(None).fflush(None)
print("half \\ud83d")
output.write(b"the answer\\n")
"""


def test_foreign_writers_are_moved_to_standard_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN], capture_output=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=True
    )
    assert done.stdout == b"before\nthe answer\n"
    for words in (b"a library prints", b"and writes", b" raw ", b"a child", b"C code", b"half"):
        assert words in done.stderr


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_closed_standard_stream_does_not_swallow_a_file(number: int, tmp_path: Path) -> None:
    """A file that is opened later must not get the number of a standard stream."""
    program = (
        "import os, sys\n"
        "from antiphon.modes.output import secure_descriptors\n"
        "closed = secure_descriptors()\n"
        f"descriptor = os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY)\n"
        "assert descriptor > 2, descriptor\n"
        f"assert (closed is not None) is {number == 1}\n"
        "os._exit(7)\n"
    )
    quoted = program.replace("'", "'\\''")
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -c '{quoted}' {number}{'<' if number == 0 else '>'}&-"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=False,
    )
    assert done.returncode == 7

"""What a person sees, in a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.modes.children import NOTHING, Child, Place, served, started
from tests.providers.fake_server import Answer, Break, Refuse

from antiphon.modes.output import printable

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """The other side of a pseudo-terminal: what stands on it."""

    def __init__(self) -> None:
        self.mine, self.theirs = pty.openpty()
        attributes = termios.tcgetattr(self.theirs)
        attributes[1] &= ~termios.OPOST  # line ends as they were written
        termios.tcsetattr(self.theirs, termios.TCSANOW, attributes)
        self.data = b""

    @property
    def shown(self) -> str:
        return _STYLE.sub("", self.data.decode("utf-8", "replace"))

    async def read(self) -> None:
        """Read until the other side is closed."""
        while True:
            try:
                data = await asyncio.to_thread(os.read, self.mine, 65536)
            except OSError:
                return
            self.data += data

    async def until(self, words: str) -> None:
        for _ in range(1000):
            if words in self.shown:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{words!r} never came: {self.shown!r}")


@asynccontextmanager
async def seen(place: Place, *arguments: str) -> AsyncIterator[tuple[Terminal, Child]]:
    """A child whose standard output is a terminal."""
    terminal = Terminal()
    async with started(place, *arguments, stdin=NOTHING, stdout=terminal.theirs) as child:
        os.close(terminal.theirs)
        reading = asyncio.create_task(terminal.read())
        yield terminal, child
        await child.done()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reading, 5)
    os.close(terminal.mine)


async def test_an_answer_comes_as_it_is_written(place: Place) -> None:
    slow = Break(Answer(text="Hello there"), events=3, silent=True)
    async with served(place, slow), seen(place, "hi") as (terminal, child):
        await terminal.until("Hello")
        child.send(signal.SIGINT)
        assert (await child.done()).code == 130


async def test_tools_are_shown_on_standard_error_and_the_answer_on_the_terminal(place: Place) -> None:
    (place.cwd / "a.txt").write_text("first line\nlast line")
    script = [Answer(text="Let me look.", calls=(("read", {"path": "a.txt"}),)), Answer(text="Done: 完成")]
    async with served(place, *script), seen(place, "-p", "hi") as (terminal, child):
        done = await child.done()
    assert done.code == 0
    assert terminal.shown == "Let me look.\nDone: 完成\n"
    assert '→ read {"path":"a.txt"}' in done.err
    assert "✓ last line" in done.err


async def test_a_failure_and_a_retry_are_shown(place: Place) -> None:
    place.settings(retry={"baseDelayMs": 1, "maxRetries": 1})
    script = [Refuse(503, "too busy"), Refuse(503, "still busy")]
    async with served(place, *script), seen(place, "-p", "hi") as (terminal, child):
        done = await child.done()
    assert (done.code, terminal.shown) == (1, "")
    assert "↻" in done.err
    assert "still busy" in done.err


async def test_a_model_cannot_drive_the_terminal(place: Place) -> None:
    hostile = Answer(text="a\x1b]0;title\x07b\x1b[2Jc\x9bd\x7fe")
    async with served(place, hostile), seen(place, "-p", "hi") as (terminal, child):
        await child.done()
    assert terminal.data == b"a]0;titleb[2Jcde\n"


async def test_the_name_of_a_tool_stays_one_line_without_control_characters(place: Place) -> None:
    script = [Answer(calls=(("no\x1b[31m\ntool", {}),)), Answer(text="Done")]
    async with served(place, *script), seen(place, "-p", "hi") as (_, child):
        done = await child.done()
    assert "→ no [31m tool {}\n" in done.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\tb\nc", "a\tb\nc"), ("\x00\x1b\x7f\x85\x9b", ""), ("中\u200b文", "中\u200b文"), ("a\u202eb\u2066c", "abc")],
)
def test_what_is_printable(text: str, shown: str) -> None:
    assert printable(text) == shown

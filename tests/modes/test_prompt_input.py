"""What becomes of standard input, files and messages."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.modes.children import Place, run, served
from tests.providers.fake_server import Answer

from antiphon.errors import ConfigurationError
from antiphon.modes.prompt_input import GivenPrompt, Pictures, file_part, join, prompts_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def prompts(messages: list[str], files: list[str], piped: str, cwd: Path) -> list[GivenPrompt]:
    return prompts_of(messages, files, piped, cwd, cwd, Pictures())


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["piped", "msg"], "piped\nmsg"),
        (["piped\n", "msg"], "piped\nmsg"),
        (["", "msg"], "msg"),
        (["a", "", "b"], "a\nb"),
        ([], ""),
    ],
)
def test_a_newline_stands_between_parts(parts: list[str], text: str) -> None:
    assert join(parts) == text


def test_standard_input_then_files_then_the_first_message(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffcontent")
    (tmp_path / "empty").write_text("")
    found = prompts(["first", "second", " "], ["a.txt", "empty"], "piped", tmp_path)
    assert found == [
        GivenPrompt(f'piped\n<file name="{tmp_path}/a.txt">\ncontent\n</file>\nfirst'),
        GivenPrompt("second"),
    ]


def test_nothing_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    told: list[str] = []
    assert prompts_of([], ["empty"], "", tmp_path, tmp_path, Pictures(), told.append) == []
    assert told == ["@empty is empty and left out"]
    assert prompts(["  "], [], "", tmp_path) == []


def test_pictures_are_told_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "picture.txt").write_bytes(PNG)
    (tmp_path / "words.png").write_text("just words")
    picture = file_part("picture.txt", tmp_path, tmp_path, Pictures())
    assert picture.text == f'<file name="{tmp_path}/picture.txt"></file>\n'
    assert (picture.images[0].mime_type, base64.b64decode(picture.images[0].data)) == ("image/png", PNG)
    assert "just words" in file_part("words.png", tmp_path, tmp_path, Pictures()).text
    blocked = file_part("picture.txt", tmp_path, tmp_path, Pictures(blocked=True))
    assert blocked.images == ()
    assert "omitted" in blocked.text


def test_a_broken_picture_says_so_in_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(PNG[:40])
    part = file_part("broken.png", tmp_path, tmp_path, Pictures())
    assert part.images == ()
    assert "omitted" in part.text


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot read @"):
        file_part(name, tmp_path, tmp_path, Pictures())


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    with pytest.raises(ConfigurationError, match="larger than 64 MiB"):
        file_part("huge", tmp_path, tmp_path, Pictures())


async def test_all_of_it_arrives(place: Place) -> None:
    (place.cwd / "picture").write_bytes(PNG)
    (place.cwd / "说明.txt").write_text("你好")
    async with served(place, Answer(text="ok")) as server:
        done = await run(place, "-p", "@picture", "@说明.txt", "what is this?", given="  piped 文字 \n\n".encode())
        assert (done.code, done.err) == (0, "")
        content = server.seen[0].body["messages"][-1]["content"]
    text = content[0]["text"]
    assert text.startswith("piped 文字\n<file name=")
    assert "你好" in text
    assert text.endswith("</file>\nwhat is this?")
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")


async def test_five_megabytes_on_standard_input(place: Place) -> None:
    async with served(place, Answer(text="ok")) as server:
        done = await run(place, "-p", "count", given=b"0123456789abcdef" * 320 * 1024)
        assert (done.code, done.text, done.err) == (0, "ok\n", "")
        assert len(json.dumps(server.seen[0].body)) > 5_000_000


async def test_standard_input_alone_is_a_prompt(place: Place) -> None:
    async with served(place, Answer(text="ok")) as server:
        assert (await run(place, given=b"only this")).text == "ok\n"
        assert server.seen[0].body["messages"][-1]["content"][0]["text"] == "only this"


async def test_bytes_that_are_no_text_do_no_harm(place: Place) -> None:
    async with served(place, Answer(text="ok")):
        assert (await run(place, "-p", "x", given=b"\xff\xfe\0\x80")).code == 0


async def test_every_further_message_is_a_prompt_of_its_own(place: Place) -> None:
    async with served(place, Answer(text="one"), Answer(text="two")) as server:
        done = await run(place, "-p", "first", "second", given=b"piped")
        assert len(server.seen) == 2
    assert done.text == "two\n"
    assert place.roles() == ["system", "user", "assistant", "user", "assistant"]


async def test_standard_input_without_an_end_is_refused(place: Place) -> None:
    done = await run(place, "-p", "hi", given=b"y" * (65 * 1024 * 1024))
    assert (done.code, done.text) == (1, "")
    assert "standard input is larger than 64 MiB" in done.err

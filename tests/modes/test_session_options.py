"""Which session a command line goes on with, and the commands that look at sessions without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.modes.children import Done, Place, run, served
from tests.providers.fake_server import Answer, FakeServer


def asked(server: FakeServer, number: int) -> list[str]:
    """The words of the user in a request."""
    said = [m for m in server.seen[number].body["messages"] if m["role"] == "user"]
    return [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in said]


def id_of(path: Path) -> str:
    return path.stem.split("_")[1]


async def test_continue_goes_on_with_the_last_session_of_the_folder(place: Place) -> None:
    other = place.home / "other"
    other.mkdir()
    async with served(place) as server:
        await run(place, "-p", "one")
        await run(place, "-p", "elsewhere", cwd=other)
        assert (await run(place, "-c", "-p", "two")).code == 0
        assert asked(server, 2) == ["one", "two"]
    assert len(place.session_files()) == 2


async def test_continue_without_a_session_begins_one(place: Place) -> None:
    async with served(place):
        done = await run(place, "-c", "-p", "one")
        assert (done.code, "a new one begins" in done.err) == (0, True)
    assert len(place.session_files()) == 1


async def test_a_session_by_path_by_id_and_by_the_beginning_of_one(place: Place) -> None:
    async with served(place) as server:
        await run(place, "-p", "one")
        (path,) = place.session_files()
        for number, name in enumerate([str(path), id_of(path), id_of(path)[:20]], start=1):
            assert (await run(place, "--session", name, "-p", "more")).code == 0
            assert asked(server, number)[0] == "one"
    assert len(place.session_files()) == 1


async def test_a_session_of_another_project_is_named_with_the_way_out(place: Place) -> None:
    other = place.home / "other"
    other.mkdir()
    async with served(place) as server:
        await run(place, "-p", "one", cwd=other)
        (path,) = place.session_files()
        for arguments in (("-p", "x"), ("--mode", "rpc")):
            done = await run(place, "--session", id_of(path), *arguments)
            assert (done.code, done.out) == (1, b"")
            assert str(other) in done.err
            assert f"--fork {id_of(path)}" in done.err
        assert (await run(place, "--fork", id_of(path), "-p", "two")).code == 0
        assert asked(server, 1) == ["one", "two"]
    assert len(place.session_files()) == 2


async def test_an_id_is_opened_or_made(place: Place) -> None:
    async with served(place) as server:
        for words in ("one", "two"):
            assert (await run(place, "--session-id", "my-work.1", "-p", words)).code == 0
        assert asked(server, 1) == ["one", "two"]
        assert (await run(place, "--fork", "my-work.1", "--session-id", "copy", "-p", "three")).code == 0
        done = await run(place, "--fork", "my-work.1", "--session-id", "copy", "-p", "four")
        assert (done.code, "copy" in done.err) == (1, True)
    assert sorted(id_of(path) for path in place.session_files()) == ["copy", "my-work.1"]


async def test_a_session_runs_in_its_own_folder(place: Place) -> None:
    other = place.home / "other"
    other.mkdir()
    (other / "here.txt").write_text("x")
    async with served(place, Answer(text="ok"), Answer(calls=(("bash", {"command": "ls"}),))) as server:
        await run(place, "-p", "one", cwd=other)
        (path,) = place.session_files()
        assert (await run(place, "--session", str(path), "-p", "list")).code == 0
        assert "here.txt" in json.dumps(server.seen[2].body)


async def test_a_session_whose_folder_is_gone(place: Place) -> None:
    other = place.home / "other"
    other.mkdir()
    async with served(place):
        await run(place, "-p", "one", cwd=other)
        other.rmdir()
        done = await run(place, "--session", str(place.session_files()[0]), "-p", "two")
    assert done.code == 1
    assert len(done.error_lines) == 1
    assert "does not exist" in done.err


async def test_no_session_leaves_nothing(place: Place) -> None:
    async with served(place):
        assert (await run(place, "--no-session", "-p", "one")).code == 0
    assert list(place.agent.rglob("*.jsonl")) == []


@pytest.mark.parametrize(
    "how", ["option", "project", *(pytest.param(how, marks=pytest.mark.slow) for how in ("variable", "setting"))]
)
async def test_sessions_lie_where_somebody_wants_them(place: Place, how: str) -> None:
    folder = place.home / "sessions here"
    arguments: tuple[str, ...] = ()
    if how == "option":
        arguments = ("--session-dir", str(folder))
    elif how == "variable":
        place.variables["ANTIPHON_SESSION_DIR"] = str(folder)
    elif how == "setting":
        place.settings(sessionDir=str(folder))
    else:
        (place.cwd / ".antiphon").mkdir()
        (place.cwd / ".antiphon" / "settings.json").write_text(json.dumps({"sessionDir": str(folder)}))
    async with served(place) as server:
        await run(place, *arguments, "-p", "one")
        await run(place, *arguments, "-c", "-p", "two")
        assert asked(server, 1) == ["one", "two"]
    assert len(list(folder.glob("*.jsonl"))) == 1
    assert place.session_files() == []


@pytest.mark.slow
async def test_a_database_of_sessions(place: Place) -> None:
    where = ("--session-dir", "sqlite:all.db")
    async with served(place) as server:
        assert (await run(place, *where, "-p", "one")).code == 0
        assert (await run(place, *where, "-c", "-p", "two")).code == 0
        assert asked(server, 1) == ["one", "two"]
    assert (place.cwd / "all.db").exists()
    listed = await run(place, "session", *where, "list")
    assert "one" in listed.text


async def test_a_name(place: Place) -> None:
    async with served(place):
        await run(place, "-n", "我的工作", "-p", "one")
    assert "我的工作" in (await run(place, "session", "list")).text


# ---- commands -------------------------------------------------------------------------------------------------------


async def session(place: Place, *words: str) -> Done:
    return await run(place, "session", *words)


async def test_looking_at_sessions(place: Place) -> None:
    async with served(place, Answer(text="blue whales sing")):
        await run(place, "-p", "what do whales do?")
    (path,) = place.session_files()
    id_ = id_of(path)
    assert id_ in (await session(place, "list")).text
    assert (await session(place, "list", "--json")).records[0]["id"] == id_
    assert id_ in (await session(place, "list", "--all")).text
    assert "blue whales sing" in (await session(place, "show", id_)).text
    assert id_ in (await session(place, "search", "whales", "blue")).text
    assert (await session(place, "search", "elephants")).code == 1
    checked = await session(place, "check", id_)
    assert (checked.code, "nothing is wrong" in checked.text) == (0, True)
    before = path.read_bytes()
    assert "nothing was wrong" in (await session(place, "repair", id_)).text
    assert path.read_bytes() == before


@pytest.mark.not_replayed("it is spoilt on purpose")
async def test_a_damaged_session_is_told_and_repaired(place: Place) -> None:
    async with served(place, Answer(calls=(("ls", {}),)), Answer(text="x")):
        await run(place, "-p", "hi")
    (path,) = place.session_files()
    lines = path.read_bytes().split(b"\n")
    result = next(number for number, line in enumerate(lines) if b'"toolResult"' in line)
    path.write_bytes(b"\n".join(lines[:result]) + b'\n{"half')
    checked = await session(place, "check", id_of(path))
    assert checked.code == 1
    assert "half line" in checked.text
    assert "ls" in checked.text
    assert (await session(place, "repair", id_of(path))).code == 0
    after = await session(place, "check", id_of(path))
    assert "has no result" not in after.text
    assert place.session_files() == [path]


async def test_copies(place: Place) -> None:
    async with served(place, Answer(text="hello")):
        await run(place, "-p", "hi")
    (path,) = place.session_files()
    id_ = id_of(path)
    page = (await session(place, "export", id_)).text.strip()
    assert "hello" in Path(page).read_text()
    taken = await session(place, "export", id_)
    assert (taken.code, "--force" in taken.err) == (1, True)
    assert (await session(place, "export", id_, "--force", page)).code == 0, "a flag may stand anywhere"
    assert (await session(place, "export", id_, "a.md")).code == 0
    assert (await session(place, "export", id_, "a.jsonl")).code == 0
    assert json.loads((await session(place, "export", id_, "-")).out.split(b"\n")[0])["id"] == id_
    assert (await session(place, "export", id_, "a.pdf")).code == 1
    option = await run(place, "--export", str(path), "b.html")
    assert (option.code, option.text) == (0, f"{place.cwd / 'b.html'}\n")
    copied = await session(place, "fork", id_)
    assert copied.code == 0
    assert (await session(place, "import", "a.jsonl")).code == 0
    assert len(place.session_files()) == 3


@pytest.mark.parametrize("words", [("show", "nowhere"), ("check", "no.jsonl"), ("import", "no.jsonl"), (), ("dance",)])
async def test_mistakes_are_a_line(place: Place, words: tuple[str, ...]) -> None:
    done = await session(place, *words)
    assert (done.code, done.out) == (1, b"")
    assert len(done.error_lines) == 1


@pytest.mark.not_replayed("it is spoilt on purpose")
async def test_a_session_is_played_again(place: Place) -> None:
    (place.cwd / "a").write_text("A")
    script = [Answer(text="see", calls=(("read", {"path": "a"}), ("read", {"path": "none"}))), Answer(text="done")]
    async with served(place, *script, Answer(text="more")):
        await run(place, "-p", "hi", "and then?")
    (path,) = place.session_files()
    (place.cwd / "a").unlink()
    done = await run(place, "replay", id_of(path))
    assert (done.code, "the same conversation" in done.text) == (0, True)
    changed = path.read_bytes().replace(b'"toolName":"read"', b'"toolName":"reed"')
    path.write_bytes(changed)
    done = await run(place, "replay", id_of(path), "--json")
    assert done.code == 1
    found = done.records[0]
    assert found["difference"]["what"] == "toolName of the toolResult message"
    assert (found["recorded"]["toolName"], found["played"]["toolName"]) == ("reed", "read")


async def test_a_session_keeps_its_model(place: Place) -> None:
    async with served(place) as server:
        await run(place, "--model", "openai/echo", "-p", "one")
        assert (await run(place, "-c", "-p", "two")).err == ""
        assert [seen.body["model"] for seen in server.seen] == ["echo", "echo"]


@pytest.mark.slow
async def test_a_session_by_its_name(place: Place) -> None:
    async with served(place) as server:
        await run(place, "-n", "my work", "-p", "one")
        assert (await run(place, "--session", "my work", "-p", "two")).code == 0
        assert asked(server, 1) == ["one", "two"]


async def test_a_session_goes_into_a_database_and_back_without_loss(place: Place) -> None:
    """All branches and every byte, not only what is on the active path."""
    async with served(place, Answer(text="hello")):
        await run(place, "-p", "hi")
    (path,) = place.session_files()
    database = f"sqlite:{place.home / 'all.db'}"

    taken = await session(place, "--session-dir", database, "import", str(path))
    assert taken.code == 0
    back = await session(place, "--session-dir", database, "export", id_of(path), "--whole", "back.jsonl")

    assert back.code == 0
    assert Path(back.text.strip()).read_bytes() == path.read_bytes()
    refused = await session(place, "--session-dir", database, "export", id_of(path), "--whole", "back.html")
    assert (refused.code, "--whole" in refused.err) == (1, True)
    missing = await session(place, "--session-dir", database, "import", "nowhere.jsonl")
    assert (missing.code, "is not a session" in missing.err) == (1, True)

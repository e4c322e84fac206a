"""Replacing the current session: the successor is made first, and nothing of the old one is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.session.stage import Stage, texts

from antiphon.core.session_events import SessionChanged, SessionEvent
from antiphon.session.agent_session import AgentSession
from antiphon.session.create import create_agent_session
from antiphon.session.hooks import SessionHooks
from antiphon.session.refusals import NotAForkPoint, NotSavedYet
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.refusals import FolderMissing, NoSuchEntry, NotASession
from antiphon.testing import falls_silent, says


class House:
    """A runtime, and everything it makes."""

    def __init__(self, stage: Stage, **options: object) -> None:
        self.stage = stage
        self.made: list[AgentSession] = []
        self.fails = False
        self.runtime = AgentSessionRuntime(stage.session, self.make, stage.store, **options)  # type: ignore[arg-type]
        self.heard: list[SessionEvent] = []
        self.runtime.subscribe(self.heard.append)

    def make(self, log: SessionLog) -> AgentSession:
        if self.fails:
            raise RuntimeError("no room")
        session = create_agent_session(self.stage.services, log, self.stage.wanted).session
        self.made.append(session)
        return session

    def said(self) -> list[str]:
        return texts(self.runtime.session.messages)


async def test_listeners_of_the_runtime_follow_every_replacement(tmp_path: Path) -> None:
    house = House(Stage([says("one"), says("two")], folder=tmp_path))
    await house.runtime.session.prompt("first")
    await house.runtime.new_session()
    await house.runtime.session.prompt("second")

    kinds = [event.type for event in house.heard if event.type in ("session_changed", "agent_settled")]
    assert kinds == ["agent_settled", "session_changed", "agent_settled"]
    assert house.said() == ["user: second", "assistant: two"]
    assert house.stage.session.phase == "disposed"


@pytest.mark.requirement("S3-88")
async def test_a_session_that_was_replaced_listens_no_more(tmp_path: Path) -> None:
    house = House(Stage([says("one"), says("two")], folder=tmp_path))
    old = house.runtime.session
    await old.prompt("first")
    await house.runtime.new_session()
    before = Path(str(old.session_file)).read_bytes()

    outcome = await old.agent.prompt("behind its back")

    assert (outcome.reason, outcome.faults) == ("stop", ())
    assert Path(str(old.session_file)).read_bytes() == before


async def test_a_successor_that_cannot_be_made_leaves_the_old_session_usable(tmp_path: Path) -> None:
    """The reference tears the old one down first: then there is none."""
    house = House(Stage([says("one"), says("two")], folder=tmp_path))
    await house.runtime.session.prompt("first")
    house.fails = True
    with pytest.raises(RuntimeError, match="no room"):
        await house.runtime.new_session()
    await house.runtime.session.prompt("second")
    assert house.said()[-1] == "assistant: two"


async def test_what_was_running_is_stored_in_the_old_session(tmp_path: Path) -> None:
    stage = Stage([says("one"), falls_silent(says("x"))], folder=tmp_path)
    house = House(stage)
    await house.runtime.session.prompt("first")
    path = stage.log.path
    going = asyncio.ensure_future(house.runtime.session.prompt("second"))
    await stage.until("message_start assistant")
    await house.runtime.new_session()
    assert (await going).aborted
    assert path is not None
    old = stage.store.open(path, access="read")
    roles = [message.role for message in old.messages() if message.role != "system"]
    assert roles == ["user", "assistant", "user", "assistant"]


async def test_a_fork_hands_the_words_back_and_a_clone_copies_all(tmp_path: Path) -> None:
    stage = Stage([says("one"), says("two"), says("other")], folder=tmp_path)
    house = House(stage)
    await house.runtime.session.prompt("first")
    await house.runtime.session.prompt("second")
    points = house.runtime.session.get_user_messages_for_forking()
    assert [point.text for point in points] == ["first", "second"]

    replaced = await house.runtime.fork(points[1].entry_id)
    assert replaced.text == "second"
    assert house.said() == ["user: first", "assistant: one"]
    await house.runtime.session.prompt("instead")
    await house.runtime.clone()
    assert house.said() == ["user: first", "assistant: one", "user: instead", "assistant: other"]


async def test_what_cannot_be_forked_changes_nothing(tmp_path: Path) -> None:
    stage = Stage([says("one")], folder=tmp_path)
    house = House(stage)
    with pytest.raises(NotSavedYet):
        await house.runtime.clone()
    await house.runtime.session.prompt("first")
    answer = stage.log.leaf_id
    assert answer is not None
    with pytest.raises(NotAForkPoint):
        await house.runtime.fork(answer)
    with pytest.raises(NoSuchEntry):
        await house.runtime.fork("ghost")
    assert house.runtime.session is stage.session
    assert house.made == []


async def test_a_session_is_gone_on_with_and_a_bad_file_is_refused(tmp_path: Path) -> None:
    stage = Stage([says("one"), says("two"), says("three")], folder=tmp_path)
    house = House(stage)
    await house.runtime.session.prompt("first")
    first = house.runtime.session.session_file
    assert first is not None
    await house.runtime.new_session()
    await house.runtime.session.prompt("second")
    (tmp_path / "bad.jsonl").write_text("garbage\n")
    gone = tmp_path / "gone.jsonl"
    gone.write_text('{"type":"session","version":3,"id":"g","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/no/such"}\n')
    with pytest.raises(NotASession):
        await house.runtime.switch_session(tmp_path / "bad.jsonl")
    with pytest.raises(FolderMissing):
        await house.runtime.switch_session(gone)
    assert house.said() == ["user: second", "assistant: two"]

    await house.runtime.switch_session(first)
    await house.runtime.session.prompt("third")
    assert house.said() == ["user: first", "assistant: one", "user: third", "assistant: three"]


async def test_a_file_that_is_no_session_is_not_copied_in(tmp_path: Path) -> None:
    """In the reference the copy of the refused file stays in the folder of sessions."""
    stage = Stage([says("one")], folder=tmp_path / "sessions")
    (tmp_path / "sessions").mkdir(exist_ok=True)
    house = House(stage)
    (tmp_path / "x.jsonl").write_text("garbage\n")
    with pytest.raises(NotASession):
        await house.runtime.import_jsonl(tmp_path / "x.jsonl")
    assert list((tmp_path / "sessions").glob("x*")) == []
    assert house.runtime.session is stage.session


async def test_a_file_from_elsewhere_becomes_the_current_session(tmp_path: Path) -> None:
    stage = Stage([says("answer")], folder=tmp_path / "sessions")
    (tmp_path / "sessions").mkdir(exist_ok=True)
    house = House(stage)
    other = SessionStore(tmp_path / "other", cwd=str(tmp_path)).create(session_id="imported")
    from antiphon.core.messages import user

    other.append_message(user("from outside"))
    path = other.path
    other.close()
    assert path is not None
    await house.runtime.import_jsonl(path)
    await house.runtime.session.prompt("on")
    assert house.said() == ["user: from outside", "user: on", "assistant: answer"]
    assert Path(str(house.runtime.session.session_file)).parent == tmp_path / "sessions"


async def test_extensions_may_refuse_a_switch_and_hear_of_what_happens(tmp_path: Path) -> None:
    calls: list[tuple[str, ...]] = []
    refuse = [False]

    async def before(reason: str, target: str | None) -> bool:
        calls.append(("before", reason))
        return not refuse[0]

    hooks = SessionHooks(
        before_switch=before,
        before_fork=lambda _entry, _position: not refuse[0],
        session_start=lambda reason, _previous: calls.append(("start", reason)),
        session_shutdown=lambda reason, _target: calls.append(("shutdown", reason)),
    )
    stage = Stage([says("one")], folder=tmp_path)
    house = House(stage, hooks=hooks)
    await house.runtime.session.prompt("first")
    refuse[0] = True
    assert (await house.runtime.new_session()).cancelled
    assert (await house.runtime.clone()).cancelled
    assert house.runtime.session is stage.session
    refuse[0] = False
    await house.runtime.new_session()
    await house.runtime.dispose()
    assert calls == [("before", "new"), ("before", "new"), ("shutdown", "new"), ("start", "new"), ("shutdown", "quit")]


async def test_two_replacements_at_once_come_one_after_the_other(tmp_path: Path) -> None:
    stage = Stage([says("one")], folder=tmp_path)
    house = House(stage)
    await house.runtime.session.prompt("first")
    await asyncio.gather(house.runtime.new_session(), house.runtime.new_session())
    changes = [event for event in house.heard if isinstance(event, SessionChanged)]
    assert len({event.session_id for event in changes}) == 2
    assert [session.phase for session in house.made] == ["disposed", "idle"]


async def test_the_folder_of_sessions_follows_the_working_folder(tmp_path: Path) -> None:
    stage = Stage([says("one")], folder=tmp_path)
    asked: list[str] = []

    def store_for(cwd: str) -> SessionStore:
        asked.append(cwd)
        return stage.store

    house = House(stage, store_for=store_for)
    await house.runtime.new_session()
    assert asked == []


async def test_the_position_where_the_user_stood_is_found_again(tmp_path: Path) -> None:
    """The reference forgets a move after which nothing was said."""
    stage = Stage([says("one"), says("two")], folder=tmp_path)
    await stage.session.prompt("first")
    await stage.session.prompt("second")
    points = stage.session.get_user_messages_for_forking()
    await stage.session.navigate_tree(points[1].entry_id)
    path = stage.log.path
    await stage.session.dispose()
    assert path is not None
    with stage.store.open(path) as log:
        assert texts(log.messages()) == ["user: first", "assistant: one"]

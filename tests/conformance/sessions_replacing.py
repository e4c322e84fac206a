"""The pack `runtime`: a runtime that owns one session after the other, and the files that they leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_runtime import _by_class, _context, _reduced, _sorted, _target, _write
from tests.conformance.sessions_values import Clock, Names, header_data

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent, Start
from antiphon.core.session_events import SessionChanged, SessionEvent
from antiphon.errors import AntiphonError
from antiphon.session.agent_session import AgentSession
from antiphon.session.create import Services, create_agent_session
from antiphon.session.ports import GivenModels
from antiphon.session.retry import NEVER
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session.settings import SessionSettings
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.compaction import CompactionSettings

Json = Any
FAUX = Model(id="faux-1", provider="faux", api="faux", context_window=100_000, max_tokens=4096)


def run_runtime(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    return asyncio.run(_run(case, folder))


async def _run(case: Json, folder: Path) -> str | None:
    play = Play(folder, memory=case.get("memory", False), hang=case.get("hang"))
    async with asyncio.timeout(20):
        for action in case["actions"]:
            play.clock.now_ms += 1000
            await play.act(action)
        got = play.found()
        await play.runtime.dispose()
    expect = {key: value for key, value in case["expect"].items() if key in got}
    expect["results"] = [_by_class(result) for result in expect["results"]]
    return first_difference(_sorted(expect), _sorted(play.named(got)))


class Play:
    """One case: the runtime, and everything that happened to it."""

    def __init__(self, folder: Path, *, memory: bool, hang: int | None) -> None:
        self.folder = folder
        self.sessions, self.proj = folder / "sessions", folder / "proj"
        self.proj.mkdir()
        self.clock = Clock()
        self.store = SessionStore(self.sessions, cwd=str(self.proj), seals=False, sources=self.clock.sources())
        self.hang = hang
        self.requests = 0
        self.results: list[Json] = []
        self.starts: list[Json] = [None]
        self.background: list[asyncio.Task[Json]] = []
        self._sessions: list[str] = []
        self._paths: set[Path] = set()
        log = self.store.in_memory() if memory else self.store.create()
        first = self._make(log)
        self._previous = first.session_file
        self.runtime = AgentSessionRuntime(first, self._make, self.store)
        self.runtime.subscribe(self._hear)

    def _make(self, log: SessionLog) -> AgentSession:
        if log.path is not None:
            self._paths.add(log.path)
        if log.session_id not in self._sessions:
            self._sessions.append(log.session_id)
        services = Services(
            cwd=log.cwd,
            models=GivenModels(self._stream, (FAUX,)),
            settings=SessionSettings(retry=NEVER, compaction=CompactionSettings(enabled=False)),
        )
        return create_agent_session(services, log, model=FAUX, thinking_level="off").session

    async def _stream(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        self.requests += 1
        return self._answer(request, self.requests)

    async def _answer(self, request: ModelRequest, number: int) -> AsyncIterator[ResponseEvent]:
        def message(content: tuple[Text, ...], stop_reason: Any) -> AssistantMessage:
            return AssistantMessage(
                content=content,
                api="faux",
                provider="faux",
                model="faux-1",
                stop_reason=stop_reason,
                timestamp=self.clock.now_ms,
            )

        yield Start(message=message((), "pending"))
        if number == self.hang:
            await request.signal.wait()
            yield Failed(reason="aborted", error=message((), "aborted"))
        else:
            yield Done(reason="stop", message=message((Text(text=f"answer {number}"),), "stop"))

    def _hear(self, event: SessionEvent) -> None:
        if type(event) is SessionChanged:
            self.starts.append({"reason": event.reason, "previous": self._previous})
            self._previous = self.runtime.session.session_file

    # -- actions ------------------------------------------------------------------------------------------------------

    async def act(self, action: Json) -> None:
        if action.get("background"):
            self.background.append(asyncio.ensure_future(self._prompted(action)))
            await asyncio.sleep(0.01)
            return
        try:
            result = await ACTIONS[action["do"]](self, action)
        except (AntiphonError, ValueError):
            self.results.append({"do": action["do"], "error": "refused", "now": {"session": self._session_id()}})
            return
        done = {"do": action["do"], "ok": result, "now": self.now()}
        while self.background:
            self.results.append({**(await self.background.pop(0)), "now": self._before})
        self.results.append(done)

    async def _prompted(self, action: Json) -> Json:
        self._before = self.now()
        await self.runtime.session.prompt(action["text"])
        return {"do": "prompt", "ok": None}

    def _session_id(self) -> str:
        return self.runtime.session.session_id

    def now(self) -> Json:
        log = self.runtime.session.log
        return {
            "session": log.session_id,
            "cwd": log.cwd,
            "file": None if log.path is None else log.path.name,
        }

    # -- what has come of it ------------------------------------------------------------------------------------------

    def found(self) -> Json:
        log = self.runtime.session.log
        return {
            "results": self.results,
            "starts": self.starts,
            "header": {key: value for key, value in header_data(log).items() if key != "timestamp"},
            "context": _context(log),
            "files": {path.name: _reduced(path) for path in sorted(self.sessions.glob("*.jsonl"))},
        }

    def named(self, value: Json) -> Json:
        names = Names()
        for number, session_id in enumerate(self._sessions, 1):
            names.learn(session_id, f"@session{number}")
        for path in self._paths:
            if "_" in path.name:
                names.learn(path.name.split("_")[0] + "_", "<time>_")
        names.learn(str(self.folder), "${DIR}")
        return names.named(value)


async def _prompt(play: Play, action: Json) -> Json:
    await play.runtime.session.prompt(action["text"])


async def _new(play: Play, action: Json) -> Json:
    parent = play.runtime.session.session_file if action.get("options", {}).get("parentIsCurrent") else None
    return {"cancelled": (await play.runtime.new_session(parent=parent)).cancelled}


async def _fork(play: Play, action: Json) -> Json:
    target = _target(play.runtime.session.log, action["entry"])
    done = await play.runtime.fork(target, action.get("options", {}).get("position", "before"))
    return {"cancelled": done.cancelled, **({} if done.text is None else {"selectedText": done.text})}


async def _written(play: Play, action: Json) -> Json:
    _write(play, action)  # type: ignore[arg-type]  # it needs the folder only


async def _import(play: Play, action: Json) -> Json:
    cwd = str(play.folder / action["cwd"]) if "cwd" in action else None
    done = await play.runtime.import_jsonl(play.folder / action["path"], cwd=cwd, fresh_id=False)
    return {"cancelled": done.cancelled}


async def _switch(play: Play, action: Json) -> Json:
    path = play.folder / action["path"] if "path" in action else sorted(play.sessions.glob("*.jsonl"))[action["index"]]
    cwd = str(play.folder / action["cwd"]) if "cwd" in action else None
    return {"cancelled": (await play.runtime.switch_session(path, cwd=cwd)).cancelled}


async def _name(play: Play, action: Json) -> Json:
    play.runtime.session.set_session_name(action["name"])


ACTIONS: dict[str, Callable[[Play, Json], Awaitable[Json]]] = {
    "prompt": _prompt,
    "new": _new,
    "fork": _fork,
    "write": _written,
    "import": _import,
    "switch": _switch,
    "switchBack": _switch,
    "name": _name,
}

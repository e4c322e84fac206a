"""The pack `runtime`, as far as files go: one current session after the other, and what each leaves on disk.

What a session object does in between (a prompt is a system message once, the user's and an answer) is played here by
hand; the pack is run against the real session object elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_values import Clock, Names, file_lines, header_data

from antiphon.core.messages import message_from_wire, message_to_wire, user
from antiphon.errors import SessionError
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.entries import MessageEntry
from antiphon.session_log.refusals import EntryRefused, NoSuchEntry, SessionReadOnly

Json = Any
REDUCED = {
    "session": ("type", "id", "version", "cwd", "parentSession"),
    "message": ("type", "role", "text", "stopReason"),
}


def run_case(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    play = Play(folder, memory=case.get("memory", False), hang=case.get("hang"))
    got: Json = {"results": []}
    for action in case["actions"]:
        play.clock.now_ms += 1000
        got["results"].extend(play.act(action))
    got["starts"] = play.starts
    got["header"] = {key: value for key, value in header_data(play.log).items() if key != "timestamp"}
    got["context"] = _context(play.log)
    got["files"] = {path.name: _reduced(path) for path in sorted(play.sessions.glob("*.jsonl"))}
    play.log.close()
    expect = {key: value for key, value in case["expect"].items() if key in got}
    expect["results"] = [_by_class(result) for result in expect["results"]]
    return first_difference(_sorted(expect), _sorted(play.named(got)))


def _sorted(record: Json) -> Json:
    """Results that do not depend on each other have no order."""
    return {**record, "results": sorted(record["results"], key=json.dumps)}


def _by_class(result: Json) -> Json:
    return {**result, "error": "refused"} if "error" in result else result


def _context(log: SessionLog) -> Json:
    told = (message_to_wire(message) for message in log.messages())
    return [[data["role"], _text(data["content"])] for data in told if data["role"] != "system"]


def _text(content: Json) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _reduced(path: Path) -> Json:
    out: Json = []
    for line in file_lines(path):
        if line.get("type") == "session":
            out.append({name: line.get(name) for name in REDUCED["session"]})
        elif line.get("type") == "message":
            message = line["message"]
            item = {"type": "message", "role": message["role"]}
            if message["role"] != "system":
                item["text"] = _text(message["content"])
            if "stopReason" in message:
                item["stopReason"] = message["stopReason"]
            out.append(item)
        else:
            out.append({"type": line.get("type")})
    return out


class Play:
    """The current session, and the little that a session object would do with it."""

    def __init__(self, folder: Path, *, memory: bool, hang: int | None) -> None:
        self.folder, self.memory = folder, memory
        self.sessions, self.proj = folder / "sessions", folder / "proj"
        self.proj.mkdir()
        self.clock = Clock()
        self.store = SessionStore(self.sessions, cwd=str(self.proj), seals=False, sources=self.clock.sources())
        self.starts: list[Json] = [None]
        self._requests = 0
        self._sessions: list[str] = []
        self._paths: set[Path] = set()
        self._hang, self._hanging = hang, False
        self._background: list[Json] = []
        self.log = self.store.in_memory() if memory else self.store.create()
        self._enter(fresh=True)

    # -- the session object

    def _enter(self, *, fresh: bool) -> None:
        if self.log.path is not None:
            self._paths.add(self.log.path)
        if self.log.session_id not in self._sessions:
            self._sessions.append(self.log.session_id)
        if fresh:
            self.log.append_model_change("faux", "faux-1")
        if fresh or not any(entry.type == "thinking_level_change" for entry in self.log.path_entries()):
            self.log.append_thinking_level_change("off")

    def _prompt(self, action: Json) -> None:
        if not any(message.role == "system" for message in self.log.messages()):
            self.log.append_message(message_from_wire({"role": "system", "content": "", "sections": {"preamble": "x"}}))
        self.log.append_message(user(action["text"]))
        if self._requests + 1 == self._hang:
            self._hanging = True
        else:
            self._answer("stop")

    def _answer(self, stop_reason: str) -> None:
        self._requests += 1
        content = [{"type": "text", "text": f"answer {self._requests}"}] if stop_reason == "stop" else []
        wire = {
            "role": "assistant",
            "content": content,
            "stopReason": stop_reason,
            "provider": "faux",
            "model": "faux-1",
        }
        self.log.append_message(message_from_wire(wire))

    def _settle(self) -> None:
        """An answer that still hangs is aborted and stored before its session is left."""
        if self._hanging:
            self._hanging = False
            self._answer("aborted")
            self._background.append({"do": "prompt", "ok": None, "now": self.now()})

    def _replace(self, log: SessionLog, reason: str, *, fresh: bool) -> None:
        previous = self.log.path
        self.starts.append({"reason": reason, "previous": None if previous is None else str(previous)})
        if log is not self.log:
            self.log.close()
        self.log = log
        self._enter(fresh=fresh)

    # -- actions

    def act(self, action: Json) -> list[Json]:
        try:
            result = ACTIONS[action["do"]](self, action)
        except (SessionError, ValueError):
            return [{"do": action["do"], "error": "refused", "now": {"session": self.log.session_id}}]
        if action.get("background"):
            return []
        done = {"do": action["do"], "ok": result, "now": self.now()}
        settled, self._background = self._background, []
        return [*settled, done]

    def now(self) -> Json:
        out: Json = {"session": self.log.session_id, "cwd": self.log.cwd}
        out["file"] = None if self.log.path is None else self.log.path.name
        return out

    def named(self, value: Json) -> Json:
        names = Names()
        for number, session_id in enumerate(self._sessions, 1):
            names.learn(session_id, f"@session{number}")
        for path in self._paths:
            if "_" in path.name:
                names.learn(path.name.split("_")[0] + "_", "<time>_")
        names.learn(str(self.folder), "${DIR}")
        return names.named(value)


def _new(play: Play, action: Json) -> Json:
    play._settle()
    parent = str(play.log.path) if action.get("options", {}).get("parentIsCurrent") else None
    log = play.store.in_memory() if play.memory else play.store.create(parent_session=parent)
    play._replace(log, "new", fresh=True)
    return {"cancelled": False}


def _fork(play: Play, action: Json) -> Json:
    target = _target(play.log, action["entry"])
    if not play.memory and not play.log.saved:
        raise SessionReadOnly("nothing was saved yet")
    entry = play.log.entry(target)
    result: Json = {"cancelled": False}
    leaf: str | None = target
    if action.get("options", {}).get("position", "before") == "before":
        if not isinstance(entry, MessageEntry) or entry.message.role != "user":
            raise EntryRefused("not a user message")
        leaf = entry.parent_id
        result["selectedText"] = _text(message_to_wire(entry.message)["content"])
    play._settle()
    log = play.store.fork(play.log, leaf)
    play._replace(log, "fork", fresh=log.entry_count == 0)
    return result


def _target(log: SessionLog, given: Json) -> str:
    if given == "leaf":
        if log.leaf_id is None:
            raise NoSuchEntry(None)
        return log.leaf_id
    if isinstance(given, dict):
        asked = (given["role"], given["text"])
        for entry in log.entries():
            if isinstance(entry, MessageEntry) and _said(entry) == asked:
                return entry.id
    raise NoSuchEntry(given)


def _said(entry: MessageEntry) -> tuple[str, str]:
    data = message_to_wire(entry.message)
    return data["role"], _text(data.get("content", ""))


def _write(play: Play, action: Json) -> None:
    path = play.folder / action["path"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(action["text"].replace("${DIR}", str(play.folder)), encoding="utf-8")


def _import(play: Play, action: Json) -> Json:
    cwd = str(play.folder / action["cwd"]) if "cwd" in action else None
    log = play.store.import_file(play.folder / action["path"], cwd=cwd, fresh_id=False)
    play._settle()
    play._replace(log, "resume", fresh=False)
    return {"cancelled": False}


def _switch(play: Play, action: Json) -> Json:
    path = play.folder / action["path"] if "path" in action else sorted(play.sessions.glob("*.jsonl"))[action["index"]]
    cwd = str(play.folder / action["cwd"]) if "cwd" in action else None
    play._settle()
    play.log.close()
    play._replace(play.store.resume(path, cwd=cwd), "resume", fresh=False)
    return {"cancelled": False}


ACTIONS: dict[str, Callable[[Play, Json], Json]] = {
    "prompt": Play._prompt,
    "new": _new,
    "fork": _fork,
    "write": _write,
    "import": _import,
    "switch": _switch,
    "switchBack": _switch,
    "name": lambda play, action: play.log.set_name(action["name"]) and None,
}

"""The pack `ops`: scripts of operations on one session after the other, and what lies in the folder afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from tests.conformance.core_compare import first_difference
from tests.conformance.sessions_values import (
    T0,
    Clock,
    Names,
    context_data,
    expanded,
    file_lines,
    header_data,
    shortened,
    tree_data,
)

from antiphon.core.content import content_from_wire
from antiphon.core.messages import message_from_wire
from antiphon.core.usage import Usage
from antiphon.errors import AntiphonError
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.entries import edit_content_from_wire

Json = Any
_RECORDERS_OWN = re.compile(r"b[0-9]{7}")


def run_case(case: Json, folder: Path) -> str | None:
    """The first difference between what is recorded and what happens; nothing if there is none."""
    script = Script(folder)
    got: Json = {"steps": []}
    try:
        for at, op in enumerate(case["ops"]):
            script.clock.now_ms = T0 + at * 1000
            got["steps"].append(script.step(expanded(op)))
        got["state"] = script.state()
        script.name_the_rest()
    finally:
        if script.log is not None:
            script.log.close()
    got["files"] = {path.name: file_lines(path) for path in sorted(folder.glob("*.jsonl"))}
    expect = dict(case["expect"])
    expect["steps"] = [_any_error(step) for step in expect["steps"]]
    return first_difference(shortened(expect), shortened(script.names.named(got)))


def _any_error(step: Json) -> Json:
    return {"error": "refused"} if "error" in step else step


def _optional(op: Json, name: str) -> Any:
    return op.get(name, UNSET)


def _content(given: Json) -> Any:
    return given if isinstance(given, str) else content_from_wire(given)


def _usage(op: Json) -> Any:
    return msgspec.convert(op["usage"], Usage) if "usage" in op else UNSET


class Script:
    """The state of one script: a folder, a clock, names, and the session that is open now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.names = Names()
        self.names.learn(str(folder), "${DIR}")
        self.store = SessionStore(folder, cwd="/proj", sources=self.clock.sources(), seals=False)
        self.log: SessionLog | None = None
        self._sessions = 0

    @property
    def current(self) -> SessionLog:
        assert self.log is not None
        return self.log

    def step(self, op: Json) -> Json:
        """Do one operation; its recorded result."""
        given = {key: self.names.real(value) for key, value in op.items()}
        try:
            result = OPS[op["op"]](self, given)
        except AntiphonError:
            return {"error": "refused"}
        if "as" in op:
            self.names.learn(result, "@" + op["as"])
            return {"id": result}
        return {} if result is None else result

    def use(self, log: SessionLog) -> None:
        """Another session is the current one from now on."""
        if self.log is not None and self.log is not log:
            self.log.close()
        self.log = log
        if not self.names.known(log.session_id):
            self._sessions += 1
            self.names.learn(log.session_id, f"@session{self._sessions}")

    def name_the_rest(self) -> None:
        """Ids that the script did not name are `@x1`, `@x2` in order of the final entries."""
        unnamed = [entry.id for entry in self.current.entries() if not self.names.known(entry.id)]
        for number, entry_id in enumerate(unnamed, 1):
            self.names.learn(entry_id, f"@x{number}")

    def options(self, op: Json) -> Json:
        options = {key: self.names.real(value) for key, value in op.get("options", {}).items()}
        parent = options.get("parentSession")
        if parent == "@file":
            parent = str(self.current.path)
        return {"session_id": options.get("id"), "parent_session": parent}

    def check(self, op: Json) -> Json:
        log = self.current
        got: Json = {
            "leafId": log.leaf_id,
            "branch": log.path_ids(),
            "fileLines": len(file_lines(log.path)) if log.path is not None and log.path.exists() else 0,
            "entryCount": log.entry_count,
            "name": log.name,
        }
        if "children" in op:
            got["children"] = log.children(op["children"])
        if "label" in op:
            got["label"] = log.label(op["label"])
        if "branchFrom" in op:
            got["branchFrom"] = log.path_ids(op["branchFrom"])
        return got

    def state(self) -> Json:
        log = self.current
        return {
            "sessionId": log.session_id,
            "file": None if log.path is None else log.path.name,
            "header": header_data(log),
            "cwd": log.cwd,
            "persisted": log.path is not None,
            "leafId": log.leaf_id,
            "tree": tree_data(log.tree(), kinds=True),
            "name": log.name,
            "contextEntries": [item.entry.id for item in log.projection().items],
            "context": context_data(log),
        }


def _create(script: Script, op: Json) -> None:
    script.use(script.store.create(cwd=op.get("cwd"), **script.options(op)))


def _in_memory(script: Script, op: Json) -> None:
    # The recorder's list was also its session's: what the script appends later stands in it already, under ids that
    # the recorder made.
    given = [entry for entry in op.get("entries", ()) if not _RECORDERS_OWN.fullmatch(entry["id"])]
    for entry in given:
        if entry["type"] != "session":
            script.names.learn(entry["id"], "@" + entry["id"])
    script.use(script.store.in_memory(json.dumps(entry).encode() for entry in given))


def _reopen(script: Script, _: Json) -> None:
    path = script.current.path
    assert path is not None
    script.current.close()
    script.use(script.store.open(path))


def _compaction(script: Script, op: Json) -> str:
    return script.current.append_compaction(
        op["summary"],
        op.get("firstKept"),
        op["tokensBefore"],
        details=_optional(op, "details"),
        from_hook=_optional(op, "fromHook"),
        usage=_usage(op),
    )


def _custom_message(script: Script, op: Json) -> str:
    return script.current.append_custom_message(
        op["customType"], _content(op["content"]), display=op["display"], details=_optional(op, "details")
    )


def _usage_entry(script: Script, op: Json) -> str:
    usage = _usage(op)
    note = _optional(op, "note")
    return script.current.append_usage(op["kind"], op["provider"], op["model"], usage, note).id


def _branch_with_summary(script: Script, op: Json) -> str:
    return script.current.branch_with_summary(
        op["to"],
        op["summary"],
        details=_optional(op, "details"),
        from_hook=_optional(op, "fromHook"),
        usage=_usage(op),
    )


def _fork(script: Script, op: Json) -> None:
    script.use(script.store.fork(script.current, op["leaf"]))


def _fork_from(script: Script, op: Json) -> None:
    path, options = script.current.path, script.options(op)
    assert path is not None
    script.use(script.store.copy(path, cwd=op["cwd"], session_id=options["session_id"]))


def _export(script: Script, _: Json) -> Json:
    return {"lines": [json.loads(line) for line in script.store.export(script.current).split(b"\n") if line]}


def _raw(script: Script, op: Json) -> None:
    path = script.current.path
    assert path is not None
    with path.open("ab") as file:
        file.write(op["text"].encode())


def _remove_file(script: Script, _: Json) -> None:
    path = script.current.path
    assert path is not None
    path.unlink()


OPS: dict[str, Callable[[Script, Json], Json]] = {
    "create": _create,
    "newSession": _create,
    "inMemory": _in_memory,
    "reopen": _reopen,
    "message": lambda script, op: script.current.append_message(message_from_wire(op["message"])),
    "thinking": lambda script, op: script.current.append_thinking_level_change(op["level"]),
    "model": lambda script, op: script.current.append_model_change(op["provider"], op["modelId"]),
    "usage": _usage_entry,
    "compaction": _compaction,
    "custom": lambda script, op: script.current.append_custom(op["customType"], _optional(op, "data")),
    "customMessage": _custom_message,
    "name": lambda script, op: script.current.set_name(op["name"]),
    "label": lambda script, op: script.current.set_label(op["target"], op.get("label")),
    "edit": lambda script, op: script.current.append_context_edit(
        op["target"], edit_content_from_wire(op["replacement"])
    ),
    "branch": lambda script, op: script.current.branch(op["to"]),
    "resetLeaf": lambda script, op: script.current.reset_leaf(),
    "branchWithSummary": _branch_with_summary,
    "fork": _fork,
    "forkFrom": _fork_from,
    "export": _export,
    "raw": _raw,
    "removeFile": _remove_file,
    "check": lambda script, op: script.check(op),
}

"""Every event and every command, as bytes of a real child: none that the schema knows is only promised."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
from tests.modes.children import SOURCE, Place, served, started
from tests.modes.rpc.talk import Record, Talk
from tests.providers.fake_server import Answer, Hold, Refuse

from antiphon.modes.rpc.protocol import COMMANDS
from antiphon.modes.rpc.schema import FILE

SCHEMA = json.loads(FILE.read_bytes())
FULL = 10_000_000
BY_A_HOST = {"approval_requested", "approval_answered", "extension_error", "extension_ui_request"}
"""What only a program of somebody else can bring about."""


def known_types() -> set[str]:
    kinds = SCHEMA["record"]["oneOf"]
    found = [SCHEMA["$defs"][kind["$ref"].rsplit("/", 1)[1]]["properties"]["type"] for kind in kinds]
    return {(kind.get("enum") or [kind.get("const")])[0] for kind in found}


def fits(records: list[Record]) -> None:
    validator = jsonschema_rs.validator_for({"$defs": SCHEMA["$defs"], **SCHEMA["record"]})
    for record in records:
        validator.validate(record)


class Commands(Talk):
    """A talk that knows which commands were answered with success."""

    done: set[str]

    async def ask(self, type_: str, **fields: Any) -> Any:
        self.done = getattr(self, "done", set()) | {type_}
        return await super().ask(type_, **fields)

    async def run(self, type_: str, **fields: Any) -> None:
        """Something that starts a run, and its end."""
        self.since = len(self.records)
        await self.ask(type_, **fields)
        await self.event("agent_settled")


async def test_every_event_and_command_of_the_command(place: Place) -> None:
    (place.cwd / ".antiphon" / "prompts").mkdir(parents=True)
    (place.cwd / ".antiphon" / "prompts" / "greet.md").write_text("Say hello to $1")
    place.settings(retry={"baseDelayMs": 1}, compaction={"keepRecentTokens": 1})
    first, second = Hold(Answer(text="Summary")), Hold(Answer(text="Branch"))
    first.gate.set()
    script = [
        Refuse(503, "overloaded"),
        Answer(text="thinking", thinking="hm", calls=(("bash", {"command": "echo one"}),)),
        Answer(text="long " * 200, input_tokens=FULL),
        Refuse(503, "overloaded"),
        first,
    ]
    async with (
        served(place, *script) as server,
        started(place, "--mode", "rpc", "--max-turns", "5", "-a") as child,
    ):
        talk = Commands(child)
        await talk.run("prompt", message="/greet Ada")
        state = await talk.ask("get_state")
        await reads(talk, place)
        await settings(talk)
        entries = (await talk.ask("get_entries"))["entries"]
        said = next(e for e in entries if e["type"] == "message" and e["message"]["role"] == "user")
        server.script.append(second)
        second.gate.set()
        moved = await talk.ask("navigate_tree", targetId=said["id"], summarize=True, label="back")
        assert moved["editorText"] == "Say hello to Ada"
        assert moved["summaryEntry"]["type"] == "branch_summary"
        await talk.run("prompt", message="again")
        await talk.ask("steer", message="left")
        await talk.ask("follow_up", message="right")
        assert (await talk.ask("clear_queue")) == {"steering": ["left"], "followUp": ["right"]}
        await aborts(talk, server)
        await talk.ask("bash", command="echo two")
        await talk.ask("abort_bash")
        await replacements(talk, state["sessionFile"])
        server.script += [Answer(calls=(("ls", {}),)) for _ in range(9)]
        await talk.run("prompt", message="on and on")
        records = await talk.end()

    fits(records)
    told = {record["type"] for record in records}
    assert known_types() - told == BY_A_HOST
    assert set(COMMANDS) - talk.done == {"answer_approval", "extension_ui_response"}
    assert {r["assistantMessageEvent"]["type"] for r in records if r["type"] == "message_update"} == {
        *("text_start", "text_delta", "text_end", "thinking_start", "thinking_delta", "thinking_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_end"),
    }


async def reads(talk: Commands, place: Place) -> None:
    """Commands that only look."""
    commands = (await talk.ask("get_commands"))["commands"]
    assert [(c["name"], c["source"], c["sourceInfo"]["scope"]) for c in commands] == [("greet", "prompt", "project")]
    assert {m["role"] for m in (await talk.ask("get_messages"))["messages"]} >= {"system", "compactionSummary"}
    assert (await talk.ask("get_available_models"))["models"]
    assert (await talk.ask("get_available_thinking_levels"))["levels"]
    stats = await talk.ask("get_session_stats")
    assert stats["toolCalls"] == stats["toolResults"] == 1
    assert (await talk.ask("get_tree"))["tree"]
    assert (await talk.ask("get_fork_messages", all=True))["messages"][0]["text"] == "Say hello to Ada"
    assert (await talk.ask("get_last_assistant_text"))["text"].startswith("long long")
    assert (await talk.ask("get_approvals")) == {"approvals": []}
    assert Path((await talk.ask("export_html", outputPath="page.html"))["path"]) == place.cwd / "page.html"


async def settings(talk: Commands) -> None:
    models = (await talk.ask("get_available_models"))["models"]
    reasoning = next(m for m in models if m["reasoning"] and m["api"] == "openai-completions")
    await talk.ask("set_model", provider="openai", modelId=reasoning["id"])
    await talk.ask("cycle_model")
    await talk.ask("cycle_model", direction="backward")
    await talk.ask("set_thinking_level", level="low")
    await talk.ask("cycle_thinking_level")
    await talk.ask("set_steering_mode", mode="all")
    await talk.ask("set_follow_up_mode", mode="all")
    await talk.ask("set_auto_compaction", enabled=False)
    await talk.ask("set_auto_retry", enabled=True)
    await talk.ask("set_session_name", name="tour")


async def aborts(talk: Commands, server: Any) -> None:
    """What stops something; each is accepted when there is nothing to stop, and does it when there is."""
    held = Hold(Answer(text="never"))
    server.script.append(held)
    talk.since = len(talk.records)
    await talk.send({"id": "c", "type": "compact"})
    await asyncio.wait_for(held.held.wait(), 20)
    await talk.ask("abort_compaction")
    assert (await talk.answer("c"))["success"] is False
    server.script.append(Answer(text="A summary"))
    assert (await talk.ask("compact"))["summary"].startswith("A summary")
    await talk.ask("abort_branch_summary")
    await talk.ask("abort_retry")
    await talk.ask("abort")


async def replacements(talk: Commands, file: str) -> None:
    assert await talk.ask("new_session") == {"cancelled": False}
    assert await talk.ask("switch_session", sessionPath=file) == {"cancelled": False}
    (point, *_) = (await talk.ask("get_fork_messages"))["messages"]
    assert await talk.ask("clone") == {"cancelled": False}
    assert (await talk.ask("fork", entryId=point["entryId"]))["cancelled"] is False


async def test_approvals_dialogs_and_failures_of_a_host(tmp_path: Path) -> None:
    """Our RPC mode served by a program of somebody else."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.modes.rpc.host", str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=SOURCE.parent,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"},
    )
    records: list[Record] = []
    assert process.stdin is not None
    assert process.stdout is not None

    def send(**command: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")

    async def until(**wanted: Any) -> Record:
        assert process.stdout is not None
        while True:
            line = await asyncio.wait_for(process.stdout.readline(), 60)
            assert line, records[-3:]
            records.append(json.loads(line))
            if wanted.items() <= records[-1].items():
                return records[-1]

    send(id="c", type="get_commands")
    assert (await until(id="c"))["data"]["commands"][0]["name"] == "hello"
    send(id="f", type="prompt", message="/fail")
    error = await until(type="extension_error")
    assert "no such thing" in error["error"]
    assert (await until(id="f"))["data"] == {"disposition": "handled"}

    send(id="h", type="prompt", message="/hello you")
    for method, answer in (
        ("select", {"value": "b"}),
        ("confirm", {"confirmed": True}),
        ("input", {"cancelled": True}),
        ("editor", {"value": "text"}),
    ):
        asked = await until(type="extension_ui_request", method=method)
        send(type="extension_ui_response", id=asked["id"], **answer)
    told = await until(type="extension_ui_request", method="notify")
    assert told["message"] == "['b', True, None, 'text']"
    assert (await until(id="h"))["data"] == {"disposition": "handled"}
    methods = {r["method"] for r in records if r["type"] == "extension_ui_request"}
    assert methods == {
        *("notify", "setStatus", "setWidget", "setTitle", "set_editor_text", "select", "confirm", "input", "editor")
    }

    send(id="p", type="prompt", message="go")
    one, two = await until(type="approval_requested"), await until(type="approval_requested")
    send(id="g", type="get_approvals")
    waiting = (await until(id="g"))["data"]["approvals"]
    assert [found["id"] for found in waiting] == [one["id"], two["id"]]
    send(id="n", type="answer_approval", approvalId=two["id"], approved=False, reason="not now")
    await until(type="approval_answered", id=two["id"])
    assert (await until(id="n"))["success"] is True
    send(id="y", type="answer_approval", approvalId=one["id"], approved=True)
    await until(type="agent_settled")
    fits([record for record in records if record["type"] != "extension_ui_request"])
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert {record["type"] for record in records} >= BY_A_HOST

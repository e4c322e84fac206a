"""RPC over the standard streams of a real child: framing, answers, races, ends of the line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.modes.children import Place, served, started
from tests.modes.rpc.talk import SLOW, talking, user_texts
from tests.providers.fake_server import Answer, Refuse


async def test_a_prompt_is_answered_before_its_run_begins(place: Place) -> None:
    async with talking(place, Answer(text="Hello")) as (talk, _):
        await talk.send({"id": "p", "type": "prompt", "message": "hi"})
        await talk.event("agent_settled")
        records = await talk.end()
    assert records[0] == {
        "id": "p",
        "type": "response",
        "command": "prompt",
        "success": True,
        "data": {"disposition": "started"},
    }
    assert records[1]["type"] == "agent_start"
    assert [r["type"] for r in records].count("agent_settled") == 1


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"42",
        b"[]",
        b'"x"',
        b"{}",
        b"{",
        b"",
        b"\0",
        b'{"type":"bash"}',
        b'{"type":"prompt","message":7}',
        b'{"type":"set_steering_mode","mode":"bogus"}',
        b"[" * 200_000,
        b'{"type":"prompt","message":"' + b"x" * (10 * 1024 * 1024) + b'"}',
        b'{"type":"prompt","message":"\\ud83d',
    ],
)
async def test_nonsense_is_answered_and_life_goes_on(place: Place, line: bytes) -> None:
    async with talking(place) as (talk, _):
        await talk.send(line + b"\n", {"id": 1, "type": "get_state"})
        await talk.answer(1)
        first = talk.records[0]
        assert (first["type"], first["success"]) == ("response", False)
        await talk.end()


async def test_half_lines_carriage_returns_and_a_last_line_without_an_end(place: Place) -> None:
    async with talking(place) as (talk, _):
        await talk.send(b'{"id":1,"type":"get')
        await talk.send(b'_state"}\r\n{"id":2,"type":"get_state"}\n')
        await talk.answer(1)
        await talk.answer(2)
        await talk.send(b'{"id":3,"type":"get_state"}')
        records = await talk.end()
    assert [r["id"] for r in records] == [1, 2, 3]


async def test_texts_arrive_as_they_were_sent(place: Place) -> None:
    odd = "a\u2028b\u2029c\x85d\x0c \0 中文 \N{GRINNING FACE}"
    async with talking(place, Answer(text="ok"), Answer(text="ok")) as (talk, server):
        await talk.ask("prompt", message=odd)
        await talk.event("agent_settled")
        assert user_texts(talk.records) == [odd]
        assert server.seen[0].body["messages"][-1]["content"][0]["text"] == odd
        await talk.send(b'{"id":"half","type":"prompt","message":"\\ud83d half"}\n')
        await talk.answer("half")
        await talk.until(lambda r: talk.types().count("agent_settled") == 2)
        await talk.end()


async def test_state_models_and_messages(place: Place) -> None:
    async with talking(place, Answer(text="Hello")) as (talk, _):
        state = await talk.ask("get_state")
        assert state["isStreaming"] is False
        assert state["model"]["provider"] == "openai"
        assert (state["messageCount"], state["pendingMessageCount"]) == (0, 0)
        assert state["steeringMode"] == state["followUpMode"] == "one-at-a-time"
        assert "sessionName" not in state
        assert await talk.ask("get_last_assistant_text") == {"text": None}
        await talk.ask("prompt", message="hi")
        await talk.event("agent_settled")
        assert await talk.ask("get_last_assistant_text") == {"text": "Hello"}
        messages = (await talk.ask("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["system", "user", "assistant"]
        stats = await talk.ask("get_session_stats")
        assert (stats["userMessages"], stats["assistantMessages"], stats["tokens"]["output"]) == (1, 1, 7)
        entries = await talk.ask("get_entries")
        assert entries["entries"][-1]["id"] == entries["leafId"]
        later = await talk.ask("get_entries", since=entries["entries"][0]["id"])
        assert later["entries"] == entries["entries"][1:]
        tree = await talk.ask("get_tree")
        assert tree["leafId"] == entries["leafId"]
        assert tree["tree"][0]["entry"]["id"] == entries["entries"][0]["id"]
        models = (await talk.ask("get_available_models"))["models"]
        assert all(m["provider"] == "openai" for m in models)
        levels = await talk.ask("get_available_thinking_levels")
        assert "off" in levels["levels"]
        await talk.end()


async def test_errors_are_answers(place: Place) -> None:
    async with talking(place, Answer(text="x")) as (talk, _):
        await talk.send(
            {"id": 1, "type": "nope"},
            {"id": 2, "type": "set_model", "provider": "openai", "modelId": "no-such"},
            {"id": 3, "type": "get_entries", "since": "ffffffff"},
            {"id": 4, "type": "compact"},
            {"id": 5, "type": "fork", "entryId": "ffffffff"},
            {"id": 6, "type": "set_session_name", "name": "  "},
            {"id": 7, "type": "switch_session", "sessionPath": "/nowhere/at/all.jsonl"},
            {"id": 8, "type": "clone"},
            {"id": 9, "type": "export_html"},
        )
        answers = {n: await talk.answer(n) for n in range(1, 10)}
        assert not [a for a in answers.values() if a["success"]]
        assert answers[1]["error"] == "Unknown command: nope"
        assert answers[2]["error"] == "Model not found: openai/no-such"
        assert answers[3]["error"] == "Entry not found: ffffffff"
        assert all(
            a["error"] and "Traceback" not in a["error"] and "internal" not in a["error"] for a in answers.values()
        )
        await talk.end()


async def test_changes_are_events(place: Place) -> None:
    async with talking(place) as (talk, _):
        models = (await talk.ask("get_available_models"))["models"]
        now = (await talk.ask("get_state"))["model"]
        other = next(m for m in models if m["id"] != now["id"] and m["reasoning"])
        assert (await talk.ask("set_model", provider="openai", modelId=other["id"]))["id"] == other["id"]
        changed = await talk.event("model_changed")
        assert changed["model"]["id"] == other["id"]
        cycled = await talk.ask("cycle_model")
        assert cycled["isScoped"] is False
        await talk.ask("set_thinking_level", level="low")
        await talk.ask("set_thinking_level", level="high")
        levels = [r["level"] for r in talk.records if r["type"] == "thinking_level_changed"]
        assert levels[-1] == "high"
        assert (await talk.ask("cycle_thinking_level")) is not None
        await talk.ask("set_steering_mode", mode="all")
        await talk.ask("set_follow_up_mode", mode="all")
        await talk.ask("set_auto_compaction", enabled=False)
        await talk.ask("set_auto_retry", enabled=False)
        state = await talk.ask("get_state")
        assert (state["steeringMode"], state["followUpMode"], state["autoCompactionEnabled"]) == ("all", "all", False)
        await talk.ask("set_session_name", name="  my work ")
        assert (await talk.event("session_info_changed"))["name"] == "my work"
        await talk.end()
    assert not (place.agent / "settings.json").exists(), "without `persist` nothing is saved"


async def test_what_is_to_persist_is_saved(place: Place) -> None:
    async with talking(place) as (talk, _):
        await talk.ask("set_steering_mode", mode="all", persist=True)
        await talk.end()
    assert json.loads((place.agent / "settings.json").read_text()) == {"steeringMode": "all"}


async def test_commands_of_the_user_run_beside(place: Place) -> None:
    async with talking(place, Answer(text="ok")) as (talk, server):
        data = await talk.ask("bash", command="echo one; exit 3")
        assert (data["output"], data["exitCode"], data["cancelled"]) == ("one\n", 3, False)
        update = await talk.event("bash_execution_update")
        assert update["delta"] == "one\n"
        await talk.send({"id": 7, "type": "bash", "command": "echo seven"})
        await talk.answer(7)
        assert [r["id"] for r in talk.records if r.get("delta") == "seven\n"] == [7], "any JSON may be an id"
        await talk.ask("bash", command="echo hidden", excludeFromContext=True)
        await talk.send({"id": "long", "type": "bash", "command": "sleep 100"}, {"id": "s", "type": "get_state"})
        await talk.answer("s")
        await talk.ask("abort_bash")
        assert (await talk.answer("long"))["data"]["cancelled"] is True
        await talk.ask("prompt", message="hi")
        await talk.event("agent_settled")
        sent = json.dumps(server.seen[0].body)
        assert "echo one" in sent
        assert "hidden" not in sent
        await talk.end()


async def test_a_session_is_replaced_forked_and_cloned(place: Place) -> None:
    async with talking(place, *[Answer(text=f"answer {n}") for n in range(6)]) as (talk, _):
        first = (await talk.ask("get_state"))["sessionId"]
        await talk.ask("prompt", message="one")
        await talk.event("agent_settled")
        file = (await talk.ask("get_state"))["sessionFile"]
        points = (await talk.ask("get_fork_messages"))["messages"]
        assert [p["text"] for p in points] == ["one"]
        assert await talk.ask("fork", entryId=points[0]["entryId"]) == {"text": "one", "cancelled": False}
        assert (await talk.event("session_changed"))["reason"] == "fork"
        assert (await talk.ask("get_fork_messages"))["messages"] == []
        assert await talk.ask("new_session") == {"cancelled": False}
        assert await talk.ask("switch_session", sessionPath=file) == {"cancelled": False}
        assert (await talk.ask("get_state"))["sessionId"] == first
        assert await talk.ask("clone") == {"cancelled": False}
        state = await talk.ask("get_state")
        assert state["sessionId"] != first
        assert state["messageCount"] == 3
        page = await talk.ask("export_html")
        assert "answer 0" in Path(page["path"]).read_text()
        await talk.end()


# ---- races -----------------------------------------------------------------------------------------------------------


async def test_the_second_prompt_meets_a_run_in_progress(place: Place) -> None:
    async with talking(place, Answer(text="x")) as (talk, server):
        await talk.send({"id": 1, "type": "prompt", "message": "one"}, {"id": 2, "type": "prompt", "message": "two"})
        await talk.event("agent_settled")
        assert (await talk.answer(1))["data"] == {"disposition": "started"}
        assert (await talk.answer(2))["error"].startswith("Agent is already processing.")
        records = await talk.end()
        assert len(server.seen) == 1
    assert user_texts(records) == ["one"]
    assert [r["type"] for r in records].count("agent_settled") == 1


@pytest.mark.parametrize("behaviour", ["steer", "followUp"])
async def test_a_second_prompt_may_be_queued(place: Place, behaviour: str) -> None:
    async with talking(place, Answer(text="a"), Answer(text="b")) as (talk, server):
        await talk.send(
            {"id": 1, "type": "prompt", "message": "one"},
            {"id": 2, "type": "prompt", "message": "two", "streamingBehavior": behaviour},
        )
        await talk.event("agent_settled")
        assert (await talk.answer(2))["data"] == {"disposition": "queued"}
        records = await talk.end()
        assert len(server.seen) in (1, 2)
    assert user_texts(records) == ["one", "two"]
    updates = [r for r in records if r["type"] == "queue_update"]
    assert updates[0]["steering" if behaviour == "steer" else "followUp"] == ["two"]
    kinds = [r["type"] if r["type"] != "response" else f"answer {r['id']}" for r in records]
    assert kinds.index("queue_update") < kinds.index("answer 2")
    assert kinds.count("agent_settled") == 1
    assert updates[-1]["steering"] == updates[-1]["followUp"] == []


async def test_a_prompt_behind_new_session_belongs_to_the_new_one(place: Place) -> None:
    async with talking(place, Answer(text="x")) as (talk, _):
        await talk.send({"id": 1, "type": "new_session"}, {"id": 2, "type": "prompt", "message": "hello"})
        await talk.event("agent_settled")
        records = await talk.end()
    kinds = [r["type"] if r["type"] != "response" else f"answer {r['id']}" for r in records]
    assert kinds.index("session_changed") < kinds.index("answer 1") < kinds.index("answer 2")
    assert user_texts(records) == ["hello"]
    assert place.roles() == ["system", "user", "assistant"]


async def test_an_abort_behind_a_prompt_aborts_it(place: Place) -> None:
    async with talking(place, SLOW) as (talk, _):
        await talk.send({"id": 1, "type": "prompt", "message": "one"}, {"id": 2, "type": "abort"})
        await talk.answer(2)
        records = await talk.end()
    kinds = [r["type"] if r["type"] != "response" else f"answer {r['id']}" for r in records]
    settled = [r for r in records if r["type"] == "agent_settled"]
    assert [r["aborted"] for r in settled] == [True]
    assert kinds.index("answer 1") < kinds.index("agent_settled") < kinds.index("answer 2")


async def test_state_behind_a_prompt_says_that_it_runs(place: Place) -> None:
    async with talking(place, SLOW) as (talk, _):
        await talk.send({"id": 1, "type": "prompt", "message": "one"}, {"id": 2, "type": "get_state"})
        assert (await talk.answer(2))["data"]["isStreaming"] is True
        await talk.ask("abort")
        assert (await talk.ask("get_state"))["isStreaming"] is False
        await talk.end()


async def test_queued_messages_stay_or_go_with_an_abort(place: Place) -> None:
    async with talking(place, SLOW, SLOW, Answer(text="done")) as (talk, server):
        await talk.send({"id": 1, "type": "prompt", "message": "one"})
        await talk.event("message_update")
        await talk.send({"id": 2, "type": "steer", "message": "kept"}, {"id": 3, "type": "abort"})
        assert "data" not in await talk.answer(3)
        assert (await talk.ask("get_state"))["pendingMessageCount"] == 1
        await talk.send({"id": 4, "type": "prompt", "message": "two"})
        await talk.until(lambda r: user_texts(talk.records) == ["one", "two", "kept"])
        await talk.send({"id": 5, "type": "follow_up", "message": "gone"}, {"id": 6, "type": "abort", "queue": "clear"})
        cleared = (await talk.answer(6))["data"]
        assert cleared["followUp"] == ["gone"]
        assert (await talk.ask("get_state"))["pendingMessageCount"] == 0
        del server
        await talk.end()


async def test_a_message_queued_while_idle_waits_for_the_next_prompt(place: Place) -> None:
    async with talking(place, Answer(text="x"), Answer(text="y")) as (talk, _):
        assert await talk.ask("steer", message="first this") == {"disposition": "queued"}
        assert (await talk.ask("get_state"))["pendingMessageCount"] == 1
        assert await talk.ask("clear_queue") == {"steering": ["first this"], "followUp": []}
        assert await talk.ask("follow_up", message="then that") == {"disposition": "queued"}
        await talk.ask("prompt", message="go")
        await talk.event("agent_settled")
        assert user_texts(talk.records) == ["go", "then that"]
        await talk.end()


# ---- ends of the line -----------------------------------------------------------------------------------------------


async def test_the_end_of_input_during_a_run_tells_the_aborted_turn(place: Place) -> None:
    async with talking(place, SLOW) as (talk, _):
        await talk.ask("prompt", message="one")
        await talk.event("message_update")
        records = await talk.end()
    last = [r for r in records if r["type"] == "message_end"][-1]["message"]
    assert last["stopReason"] == "aborted"
    assert records[-1] == {"type": "agent_settled", "aborted": True}
    assert place.roles() == ["system", "user", "assistant"]


async def test_the_end_of_input_ends_an_idle_process_soon(place: Place) -> None:
    async with talking(place) as (talk, _):
        await talk.ask("get_state")
        talk.child.close_stdin()
        assert (await talk.child.done(2)).code == 0


async def test_a_reader_that_stops_reading_makes_the_run_wait(place: Place) -> None:
    """Nothing is read from a pipe: memory stays bounded, and an end of the reader ends the process with 1."""
    big = Answer(text="x" * 200_000)
    async with served(place, *[big] * 200) as server:
        reading, writing = os.pipe()
        async with started(place, "--mode", "rpc", stdout=writing) as child:
            os.close(writing)
            await child.write({"type": "prompt", "message": "go"})
            for n in range(400):
                await child.write({"id": n, "type": "get_messages"})
            for _ in range(50):
                if server.seen:
                    break
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            status = Path("/proc", str(child.process.pid), "status").read_text()
            resident = int(next(line.split()[1] for line in status.split("\n") if line.startswith("VmRSS")))
            assert resident < 150_000, f"{resident} kB"
            os.close(reading)
            done = await child.done()
    assert done.code == 1
    assert "standard output cannot be written" in done.err


async def test_a_blocked_reader_does_not_hold_up_a_signal(place: Place) -> None:
    async with served(place, *[Answer(text="x" * 500_000)] * 3):
        reading, writing = os.pipe()
        async with started(place, "--mode", "rpc", stdout=writing) as child:
            os.close(writing)
            await child.write({"type": "prompt", "message": "go"})
            await asyncio.sleep(1.0)
            child.send(signal.SIGTERM)
            done = await child.done(5)
            os.close(reading)
    assert done.code == 143


async def test_refusals_of_the_provider_are_in_the_stream(place: Place) -> None:
    async with talking(place, Refuse(401, "wrong key")) as (talk, _):
        assert await talk.ask("prompt", message="hi") == {"disposition": "started"}
        await talk.event("agent_settled")
        last = [r for r in talk.records if r["type"] == "message_end"][-1]["message"]
        assert last["stopReason"] == "error"
        await talk.end()

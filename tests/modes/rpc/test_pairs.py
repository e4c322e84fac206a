"""Every command of the line behind every other, both in one write, while idle and while a run goes on.

Each is answered once, what was accepted is said or handed back, and one `agent_settled` closes what was begun. The
default part takes a few pairs; `test_every_pair` has all of them.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import pytest
from tests.modes.children import Place
from tests.modes.rpc.talk import SLOW, Record, Talk, talking, user_texts
from tests.providers.fake_server import FakeServer

from antiphon.modes.rpc.protocol import COMMANDS

State = Literal["idle", "running"]
STATES: tuple[State, State] = ("idle", "running")
OPENER = "the run that goes on"
FIELDS: dict[str, Record] = {
    "prompt": {"message": "P"},
    "steer": {"message": "S"},
    "follow_up": {"message": "F"},
    "set_model": {"provider": "openai", "modelId": "gpt-5"},
    "set_thinking_level": {"level": "high"},
    "set_steering_mode": {"mode": "all"},
    "set_follow_up_mode": {"mode": "one-at-a-time"},
    "set_auto_compaction": {"enabled": True},
    "set_auto_retry": {"enabled": True},
    "bash": {"command": "echo $((6 * 7))"},
    "export_html": {"outputPath": "page.html"},
    "switch_session": {"sessionPath": "$FIRST"},
    "fork": {"entryId": "$SEED"},
    "navigate_tree": {"targetId": "$SEED"},
    "set_session_name": {"name": "x"},
    "answer_approval": {"approvalId": "nobody", "approved": True},
    "extension_ui_response": {"id": "nobody"},
}
VARIANTS: list[Record] = [
    *({"type": name, **FIELDS.get(name, {})} for name in COMMANDS),
    {"type": "prompt", "message": "Q", "streamingBehavior": "steer"},
    {"type": "prompt", "message": "R", "streamingBehavior": "followUp"},
    {"type": "abort", "queue": "clear"},
    {"type": "nonsense"},
]
"""Every command of the protocol, some of them in more than one form."""
REPLACING = {"new_session", "switch_session", "fork", "clone"}
MUST_FAIL = {"nonsense", "answer_approval"}


class Ring:
    """Where pairs meet: a child that is brought into the same state again and again."""

    def __init__(self, talk: Talk, server: FakeServer, place: Place) -> None:
        self.talk, self.server, self.place = talk, server, place
        self._first = ""

    async def prepare(self, state: State) -> Record:
        """A session with one answered prompt; `running`: a second one, whose answer does not end. The names in it."""
        talk = self.talk
        self.server.script.clear()
        await talk.ask("new_session")
        talk.since = len(talk.records)
        await talk.ask("prompt", message="seed")
        await talk.event("agent_settled")
        (point,) = (await talk.ask("get_fork_messages"))["messages"]
        self._first = self._first or (await talk.ask("get_state"))["sessionFile"]
        if state == "running":
            talk.since = len(talk.records)
            self.server.script.append(SLOW)
            await talk.ask("prompt", message=OPENER)
            await talk.event("message_update")
        else:
            talk.since = len(talk.records)
        return {"$FIRST": self._first, "$SEED": point["entryId"]}

    async def race(self, state: State, first: Record, second: Record) -> None:
        """Both commands in one write, then quiet."""
        talk, names = self.talk, await self.prepare(state)
        pair = [named(f"{letter}{talk.since}", c, names) for letter, c in (("a", first), ("b", second))]
        await talk.send(*pair)
        answered = [command for command in pair if command["type"] != "extension_ui_response"]
        for command in answered:
            await talk.answer(command["id"])
        cleared = await talk.ask("abort", queue="clear")
        assert (await talk.ask("get_state"))["isStreaming"] is False
        judge(state, talk.records[talk.since :], answered, cleared)


def named(id_: str, command: Record, names: Record) -> Record:
    """A command of a pair: with an id, words of its own, and the names of this session."""
    given = {key: names.get(value, value) if isinstance(value, str) else value for key, value in command.items()}
    return {"id": id_, **given, **({"message": id_ + given["message"]} if "message" in given else {})}


def judge(state: State, records: list[Record], pair: list[Record], cleared: Record) -> None:
    """What must hold of everything that was told of a pair."""
    told = [r.get("id") or r["type"] for r in records]
    about = (state, [c["type"] for c in pair], [t for t in told if t != "message_update"])
    answers = {c["id"]: [r for r in records if r["type"] == "response" and r.get("id") == c["id"]] for c in pair}
    assert all(len(found) == 1 for found in answers.values()), about
    answer = {id_: found for id_, (found,) in answers.items()}
    said = user_texts(records)
    back = [*words(cleared), *(text for r in answer.values() for text in words(r.get("data")))]
    begun = int(state == "running")
    for command in pair:
        id_, kind, given = command["id"], command["type"], answer[command["id"]]
        assert given["success"] is True or given["error"], about
        assert given["success"] is False or kind not in MUST_FAIL, about
        disposition = (given.get("data") or {}).get("disposition") if kind in ("prompt", "steer", "follow_up") else None
        if disposition in ("started", "queued"):
            assert [*said, *back].count(command["message"]) == 1, about
        if disposition == "started":
            begun += 1
            assert "agent_start" in told[told.index(id_) :], about
        if disposition == "queued":
            assert "queue_update" in told[: told.index(id_)], about
        if kind == "abort" and begun:
            assert "agent_start" not in told[told.index(id_) :] or pair[-1] is not command, about
        if kind == "bash" and given["success"]:
            assert given["data"]["cancelled"] or given["data"]["output"] == "42\n", about
        if kind in REPLACING and given["success"]:
            assert "session_changed" in told[: told.index(id_)] or kind == "switch_session", about
    settled = [number for number, name in enumerate(told) if name == "agent_settled"]
    starts = [number for number, name in enumerate(told) if name == "agent_start"]
    assert len(settled) == begun, about
    assert not begun or settled[-1] > starts[-1], about
    assert said.count(OPENER) == int(state == "running"), about


def words(data: Any) -> list[str]:
    """Queued messages that an answer hands back."""
    if not isinstance(data, dict):
        return []
    found = data if "steering" in data else data.get("dropped", {})
    return [*found.get("steering", ()), *found.get("followUp", ())]


async def meet(place: Place, state: State, pairs: list[tuple[Record, Record]]) -> None:
    async with talking(place) as (talk, server):
        ring = Ring(talk, server, place)
        faults: list[str] = []
        for first, second in pairs:
            try:
                await ring.race(state, first, second)
            except AssertionError as fault:
                faults.append(str(fault))
        await talk.end()
    assert not faults, "\n\n".join(faults)


def test_every_command_is_in_the_ring() -> None:
    assert {variant["type"] for variant in VARIANTS} == {*COMMANDS, "nonsense"}


@pytest.mark.parametrize("state", STATES)
async def test_some_pairs(place: Place, state: State) -> None:
    """A prompt with what stops, queues and replaces; the others by name."""
    near = [v for v in VARIANTS if v["type"] in ("abort", "steer", "new_session", "prompt", "compact", "nonsense")]
    prompt = VARIANTS[0]
    await meet(place, state, [pair for other in near for pair in ((prompt, other), (other, prompt))])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("state", STATES)
async def test_every_pair(place: Place, state: State) -> None:
    pairs = list(product(VARIANTS, VARIANTS))
    for start in range(0, len(pairs), len(VARIANTS)):
        await meet(place, state, pairs[start : start + len(VARIANTS)])
    print(f"{state}: {len(pairs)} ordered pairs of {len(VARIANTS)} commands")

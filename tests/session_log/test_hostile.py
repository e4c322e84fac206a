"""Files that are valid JSON and nonsense otherwise: every reader of the log still gives an answer."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.session_log.make import counting_sources, forty_entries, history

from antiphon.core.messages import message_to_wire
from antiphon.errors import SessionError
from antiphon.session_log import SessionStore
from antiphon.session_log.branches import prepare_branch
from antiphon.session_log.compaction import CompactionSettings, prepare
from antiphon.session_log.convert import to_model_messages
from antiphon.session_log.export import session_html, session_markdown
from antiphon.session_log.totals import context_usage, totals

ODD: list[Any] = [None, True, 0, -1, 1e300, "", "x", "\ud800", [], [1], {}, {"a": 1}, [None], {"role": "user"}, "user"]


def mutated(value: Any, dice: random.Random, chance: float) -> Any:
    """The value with odd things in random places, members missing and members added."""
    if dice.random() < chance:
        return dice.choice(ODD)
    if isinstance(value, list):
        return [mutated(item, dice, chance) for item in value]
    if isinstance(value, dict):
        kept = {k: mutated(v, dice, chance) for k, v in value.items() if dice.random() > chance / 2}
        return {**kept, "surplus": 1} if dice.random() < chance else kept
    return value


@pytest.mark.parametrize("seed", range(60))
def test_no_reader_fails(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    store = SessionStore(tmp_path, cwd="/proj", sources=counting_sources(), durability="fast")
    with forty_entries(store) as log:
        assert log.path is not None
        header, *lines = [json.loads(line) for line in log.path.read_bytes().split(b"\n") if line]
    path = tmp_path / "odd.jsonl"
    odd = [json.dumps(mutated(line, dice, 0.08)) for line in lines]
    path.write_text("\n".join([json.dumps(header), *odd, ""]), encoding="utf-8")

    with store.open(path) as log:
        for told in (log.messages(), to_model_messages(log.messages())):
            assert all(isinstance(message_to_wire(message), dict) for message in told)
        history(log)
        log.tree()
        assert isinstance(log.context_tokens().tokens, int)
        preparation = prepare(log.projection(), CompactionSettings(True, 10, 10))
        if preparation is not None:
            assert preparation.requests("focus")
        prepare_branch(log.path_entries(), 100).request()
        assert session_html(log).endswith("</html>")
        session_markdown(log)
        totals(log.entries())
        context_usage(log.projection(), 1000)
        log.close_open_calls()
        fork = store.fork(log, log.leaf_id)
        assert fork.path_ids()
        store.export(log)
        fork.close()
    store.listing()
    list(store.search("question"))


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_are_refused_or_opened(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    store = SessionStore(tmp_path, cwd="/proj")
    for number in range(20):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(dice.randbytes(dice.randrange(200)))
        with suppress(SessionError):
            store.open(path).close()
    store.listing()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    store = SessionStore(tmp_path, cwd="/proj", sources=counting_sources())
    with pytest.raises(SessionError, match="no regular file"):
        store.open(pipe, access="read")

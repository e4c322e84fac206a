#!/usr/bin/env python3
"""What the session log costs: appending, opening, turns, edits and lists, each beside its target.

    python bench/session_log.py [--entries 100000] [--folder DIR]

Makes its sessions in a temporary folder (about 250 MB at the default size) and removes them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, user
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.index_file import index_path

WORDS = "word " * 385
MEMORY = """
import resource, sys
from pathlib import Path
from antiphon.session_log import SessionStore

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

path = Path(sys.argv[1])
with SessionStore(path.parent, cwd="/").in_memory() as small:
    small.messages()
before = resident()
with SessionStore(path.parent, cwd="/").open(path, access="read") as log:
    assert len(log.messages()) == 2
    print(resident() - before)
"""
CHILD: dict[str, Any] = {"env": {"PYTHONPATH": sys.path[0]}, "capture_output": True, "text": True, "check": True}


def answer(text: str) -> AssistantMessage:
    return AssistantMessage(content=(Text(text=text),), stop_reason="stop", provider="p", model="m")


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def best(act: Callable[[], object], times: int = 3) -> float:
    return min(seconds(act) for _ in range(times))


def report(what: str, value: float, unit: str, target: str = "") -> None:
    print(f"{what:<58} {value:>10.2f} {unit:<3} {target}")


def talk(log: SessionLog, entries: int, words: str = "") -> float:
    """Append so many messages; microseconds for each."""

    def act() -> None:
        for number in range(entries // 2):
            log.append_message(user(f"question {number} {words}", number))
            log.append_message(answer(f"answer {number} {words}"))

    return seconds(act) / entries * 1e6


def tool_turns(folder: Path, turns: int) -> list[float]:
    """A run of tool turns as a session makes them; seconds of each."""
    log = SessionStore(folder / str(turns), cwd="/", durability="fast").create()
    log.append_message(user("go"))

    def turn(number: int) -> None:
        call = ToolCall(id=f"c{number}", name="t", arguments={})
        log.append_message(AssistantMessage(content=(call,), stop_reason="toolUse", provider="p", model="m"))
        log.append_call_started(call, 0)
        log.append_message(
            ToolResultMessage(tool_call_id=call.id, tool_name="t", content=(Text(text="ok"),), is_error=False)
        )
        assert len(log.messages()) == 2 * number + 3
        assert log.open_calls() == []
        log.context_tokens()

    return [seconds(lambda number=number: turn(number)) for number in range(turns)]


def bench_append(store: SessionStore) -> None:
    report("append, nothing asked of the log", talk(store.create(), 20_000), "us", "< 50 (fast)")
    log = store.create()
    log.messages()
    report("append, context kept up to date", talk(log, 20_000), "us", "< 50 (fast)")
    with SessionStore(store.folder, cwd="/", durability="sync").create() as synced:
        report("append, synced every time", talk(synced, 200), "us")


def bench_history(store: SessionStore) -> None:
    log = store.create()
    for size in (1_000, 10_000, 60_000):
        talk(log, size - log.entry_count)
        log.messages()

        def turn(log: SessionLog = log) -> None:
            log.append_message(answer("x"))
            log.messages()

        def edit(log: SessionLog = log) -> None:
            log.append_context_edit(log.leaf_id or "", None)
            log.messages()
            log.context_tokens()

        log.context_tokens()
        report(f"one turn behind {size:,} messages", best(turn, 50) * 1e6, "us", "flat")
        cost = []
        for _ in range(20):
            turn()
            cost.append(seconds(edit))
        report(f"one edit behind {size:,} messages", min(cost) * 1e6, "us", "flat but for a copy of references")


def bench_turns(folder: Path) -> None:
    for turns in (250, 500, 1_000, 2_000):
        report(f"{turns:,} tool turns", sum(tool_turns(folder, turns)) * 1e3, "ms")
    runs = [tool_turns(folder / str(run), 2_000) for run in range(5)]
    turn = [min(times) for times in zip(*runs, strict=True)]
    report("the last 200 of 2,000 turns over the first 200", sum(turn[-200:]) / sum(turn[:200]), "x", "< 1.2")


def bench_open(store: SessionStore, entries: int) -> None:
    log = store.create()
    talk(log, entries, WORDS)
    path = log.path
    assert path is not None
    log.close()
    report(f"a session of {entries:,} entries", path.stat().st_size / 1e6, "MB")
    report("open with index", best(lambda: store.open(path).close()) * 1e3, "ms", "< 100")
    index_path(path).unlink()
    cold = []
    for _ in range(3):
        start = time.perf_counter()
        log = store.open(path, access="read")
        cold.append(time.perf_counter() - start)
        log.close()
    report("open without index", min(cold) * 1e3, "ms", "< 1000")
    with store.open(path) as log:
        report("all messages of it", seconds(log.messages) * 1e3, "ms")
        log.append_compaction("summary", log.leaf_id, 1000)

    def compacted() -> None:
        with store.open(path, access="read") as log:
            assert len(log.messages()) == 2
            assert log.settings.model is not None

    report("open with index and compaction, with its context", best(compacted) * 1e3, "ms", "< 100")
    megabytes = float(subprocess.run([sys.executable, "-c", MEMORY, str(path)], **CHILD).stdout)
    report("memory of it, opened with its context", megabytes, "MB", "follows the entries, not their size")


def bench_list(folder: Path) -> None:
    store = SessionStore(folder, cwd="/", durability="fast")
    for number in range(1_000):
        with store.create() as log:
            talk(log, 20)
            log.set_name(f"session {number}")
    report("list of 1,000 sessions, the first time", seconds(store.listing) * 1e3, "ms", "< 200")
    report("list of 1,000 sessions, again", best(store.listing) * 1e3, "ms", "< 200")
    report("search in 1,000 sessions", seconds(lambda: list(store.search("answer 9"))) * 1e3, "ms")


def main() -> None:
    parser = argparse.ArgumentParser(description="What the session log costs.")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        store = SessionStore(folder / "log", cwd="/", durability="fast")
        bench_append(store)
        bench_history(store)
        bench_turns(folder)
        bench_list(folder / "list")
        bench_open(store, asked.entries)


if __name__ == "__main__":
    main()

"""Numbers of a conversation, and small things one may ask of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.session.stage import LONG, MODEL, Stage

from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, user
from antiphon.core.session_events import SessionInfoChanged
from antiphon.core.usage import Cost, Usage
from antiphon.core.wire import to_wire
from antiphon.errors import ConfigurationError
from antiphon.testing import calls, fails, says

USED = Usage(input=10, output=5, total_tokens=15, cost=Cost(total=0.25))


async def test_counts_go_over_the_whole_log_and_grow_with_it() -> None:
    stage = Stage([calls("A").costing(USED), says("done").costing(USED), says("more").costing(USED)])
    await stage.session.prompt("go")
    stats = to_wire(stage.session.get_session_stats())
    assert {
        k: stats[k] for k in ("userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages")
    } == {
        "userMessages": 1,
        "assistantMessages": 2,
        "toolCalls": 1,
        "toolResults": 1,
        "totalMessages": 5,
    }
    assert stats["tokens"] == {"input": 20, "output": 10, "cacheRead": 0, "cacheWrite": 0, "total": 30}
    assert stats["cost"] == 0.5
    assert stats["contextUsage"] == {"tokens": 15, "contextWindow": 100_000, "percent": 0.015}
    assert "sessionFile" not in stats
    await stage.session.prompt("go")
    assert stage.session.get_session_stats().assistant_messages == 3


async def test_the_context_is_unknown_after_a_compaction_and_without_a_window() -> None:
    stage = Stage([says(LONG), says(LONG), says("S"), says("S")])
    await stage.session.prompt(LONG)
    await stage.session.prompt(LONG)
    await stage.session.compact()
    usage = stage.session.get_context_usage()
    assert usage is not None
    assert (usage.tokens, usage.percent) == (None, None)

    blind = Stage(models=(structs.replace(MODEL, context_window=0),), model=structs.replace(MODEL, context_window=0))
    assert blind.session.get_context_usage() is None


def answer(text: str, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=(Text(text=text),) if text else (), **{"stop_reason": "stop", **fields})


@pytest.mark.not_replayed("its history is made by hand")
@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([], None),
        ([answer("one"), answer("", stop_reason="error")], "one"),
        ([answer("one"), answer("cut", stop_reason="length")], "cut"),
        ([answer("one"), answer("")], None),
        ([answer("one"), answer("  ")], None),
    ],
)
async def test_the_last_answer_with_words(history: list[Any], text: str | None) -> None:
    stage = Stage(history=[user("go"), *history])
    assert stage.session.get_last_assistant_text() == text


async def test_a_name_is_trimmed_and_told() -> None:
    stage = Stage()
    stage.session.set_session_name("  My\nsession ")
    assert stage.session.session_name == "My session"
    assert [event.name for event in stage.of(SessionInfoChanged)] == ["My session"]
    with pytest.raises(ConfigurationError, match="cannot be empty"):
        stage.session.set_session_name("  ")


async def test_a_page_to_read_is_written(tmp_path: Path) -> None:
    stage = Stage([says("hello there")])
    await stage.session.prompt("hi")
    stage.session.export_to_html(str(tmp_path / "out.html"))
    assert "hello there" in (tmp_path / "out.html").read_text(encoding="utf-8")


async def test_what_a_session_says_of_itself(tmp_path: Path) -> None:
    stage = Stage([fails("401")], folder=tmp_path)
    session = stage.session
    assert (session.is_idle, session.is_streaming, session.phase) == (True, False, "idle")
    assert session.session_file == str(stage.log.path)
    assert session.auto_retry_enabled
    session.set_auto_retry_enabled(False)
    session.set_auto_compaction_enabled(False)
    assert not session.auto_retry_enabled
    assert not session.auto_compaction_enabled
    await session.prompt("x")
    assert session.state.error_message == "401"
    assert session.session_id in repr(session)
    async with session:
        pass
    assert session.phase == "disposed"

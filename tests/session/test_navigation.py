"""Going to another place in the tree, with or without a summary of what is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.session.stage import Stage, texts

from antiphon.session.hooks import SessionHooks, TreeAnswer, TreeGiven
from antiphon.session.refusals import CompactionInProgress, SessionBusy
from antiphon.session_log.compaction import SummaryRefused
from antiphon.session_log.refusals import NoSuchEntry
from antiphon.testing import Gate, fails, falls_silent, says, settle


async def talked(*more: Any, **options: Any) -> Stage:
    """Two questions and two answers."""
    stage = Stage([says("a1"), says("a2"), *more], **options)
    await stage.session.prompt("one")
    await stage.session.prompt("two")
    return stage


def entry(stage: Stage, text: str) -> str:
    """The entry in which somebody said this."""
    for found in stage.log.entries():
        message = getattr(found, "message", None)
        if message is not None and texts([message])[:1] == [text]:
            return found.id
    raise LookupError(text)


async def test_a_message_of_the_user_is_handed_back_and_one_stands_before_it() -> None:
    stage = await talked(says("b2"))
    done = await stage.session.navigate_tree(entry(stage, "user: two"))
    assert (done.editor_text, done.cancelled) == ("two", False)
    assert texts(stage.session.messages) == ["user: one", "assistant: a1"]
    await stage.session.prompt("other")
    assert texts(stage.session.messages)[-2:] == ["user: other", "assistant: b2"]


async def test_anything_else_is_continued_behind() -> None:
    stage = await talked()
    assert (await stage.session.navigate_tree(entry(stage, "assistant: a1"))).editor_text is None
    assert stage.log.leaf_id == entry(stage, "assistant: a1")


async def test_staying_where_one_is_changes_nothing() -> None:
    stage = await talked()
    leaf = stage.log.leaf_id
    assert leaf is not None
    before = stage.kinds
    await stage.session.navigate_tree(leaf)
    assert stage.kinds == before


async def test_a_summary_of_what_is_left_goes_along_and_carries_the_label() -> None:
    stage = await talked(says("LEFT"))
    done = await stage.session.navigate_tree(
        entry(stage, "assistant: a1"), summarize=True, custom_instructions="the bugs", label="back"
    )
    assert done.summary_entry is not None
    assert done.summary_entry.summary.endswith("LEFT")
    assert stage.log.label(done.summary_entry.id) == "back"
    assert "the bugs" in str(stage.model.asked[-1])
    assert "branchSummary" in [message.role for message in stage.session.messages]


async def test_a_failed_summary_leaves_everything_where_it_was() -> None:
    stage = await talked(fails("401 Unauthorized"))
    leaf = stage.log.leaf_id
    with pytest.raises(SummaryRefused, match="401"):
        await stage.session.navigate_tree(entry(stage, "assistant: a1"), summarize=True)
    assert stage.log.leaf_id == leaf
    assert stage.session.is_idle


async def test_a_summary_can_be_cancelled() -> None:
    stage = await talked(falls_silent(says("x")))
    leaf = stage.log.leaf_id
    going = asyncio.ensure_future(stage.session.navigate_tree(entry(stage, "assistant: a1"), summarize=True))
    while len(stage.model.requests) < 3:
        await settle()
    assert stage.session.phase == "summarizing"
    with pytest.raises(CompactionInProgress):
        await stage.session.prompt("now")
    stage.session.abort_branch_summary()
    assert (await going).cancelled
    assert stage.log.leaf_id == leaf


async def test_nobody_moves_while_a_run_goes_on() -> None:
    gate = Gate()
    stage = Stage([says("slow").held(gate)])
    going = asyncio.ensure_future(stage.session.prompt("one"))
    await stage.until("turn_start")
    with pytest.raises(SessionBusy):
        await stage.session.navigate_tree("anything")
    gate.open()
    await going
    with pytest.raises(NoSuchEntry):
        await stage.session.navigate_tree("ghost")
    assert stage.session.is_idle


async def test_an_extension_may_refuse_or_give_the_summary() -> None:
    answers: list[Any] = [TreeAnswer(cancel=True), TreeAnswer(summary="mine")]

    def before(given: TreeGiven) -> TreeAnswer:
        assert len(given.entry_ids) == 2
        answer: TreeAnswer = answers.pop(0)
        return answer

    stage = await talked(hooks=SessionHooks(before_tree=before))
    target = entry(stage, "assistant: a1")
    assert (await stage.session.navigate_tree(target)).cancelled
    done = await stage.session.navigate_tree(target)
    assert done.summary_entry is not None
    assert done.summary_entry.summary == "mine"
    assert done.summary_entry.from_hook is True


async def test_the_model_of_the_moment_is_recorded_on_the_other_branch() -> None:
    stage = await talked(says("b2"))
    stage.session.set_model("scripted/two")
    await stage.session.navigate_tree(entry(stage, "user: two"))
    await stage.session.prompt("other")
    settings = stage.log.settings
    assert settings.model is not None
    assert settings.model.model_id == "two"


async def test_labels_name_entries() -> None:
    stage = await talked()
    target = entry(stage, "user: one")
    stage.session.set_label(target, "start")
    assert stage.log.label(target) == "start"
    stage.session.set_label(target, None)
    assert stage.log.label(target) is None

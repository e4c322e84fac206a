"""Questions of extensions on the wire: what goes out, what an answer, a dismissal and a time limit give."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest

from antiphon.loop.abort import AbortController
from antiphon.modes.rpc.dialogs import Dialogs
from antiphon.modes.rpc.protocol import Asked, UiAnswer, read_command


class Line:
    """What goes out, and how it is answered."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.dialogs = Dialogs(lambda data: self.records.append(json.loads(data)))

    def answer(self, **fields: Any) -> None:
        found = read_command(json.dumps({"type": "extension_ui_response", **fields}).encode())
        assert isinstance(found, Asked)
        assert isinstance(found.command, UiAnswer)
        self.dialogs.answer(found.command)

    async def asked(self, question: Any, **fields: Any) -> Any:
        """The answer to a question that is answered with these fields."""
        task = asyncio.ensure_future(question)
        await asyncio.sleep(0)
        self.answer(id=self.records[-1]["id"], **fields)
        return await task


@pytest.fixture
def line() -> Line:
    return Line()


async def test_the_four_questions(line: Line) -> None:
    ui = line.dialogs
    assert await line.asked(ui.select("Which?", ["a", "b"]), value="b") == "b"
    assert await line.asked(ui.confirm("Sure?", "really"), confirmed=True) is True
    assert await line.asked(ui.input("Name?", "you"), value="me") == "me"
    assert await line.asked(ui.editor("Text", "old"), value="new") == "new"
    shapes = [{k: v for k, v in record.items() if k != "id"} for record in line.records]
    assert shapes == [
        {"type": "extension_ui_request", "method": "select", "title": "Which?", "options": ["a", "b"]},
        {"type": "extension_ui_request", "method": "confirm", "title": "Sure?", "message": "really"},
        {"type": "extension_ui_request", "method": "input", "title": "Name?", "placeholder": "you"},
        {"type": "extension_ui_request", "method": "editor", "title": "Text", "prefill": "old"},
    ]
    for record in line.records:
        uuid.UUID(record["id"])


async def test_dismissed_questions_have_defaults(line: Line) -> None:
    ui = line.dialogs
    assert await line.asked(ui.select("Which?", ["a"]), cancelled=True) is None
    assert await line.asked(ui.confirm("Sure?", ""), cancelled=True) is False
    assert await line.asked(ui.input("Name?"), value=7) is None
    assert await line.asked(ui.confirm("Sure?", ""), value="yes") is False


async def test_the_agent_owns_the_time_limit(line: Line) -> None:
    assert await line.dialogs.select("Which?", ["a"], seconds=0.01) is None
    assert line.records[0]["timeout"] == 10
    line.answer(id=line.records[0]["id"], value="too late")


async def test_an_abort_dismisses(line: Line) -> None:
    controller = AbortController()
    task = asyncio.create_task(line.dialogs.confirm("Sure?", "", signal=controller.signal))
    await asyncio.sleep(0)
    controller.abort()
    assert await task is False
    assert await line.dialogs.input("Name?", signal=controller.signal) is None
    assert len(line.records) == 1


async def test_the_end_of_the_line_dismisses_everything(line: Line) -> None:
    tasks = [asyncio.create_task(line.dialogs.input("Name?")), asyncio.create_task(line.dialogs.editor("Text"))]
    await asyncio.sleep(0)
    line.dialogs.close()
    assert await asyncio.gather(*tasks) == [None, None]


async def test_an_unknown_answer_means_nothing(line: Line) -> None:
    line.answer(id="nobody", value="x")


def test_tellings(line: Line) -> None:
    ui = line.dialogs
    ui.notify("hello", "warning")
    ui.set_status("k", "busy")
    ui.set_status("k", None)
    ui.set_widget("w", ["a", "b"], "belowEditor")
    ui.set_widget("w", None)
    ui.set_title("t")
    ui.set_editor_text("x")
    shapes = [{k: v for k, v in record.items() if k not in ("id", "type")} for record in line.records]
    assert shapes == [
        {"method": "notify", "message": "hello", "notifyType": "warning"},
        {"method": "setStatus", "statusKey": "k", "statusText": "busy"},
        {"method": "setStatus", "statusKey": "k"},
        {"method": "setWidget", "widgetKey": "w", "widgetLines": ["a", "b"], "widgetPlacement": "belowEditor"},
        {"method": "setWidget", "widgetKey": "w"},
        {"method": "setTitle", "title": "t"},
        {"method": "set_editor_text", "text": "x"},
    ]

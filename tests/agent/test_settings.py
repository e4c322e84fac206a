"""What an agent is given is refused where it is given, with what it is, where, and what to give instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from antiphon import Agent, Image, tool
from antiphon.agent.settings import SETTINGS
from antiphon.core.messages import user
from antiphon.core.policy import DEFAULT, PI
from antiphon.errors import MisuseError, WrongArgument
from antiphon.testing import CallScript, ScriptedModel, ScriptedTool, VirtualClock, says


def agent(**given: Any) -> Agent:
    return Agent(**{"stream": ScriptedModel([says("fine")]), **given})


WRONG: dict[str, tuple[Any, ...]] = {
    "stream": (None, "openai/gpt-5", 5),
    "model": ("openai/gpt-5", object()),
    "thinking_level": ("very", None, 3),
    "tool_execution": ("both", None),
    "policy": ("strict", None),
    "limits": (3, {"max_turns": 3}),
    "budget": (5, 1.5),
    "api_key": (b"secret", 5),
    "session_id": (7,),
    "options": ("x", None, [1]),
    "convert_to_llm": ("x",),
    "transform_context": ([],),
    "get_api_key": ("sk-secret",),
    "prepare_request": (1,),
    "prepare_next_turn": (1,),
    "finish_turn": ("end",),
    "before_tool_call": (True,),
    "after_tool_call": ({},),
    "on_fault": ("log",),
    "stream_idle_timeout": (0, -1, float("nan"), "5", True),
    "close_timeout": (-0.1, None, float("nan"), "5"),
    "clock": (None, 5, object()),
}


def test_every_setting_is_watched() -> None:
    assert set(WRONG) == set(SETTINGS)


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_that_no_run_could_work_with_is_refused(name: str) -> None:
    """At construction and by assignment; what was set before stays."""
    made = agent()
    before = getattr(made, name)
    for value in WRONG[name]:
        if not (name in ("model", "options") and value is None):  # None at construction is the default
            with pytest.raises(WrongArgument, match=rf"Agent\.{name} cannot be .*; give "):
                agent(**{name: value})
        with pytest.raises(WrongArgument, match=rf"Agent\.{name} cannot be .*; give "):
            setattr(made, name, value)
    assert getattr(made, name) is before


def test_no_value_is_printed_that_may_be_a_secret() -> None:
    with pytest.raises(WrongArgument) as refused:
        agent(api_key=b"sk-secret")

    assert "secret" not in str(refused.value)


def test_settings_that_will_do_are_taken() -> None:
    clock = VirtualClock()
    made = agent(clock=clock, close_timeout=0, stream_idle_timeout=1, finish_turn=None, thinking_level="max")
    made.on_fault, made.policy = print, PI

    assert (made.clock, made.close_timeout, made.on_fault, made.policy) == (clock, 0, print, PI)


@tool
async def look(path: str) -> str:
    """Look."""
    return path


def plain(path: str) -> str:
    return path


SCHEMA = {"type": "object"}
NO_TOOLS: list[tuple[Any, str]] = [
    ("look", "give a list of tools"),
    (look, "give a list of tools"),
    (None, "give a list of tools"),
    ({"look": look}, "give a list of tools"),
    ([plain], r"tools\[0\] is a function, which is no tool: decorate the function with @tool"),
    ([look, {"name": "x"}], r"tools\[1\] is a dict, which is no tool: it has no name"),
    ([None], "no name"),
    ([dict], "no name"),
    ([SimpleNamespace(name="")], "no name"),
    ([SimpleNamespace(name="x")], "description is no text"),
    ([SimpleNamespace(name="x", description="x", parameters=None)], "no JSON Schema"),
    ([SimpleNamespace(name="x", description="x", parameters=SCHEMA)], "execute is no function"),
    ([look, ScriptedTool("look", CallScript())], "two tools named 'look'"),
]


@pytest.mark.parametrize(("tools", "words"), NO_TOOLS, ids=range(len(NO_TOOLS)))
def test_what_is_no_tool_is_refused(tools: Any, words: str) -> None:
    with pytest.raises(WrongArgument, match=words):
        agent(tools=tools)
    made = agent(tools=[look])
    with pytest.raises(WrongArgument, match=words):
        made.tools = tools
    assert made.tools == (look,)


async def test_images_that_are_none_or_go_nowhere_are_refused() -> None:
    picture = Image(data="aGk=", mime_type="image/png")
    made = agent()
    for given, images in (("look", picture), ("look", [b"png"]), ("look", "png"), (user("look"), [picture])):
        with pytest.raises(WrongArgument, match=r"prompt\(images=\.\.\.\)"):
            await made.prompt(given, images=images)  # type: ignore[arg-type]
    assert len(made.messages) == 0

    outcome = await made.prompt("look", images=[picture])
    assert outcome.new_messages[0].content[1] is picture  # type: ignore[union-attr]


def test_everything_else_that_is_given_is_checked_too() -> None:
    made = agent()
    for refused in (
        lambda: agent(system_prompt=None),
        lambda: agent(system_prompt=[user("x")]),
        lambda: agent(messages="hello"),
        lambda: agent(messages=["hello"]),
        lambda: agent(messages=None),
        lambda: agent(steering_mode="some"),
        lambda: agent(follow_up_mode=None),
        lambda: setattr(made, "messages", user("x")),
        lambda: setattr(made, "messages", [{"role": "user"}]),
        lambda: setattr(made, "steering_mode", "all at once"),
        lambda: setattr(made, "follow_up_mode", 1),
        lambda: made.subscribe("print"),  # type: ignore[arg-type]
        lambda: made.subscribe(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(MisuseError):
            refused()
    assert (len(made.messages), made.steering_mode, made.policy) == (0, "one-at-a-time", DEFAULT)

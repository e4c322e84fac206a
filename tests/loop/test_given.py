"""What a low-level run is given is refused at the call, before anything happens, in words that help."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon import AbortController, Context, LoopConfig, Model, agent_loop, agent_loop_continue
from antiphon.core.messages import user
from antiphon.errors import WrongArgument
from antiphon.loop.entry import run_agent_loop, run_agent_loop_continue
from antiphon.testing import CallScript, ScriptedModel, ScriptedTool, says

CONFIG = LoopConfig(model=Model(id="m", provider="p", api="a"))
GOOD: dict[str, Any] = {
    "prompts": [user("hi")],
    "context": Context((user("before"),), (ScriptedTool("A", CallScript()),)),
    "config": CONFIG,
    "emit": lambda _event: None,
    "signal": AbortController().signal,
}
BAD: list[tuple[str, Any, str]] = [
    ("prompts", "hi", "prompts cannot be a str; give a list of messages"),
    ("prompts", ["hi"], "prompts: a str is no message"),
    ("prompts", None, "prompts cannot be a NoneType"),
    ("prompts", user("hi"), "prompts cannot be a UserMessage; give a list"),
    ("context", [user("hi")], "context cannot be a list; give a Context"),
    ("context", Context(messages="hi"), "context.messages cannot be a str"),  # type: ignore[arg-type]
    ("context", Context((user("x"),), 5), "context.tools cannot be a int"),  # type: ignore[arg-type]
    ("context", Context((user("x"),), (print,)), "a tool in context.tools cannot be a builtin_function_or_method"),  # type: ignore[arg-type]
    ("config", {}, "config cannot be a dict; give a LoopConfig"),
    ("config", replace(CONFIG, model="m"), "config.model cannot be a str; give a Model"),
    ("config", replace(CONFIG, policy="pi"), "config.policy cannot be a str; give a Policy"),
    ("config", replace(CONFIG, limits=5), "config.limits cannot be a int; give RunLimits"),
    ("emit", None, "emit cannot be a NoneType; give a function"),
    ("signal", True, "signal cannot be a bool; give the signal"),
    ("stream", "openai", "stream cannot be a str; give a function"),
]


@pytest.mark.parametrize(("name", "value", "words"), BAD, ids=[f"{name} {n}" for n, (name, _, _) in enumerate(BAD)])
async def test_what_no_run_could_work_with_is_refused_by_every_entry(name: str, value: Any, words: str) -> None:
    model = ScriptedModel([says("never")])
    g = {**GOOD, "stream": model, name: value}
    if name != "emit":
        with pytest.raises(WrongArgument, match=words):
            agent_loop(g["prompts"], g["context"], g["config"], g["signal"], g["stream"])
    with pytest.raises(WrongArgument, match=words):
        await run_agent_loop(g["prompts"], g["context"], g["config"], g["emit"], g["signal"], g["stream"])
    if name != "prompts":
        with pytest.raises(WrongArgument, match=words):
            await run_agent_loop_continue(g["context"], g["config"], g["emit"], g["signal"], g["stream"])
    if name not in ("prompts", "emit"):
        with pytest.raises(WrongArgument, match=words):
            agent_loop_continue(g["context"], g["config"], g["signal"], g["stream"])
    assert model.requests == []


async def test_what_will_do_is_taken() -> None:
    outcome = await run_agent_loop(**GOOD, stream=ScriptedModel([says("fine")]))
    assert outcome.reason == "stop"

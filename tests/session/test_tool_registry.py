"""Which tools there are, which the model is told of, and what changes on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.session.stage import Stage

from antiphon.core.messages import SystemMessage
from antiphon.errors import ConfigurationError
from antiphon.session.create import create_agent_session
from antiphon.session.tool_registry import Loadout, ToolRegistry, ToolSelection, edited
from antiphon.session.tool_search import ToolSearch, search, terms
from antiphon.testing import CallScript, ScriptedTool, call, calls, says
from antiphon.tools import LocalWorkspace


def tool(name: str, description: str = "", **traits: Any) -> Any:
    made = ScriptedTool(name, CallScript(), description=description)
    for trait, value in traits.items():
        setattr(made, trait, value)
    return made


def active(selection: ToolSelection, *extra: Any) -> tuple[str, ...]:
    """What is active with these wishes, given all built-in tools and some more."""
    registry = ToolRegistry(selection)
    for name in ("read", "bash", "edit", "write", "grep", "find", "ls"):
        registry.register(tool(name), "builtin")
    for item in extra:
        registry.register(item, "sdk")
    return registry.active_names


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (ToolSelection(), "read bash edit write"),
        (ToolSelection(defaults=("grep",)), "grep"),
        (ToolSelection(defaults=()), ""),
        (ToolSelection(defaults=("+grep", "-bash")), "read edit write grep"),
        (ToolSelection(allow=("read", "gr*")), "read grep"),
        (ToolSelection(allow=("+ls", "-bash")), "read edit write ls"),
        (ToolSelection(allow=()), ""),
        (ToolSelection(exclude=("ba*",)), "read edit write"),
        (ToolSelection(none="all"), ""),
        (ToolSelection(none="builtin"), ""),
    ],
)
def test_the_wishes_of_a_host(selection: ToolSelection, names: str) -> None:
    assert set(active(selection)) == set(names.split())


def test_tools_of_a_host_are_active_unless_they_say_otherwise() -> None:
    more = (tool("mine"), tool("later", default_active=False), tool("deep", exposure="deferred"))
    assert active(ToolSelection(none="builtin"), *more) == ("mine",)
    assert set(active(ToolSelection(allow=("+later", "-mine")), *more)) >= {"later"}
    assert "mine" not in active(ToolSelection(allow=("+later", "-mine")), *more)
    assert active(ToolSelection(allow=("deep",)), *more) == ("deep",)


def test_a_list_of_edits() -> None:
    assert edited(("a", "b"), ("+c", "-a")) == ("b", "c")
    assert edited(("a",), ("x", "+y")) == ("x", "y")
    assert edited(("a",), None) == ("a",)
    assert edited(("a",), ()) == ()


def test_the_order_of_active_tools_is_stable() -> None:
    registry = ToolRegistry(ToolSelection())
    for name in "abcd":
        registry.register(tool(name), "sdk")
    assert registry.set_active(["d", "b", "ghost", "a"]) == ("ghost",)
    assert registry.active_names == ("a", "b", "d")
    registry.set_active(["c", "d", "a"])
    assert registry.active_names == ("a", "d", "c")
    assert registry.declared() is registry.declared()


def test_what_a_transcript_declares_comes_back_even_if_it_is_registered_late() -> None:
    registry = ToolRegistry(ToolSelection())
    for name in ("read", "bash", "edit", "write", "grep"):
        registry.register(tool(name), "builtin")
    registry.register(tool("mine"), "sdk")
    registry.restore(["grep", "late"])
    assert registry.active_names == ("mine", "grep")
    registry.register(tool("late", default_active=False), "extension")
    assert "late" in registry.active_names
    registry.restore(["later"])
    registry.forget_pending()
    registry.register(tool("later", default_active=False), "extension")
    assert "later" not in registry.active_names


def test_what_the_host_names_wins_over_what_a_transcript_declares() -> None:
    for allow, names in ((("ls",), ("ls",)), (("+ls", "-read"), ("bash", "ls"))):
        registry = ToolRegistry(ToolSelection(allow=allow))
        for name in ("read", "bash", "ls"):
            registry.register(tool(name), "builtin")
        registry.restore(["read", "bash"])
        assert registry.active_names == names


async def test_a_change_is_told_to_the_model_before_its_next_request() -> None:
    stage = Stage([calls("A"), call("late"), says("done")], tools=[tool("late", default_active=False)])
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    stage.session.set_active_tools_by_name(["late"])
    gate.open()
    await going
    declared = [m for m in stage.session.messages if isinstance(m, SystemMessage)]
    assert [item.name for item in declared[1].tools_added] == ["late"]  # type: ignore[union-attr]
    assert [item.name for item in declared[1].tools_removed] == ["A"]  # type: ignore[union-attr]
    assert stage.model.asked[1][-1] is declared[1] or declared[1] in stage.model.asked[1]


async def test_a_withdrawn_tool_cannot_be_called() -> None:
    stage = Stage([calls("A"), says("done")])
    stage.session.unregister_tool("A")
    await stage.session.prompt("go")
    assert stage.calls.executed == []
    assert stage.session.get_all_tools() == ()


async def test_an_active_tool_may_describe_others_anew_and_hide_them_from_requests() -> None:
    class Director:
        name = "director"
        description = "Directs"
        exposure = "model-only"

        def __init__(self) -> None:
            self.parameters: Any = {"type": "object"}

        def prepare_loadout(self, loadout: Loadout) -> None:
            from msgspec import structs

            told = loadout.declarations["plain"]
            loadout.declarations["plain"] = structs.replace(told, description="Use the director instead.")
            loadout.hidden.add("secret")

        async def execute(self, *_: Any) -> str:
            return "ok"

    stage = Stage(
        [calls(call("plain"), call("secret")), says("done")],
        tools=[Director(), tool("plain"), tool("secret")],
    )
    await stage.session.prompt("go")
    seen = [m for m in stage.model.asked[0] if isinstance(m, SystemMessage)]
    shown = {item.name: item.description for item in seen[0].tools_added}  # type: ignore[union-attr]
    assert shown == {"director": "Directs", "plain": "Use the director instead."}
    kept = stage.session.messages[0]
    assert isinstance(kept, SystemMessage)
    assert "secret" in {item.name for item in kept.tools_added}  # type: ignore[union-attr]
    assert [m.is_error for m in stage.session.messages if m.role == "toolResult"] == [False, False]  # type: ignore[union-attr]


async def test_a_search_finds_tools_and_declares_them_from_the_next_request_on() -> None:
    weather = tool("mcp__sky__get_forecast", "Tell the weather of tomorrow", exposure="deferred")
    other = tool("mcp__sky__list_stars", "List the stars", exposure="deferred")
    script = [call("tool_search", {"query": "weather forecast"}), call("mcp__sky__get_forecast"), says("sunny")]
    finder: Any = ToolSearch()
    stage = Stage(script, tools=[finder, weather, other])
    stage.session.set_active_tools_by_name(["tool_search"])
    await stage.session.prompt("go")
    results = [m for m in stage.session.messages if m.role == "toolResult"]
    assert [m.is_error for m in results] == [False, False]  # type: ignore[union-attr]
    assert "mcp__sky__get_forecast" in stage.session.get_active_tool_names()
    assert "mcp__sky__list_stars" not in stage.session.get_active_tool_names()


def test_more_words_found_beat_any_score_and_the_very_name_beats_all() -> None:
    tools = [
        tool("file_reader", "Reads files"),
        tool("file_file_file", "file file file"),
        tool("reader", "Something else"),
        tool("天気予報", "明日の天気を教える"),
    ]
    assert [t.name for t in search("read files", tools)][0] == "file_reader"
    assert [t.name for t in search("reader", tools)][0] == "reader"
    assert [t.name for t in search("天気", tools)] == ["天気予報"]
    assert search("nothing fits", tools) == []
    assert search("the of", tools) == []


def test_words_are_split_folded_and_weighed() -> None:
    assert terms("getUserFiles") == ["user", "file"]
    assert terms("HTTPServers and queries") == ["http", "server", "query"]
    assert terms("boxes classes glass") == ["box", "class", "glass"]


async def test_the_built_in_tools_stand_in_the_prompt(tmp_path: Any) -> None:
    stage = Stage([says("x")], workspace=LocalWorkspace(str(tmp_path)))
    await stage.session.prompt("go")
    assert stage.session.get_active_tool_names() == ("read", "bash", "edit", "write")
    assert "- read: Read files" in stage.session.system_prompt
    assert "Use the shell to list folders" in stage.session.system_prompt
    with pytest.raises(ConfigurationError, match="unknown tool 'raed'"):
        create_agent_session(stage.services, stage.store.in_memory(), tools=("raed",))

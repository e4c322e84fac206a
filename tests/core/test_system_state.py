"""What a model was told is history: states are folded, differences declared, nothing is rewritten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.content import Text
from antiphon.core.declarations import ToolDeclaration, ToolName
from antiphon.core.messages import Message, SystemMessage, host_message, user
from antiphon.core.system_state import (
    SystemState,
    collapse,
    declaration_of,
    declare,
    initial_system_message,
    normalize_context,
    replay,
    same_declaration,
    same_json,
    tool_changes,
)

OBJECT = {"type": "object"}


@dataclass
class Installed:
    """A tool that counts how often somebody looks at its schema."""

    name: str
    description: str = "does it"
    schema: dict[str, Any] = field(default_factory=lambda: dict(OBJECT))
    looks: int = 0

    @property
    def parameters(self) -> dict[str, Any]:
        self.looks += 1
        return self.schema


def tool(name: str, description: str = "does it", **schema: Any) -> ToolDeclaration:
    return ToolDeclaration(name=name, description=description, parameters=OBJECT | schema)


def says(content: str = "", **fields: Any) -> SystemMessage:
    return SystemMessage(content=content, **fields)


def names(state: SystemState) -> list[str]:
    return [declaration.name for declaration in state.tools]


# -- replay ----------------------------------------------------------------------------------------------------------


def test_contents_then_sections_joined_by_blank_lines() -> None:
    state = replay(
        [
            says("one", sections={"b": "B", "a": "A"}),
            user("not the prompt"),
            SystemMessage(content=(Text(text="two"), Text(text="lines"))),
            says("", sections={"a": "newer A"}),
        ]
    )

    assert state.content == "one\n\ntwo\nlines"
    assert state.prompt == "one\n\ntwo\nlines\n\nB\n\nnewer A"


def test_null_takes_a_section_away_and_empty_texts_leave_no_gap() -> None:
    state = replay([says("", sections={"a": "A", "empty": ""}), says("end", sections={"a": None, "never": None})])

    assert state.prompt == "end"
    assert dict(state.sections) == {"empty": ""}


def test_a_redefined_tool_keeps_its_place_and_one_added_again_goes_last() -> None:
    first = replay([says(tools_added=(tool("a"), tool("b"), tool("c")))])

    redefined = first.apply(says(tools_added=(tool("a", "new"),)))
    again = first.apply(says(tools_removed=(ToolName(name="a"),), tools_added=(tool("a", "new"),)))

    assert (names(redefined), names(again)) == (["a", "b", "c"], ["b", "c", "a"])
    assert redefined.tool("a") == tool("a", "new")
    assert again.tool("ghost") is None


def test_a_state_is_not_changed_by_what_is_applied_to_it() -> None:
    before = replay([says("one", sections={"s": "S"}, tools_added=(tool("a"),))])
    seen = before.prompt, before.tools, dict(before.sections)

    before.apply(says("two", sections={"s": None}, tools_removed=(ToolName(name="a"),)))

    assert (before.prompt, before.tools, dict(before.sections)) == seen


def test_what_a_message_does_not_change_is_shared() -> None:
    before = replay([says("one", sections={"s": "S"}, tools_added=(tool("a"),))])
    prompt = before.prompt

    after = before.apply(says("", tools_added=()))

    assert after.tools is before.tools
    assert after.sections is before.sections
    assert after.prompt is prompt


def test_a_long_history_of_messages_is_folded_without_copying_the_prompt() -> None:
    """Ten thousand messages: the texts are joined once, when somebody asks."""
    state = replay([says("x")] * 10_000)

    assert len(state.prompt) == 10_000 + 2 * 9_999


def test_as_one_message() -> None:
    state = replay([says("p", sections={"s": "S", "t": None}, tools_added=(tool("a"),)), says("q")])

    assert SystemState().as_message() is None
    assert state.as_message(7) == SystemMessage(
        content="p\n\nq", sections={"s": "S"}, tools_added=(tool("a"),), timestamp=7
    )
    assert SystemState().apply(says()).as_message() == SystemMessage()


def test_states_compare_by_what_they_say() -> None:
    assert replay([says("a"), says("b")]) == replay([says("a\n\nb")])
    assert replay([says("a")]) != replay([says("b")])
    assert SystemState() != "a"
    assert "1 characters and 0 tools" in repr(replay([says("a")]))


# -- comparing tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 1, "x": 1}}, False),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": {}}, {"a": []}, False),
    ],
)
def test_schemas_are_equal_if_a_model_reads_the_same(left: Any, right: Any, same: bool) -> None:
    assert same_json(left, right) is same


def test_labels_and_functions_do_not_count() -> None:
    assert same_declaration(Installed("a"), tool("a"))
    assert not same_declaration(Installed("a", "else"), tool("a"))


def test_a_changed_tool_is_removed_and_added() -> None:
    added, removed = tool_changes([tool("a"), tool("b"), tool("c")], [tool("d"), tool("b", "new"), tool("c")])

    assert added == (tool("d"), tool("b", "new"))
    assert removed == (ToolName(name="a"), ToolName(name="b"))


def test_the_last_of_equal_names_is_the_definition() -> None:
    twins = [tool("a", "first"), tool("a", "second")]

    assert tool_changes([], twins) == (tuple(twins), ())
    assert tool_changes([tool("a", "second")], twins) == ((tool("a", "first"),), ())
    assert tool_changes([tool("a", "first")], twins) == ((tool("a", "second"),), (ToolName(name="a"),))


def test_a_declaration_carries_the_wish_for_constrained_sampling() -> None:
    class Strict(Installed):
        constrained_sampling: Any = None

    wish = Strict("a")
    assert declaration_of(wish) == tool("a")
    wish.constrained_sampling = {"kind": "grammar"}
    assert declaration_of(wish).constrained_sampling == {"kind": "grammar"}


# -- declaring -------------------------------------------------------------------------------------------------------


def test_undeclared_tools_go_in_front_as_a_message_of_the_given_time() -> None:
    pending = (user("hi"),)

    declared = declare(pending, SystemState(), (Installed("a"),), timestamp=5)

    assert declared == (SystemMessage(tools_added=(tool("a"),), timestamp=5), user("hi"))


def test_nothing_pending_and_nothing_changed_is_nothing_to_say() -> None:
    state = replay([says(tools_added=(tool("b"), tool("a")))])

    assert declare((), state, [Installed("a"), Installed("b")]) == ()
    assert declare((), SystemState(), None) == ()


def test_absent_tools_are_taken_away() -> None:
    state = replay([says(tools_added=(tool("a"),))])

    assert declare((user("x"),), state, None) == (says(tools_removed=(ToolName(name="a"),)), user("x"))


@pytest.mark.requirement("S3-50")
def test_the_last_pending_system_message_takes_the_difference() -> None:
    pending: list[Message] = [says("first", tools_added=(tool("a"),)), host_message("note"), says("last"), user("x")]

    declared = declare(pending, SystemState(), (tool("a"), tool("b")))

    assert declared == (*pending[:2], says("last", tools_added=(tool("b"),)), user("x"))


def test_what_it_says_about_tools_itself_is_intent_and_gives_way_to_the_truth() -> None:
    state = replay([says(tools_added=(tool("a"),))])
    wrong = says("text", tools_added=(tool("a"),), tools_removed=(ToolName(name="ghost"),))

    assert declare((wrong,), state, (tool("a"),)) == (says("text"),)
    assert declare((wrong,), state, (tool("b"),)) == (
        says("text", tools_added=(tool("b"),), tools_removed=(ToolName(name="a"),)),
    )


def test_a_pending_message_that_says_just_the_difference_stays_as_it_is() -> None:
    exact = says("text", tools_added=(tool("a"),), tools_removed=())

    (declared,) = declare((exact,), SystemState(), (Installed("a"),))

    assert declared is exact


def test_tools_that_were_declared_are_not_compared_again() -> None:
    """A run whose tools stay the same must not pay for its schemas at each turn."""
    tools = tuple(Installed(f"tool {n}") for n in range(100))
    state = replay(declare((user("go"),), SystemState(), tools))
    assert declare((), state, tools) == ()
    looked = sum(each.looks for each in tools)

    later = state.apply(says("more prompt"))
    for _ in range(1000):
        assert declare((user("x"),), later, tools) == (user("x"),)

    assert sum(each.looks for each in tools) == looked


def test_a_list_of_tools_is_compared_each_time_since_it_may_have_changed() -> None:
    tools = [Installed("a")]
    state = replay([says(tools_added=(tool("a"),))])
    assert declare((), state, tools) == ()

    tools.append(Installed("b"))

    assert declare((), state, tools) == (says(tools_added=(tool("b"),)),)


@pytest.mark.requirement("S3-27")
@given(st.lists(st.lists(st.sampled_from([tool(n, d) for n in "abc" for d in "xy"]), max_size=4), max_size=5))
def test_after_declaring_the_model_knows_what_can_run(changes: list[list[ToolDeclaration]]) -> None:
    state = SystemState()
    for wanted in changes:
        unique = list({each.name: each for each in wanted}.values())
        for message in declare((), state, unique):
            assert isinstance(message, SystemMessage)
            state = state.apply(message)
        assert sorted(state.tools, key=lambda t: t.name) == sorted(unique, key=lambda t: t.name)
        assert declare((), state, unique) == ()


# -- whole conversations ---------------------------------------------------------------------------------------------


def test_prompt_and_tools_as_the_first_message() -> None:
    assert initial_system_message("") is None
    assert initial_system_message("p", (Installed("a"),), 3) == says("p", tools_added=(tool("a"),), timestamp=3)
    assert normalize_context("p", (), [user("x")]) == (says("p"), user("x"))
    assert normalize_context("", (), [user("x")]) == (user("x"),)


@pytest.mark.requirement("S3-24")
def test_collapse_keeps_everything_but_the_history_of_the_prompt() -> None:
    conversation: list[Message] = [user("x"), says("a", timestamp=4), user("y"), says("b", timestamp=9)]

    assert collapse(conversation) == (says("a\n\nb", timestamp=4), user("x"), user("y"))
    assert collapse([user("x")]) == (user("x"),)

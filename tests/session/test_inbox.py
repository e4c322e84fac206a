"""How messages come in: accepted at once, in order, and never lost."""

from __future__ import annotations

import asyncio

import pytest
from tests.session.stage import Stage, texts

from antiphon.core.content import Image, Text
from antiphon.core.messages import UserMessage, host_message
from antiphon.core.session_events import AgentSettled, QueueUpdate
from antiphon.core.transcript import Transcript
from antiphon.errors import CannotContinue, NothingToContinue, WouldDeadlock
from antiphon.session.hooks import Command, InputAnswer, InputGiven, SessionHooks, StartAnswer, StartGiven
from antiphon.session.ports import GivenModels, Resources
from antiphon.session.refusals import (
    CompactionInProgress,
    ExtensionCommandRefused,
    NoCredentials,
    NoModel,
    SessionBusy,
    SessionDisposed,
)
from antiphon.testing import Gate, calls, fails, says, settle


async def test_of_two_prompts_in_one_tick_the_second_is_refused_and_nothing_is_lost() -> None:
    """The reference starts both, loses one, and settles too early."""
    stage = Stage([says("one")])
    first = stage.session.submit("first")
    second = stage.session.submit("second")

    with pytest.raises(SessionBusy, match="^Agent is already processing"):
        await second.accepted()
    assert await first.accepted() == "started"
    assert (await first.settled()).final_text == "one"
    assert texts(stage.session.messages) == ["user: first", "assistant: one"]
    assert len(stage.of(AgentSettled)) == 1


async def test_started_is_told_before_the_run_and_queued_after_its_queue_update() -> None:
    stage = Stage([calls("A"), says("done")])
    gate = stage.hold("A")
    order: list[str] = []
    stage.session.subscribe(lambda event: order.append(event.type))
    stage.session.submit("go").on_accepted(lambda answer: order.append(f"-> {answer}"))
    await stage.calls.running("A")
    stage.session.submit("also", streaming_behavior="steer").on_accepted(lambda answer: order.append(f"-> {answer}"))
    gate.open()
    await stage.session.wait_for_idle()

    assert order[:2] == ["-> started", "agent_start"]
    assert order.index("-> queued") == order.index("queue_update") + 1


async def test_an_abort_right_behind_a_prompt_aborts_it() -> None:
    stage = Stage([says("never")])
    asked = stage.session.submit("go")
    await stage.session.abort()

    settlement = await asked.settled()
    assert settlement.aborted
    assert stage.model.requests == []
    assert texts(stage.log.messages()) == ["user: go"]
    assert stage.told[-1] == "agent_settled aborted"


async def test_a_steering_message_to_an_idle_session_starts_a_run() -> None:
    """The reference lets it wait for ever."""
    stage = Stage([says("yes")])

    assert await stage.session.steer("hello") == "started"
    await stage.session.wait_for_idle()
    assert texts(stage.session.messages) == ["user: hello", "assistant: yes"]


async def test_a_steering_message_may_wait_for_the_next_prompt() -> None:
    stage = Stage([says("yes")])

    assert await stage.session.steer("early", when_idle="queue") == "queued"
    assert stage.session.pending_message_count == 1
    await stage.session.prompt("start")
    assert stage.requests == [["user", "user"]]


async def test_queued_items_are_known_by_their_ids_not_by_their_texts() -> None:
    """Two equal texts and a picture without a text: the reference takes the wrong ones out of its list."""
    stage = Stage([calls("A"), says("1"), says("2"), says("3")])
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    picture = UserMessage(content=(Image(data="AAAA", mime_type="image/png"),))
    await stage.session.steer("same")
    await stage.session.steer("same")
    await stage.session.steer(picture)
    items = stage.of(QueueUpdate)[-1].items
    assert len({item.id for item in items}) == 3
    assert [(item.text, item.has_images) for item in items] == [("same", False), ("same", False), ("", True)]
    gate.open()
    await going

    remaining = [len(update.items) for update in stage.of(QueueUpdate)]
    assert remaining == [1, 2, 3, 2, 1, 0]


async def test_a_cleared_queue_hands_its_texts_back() -> None:
    stage = Stage([calls("A"), says("done")])
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    await stage.session.steer("s")
    await stage.session.follow_up("f")
    await stage.session.send_custom_message("note", "mine")
    cleared = stage.session.clear_queue()
    gate.open()
    await going

    assert (cleared.steering, cleared.follow_up) == (("s",), ("f",))
    assert texts(stage.session.messages)[-1] == "assistant: done"
    assert not stage.session.has_queued_messages


async def test_a_command_runs_at_once_even_while_the_model_works() -> None:
    said: list[str] = []
    hooks = SessionHooks(commands={"note": Command(said.append)})
    stage = Stage([calls("A"), says("done")], hooks=hooks)
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")

    settlement = await stage.session.prompt("/note  two words")
    assert settlement.disposition == "handled"
    assert said == ["two words"]
    with pytest.raises(ExtensionCommandRefused):
        await stage.session.steer("/note x")
    gate.open()
    await going


async def test_a_command_that_fails_is_reported_and_counts_as_handled() -> None:
    def broken(_rest: str) -> None:
        raise ValueError("no")

    stage = Stage(hooks=SessionHooks(commands={"broken": Command(broken)}))
    assert (await stage.session.prompt("/broken")).disposition == "handled"
    assert stage.told == ["extension_error"]


async def test_an_input_handler_may_change_or_take_over_what_was_said() -> None:
    async def handle(given: InputGiven) -> InputAnswer:
        await asyncio.sleep(0)
        if given.text == "mine":
            return InputAnswer("handled")
        return InputAnswer("transform", given.text.upper())

    stage = Stage([says("ok")], hooks=SessionHooks(input=handle))
    assert (await stage.session.prompt("mine")).disposition == "handled"
    assert stage.told == []
    assert stage.session.is_idle
    await stage.session.prompt("loud")
    assert texts(stage.session.messages)[0] == "user: LOUD"


async def test_slow_input_handlers_do_not_change_the_order_of_what_is_queued() -> None:
    gates = {"slow": Gate(), "quick": Gate()}

    async def handle(given: InputGiven) -> None:
        if given.text in gates:
            await gates[given.text].passed()

    stage = Stage([calls("A"), says("1"), says("2")], hooks=SessionHooks(input=handle))
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    slow = stage.session.submit("slow", streaming_behavior="steer")
    quick = stage.session.submit("quick", streaming_behavior="steer")
    gates["quick"].open()
    await settle()
    gates["slow"].open()
    assert (await slow.accepted(), await quick.accepted()) == ("queued", "queued")
    assert stage.session.get_steering_messages() == ("slow", "quick")
    gate.open()
    await going


async def test_a_broken_input_handler_is_reported_and_changes_nothing() -> None:
    def broken(_given: InputGiven) -> None:
        raise ValueError("no")

    stage = Stage([says("ok")], hooks=SessionHooks(input=broken))
    await stage.session.prompt("hi")
    assert stage.told[0] == "extension_error"
    assert texts(stage.session.messages) == ["user: hi", "assistant: ok"]


async def test_skills_and_templates_are_written_out_and_unknown_ones_pass() -> None:
    def skill(name: str, rest: str) -> str | None:
        return f"<skill {name}> {rest}" if name == "tidy" else None

    def template(name: str, rest: str) -> str | None:
        return f"please {rest}" if name == "ask" else None

    resources = Resources(expand_skill=skill, expand_template=template)
    stage = Stage([says("1"), says("2"), says("3"), says("4")], resources=resources)
    for text in ("/skill:tidy my desk", "/ask nicely", "/unknown x", "/skill:none x"):
        await stage.session.prompt(text)
    asked = [text for text in texts(stage.session.messages) if text.startswith("user")]
    assert asked == ["user: <skill tidy> my desk", "user: please nicely", "user: /unknown x", "user: /skill:none x"]


async def test_text_from_a_program_is_taken_as_it_is() -> None:
    resources = Resources(expand_template=lambda _name, _rest: "wrong")
    stage = Stage([says("1")], resources=resources)
    await stage.session.send_user_message("/ask x")
    await stage.session.wait_for_idle()
    assert texts(stage.session.messages)[0] == "user: /ask x"


async def test_without_a_model_or_a_key_nothing_begins() -> None:
    stage = Stage(models=())
    with pytest.raises(NoModel):
        await stage.session.prompt("hi")

    class NoKeys:
        models = GivenModels(Stage().model)

        def __getattr__(self, name: str) -> object:
            return getattr(self.models, name)

        def has_credentials(self, _model: object) -> bool:
            return False

    stage = Stage(access=NoKeys())
    with pytest.raises(NoCredentials, match="scripted"):
        await stage.session.prompt("hi")
    assert stage.session.is_idle
    assert stage.told == []


async def test_a_prompt_from_a_listener_of_the_settlement_comes_after_all_of_them() -> None:
    stage = Stage([says("one"), says("two")])
    order: list[str] = []

    def first(event: object) -> None:
        if isinstance(event, AgentSettled) and not order:
            order.append("first")
            stage.session.submit("again")

    def second(event: object) -> None:
        if isinstance(event, AgentSettled) and len(order) == 1:
            order.append(f"second {stage.session.phase}")

    stage.session.subscribe(first)
    stage.session.subscribe(second)
    await stage.session.prompt("go")
    await settle()
    await stage.session.wait_for_idle()

    assert order == ["first", "second settling"]
    assert texts(stage.session.messages) == ["user: go", "assistant: one", "user: again", "assistant: two"]
    assert len(stage.of(AgentSettled)) == 2


async def test_a_listener_that_awaits_its_own_conversation_is_told_so() -> None:
    stage = Stage([says("one"), says("two")])
    raised: list[BaseException] = []

    async def listen(event: object) -> None:
        if isinstance(event, AgentSettled) and not raised:
            for attempt in (stage.session.wait_for_idle(), stage.session.prompt("again")):
                try:
                    await attempt
                except WouldDeadlock as error:
                    raised.append(error)

    stage.session.subscribe(listen)
    await stage.session.prompt("go")
    await settle()
    await stage.session.wait_for_idle()
    assert len(raised) == 2


async def test_a_note_of_an_extension_reaches_the_model_where_it_splits_nothing() -> None:
    stage = Stage([calls("A", "B"), says("done"), says("more")])
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    await stage.session.send_custom_message("note", "held", trigger_turn=False)
    await stage.session.send_custom_message("note", "steered")
    await stage.session.send_custom_message("note", "followed", deliver_as="followUp")
    gate.open()
    await going

    assert stage.requests == [
        ["user"],
        ["user", "assistant", "toolResult", "toolResult", "user", "user"],
        ["user", "assistant", "toolResult", "toolResult", "user", "user", "assistant", "user"],
    ]
    assert stage.session.pending_message_count == 0


async def test_an_extension_may_add_messages_and_sections_to_a_start() -> None:
    def start(given: StartGiven) -> StartAnswer:
        given.sections["mood"] = "<mood>\ncalm\n</mood>"
        return StartAnswer(messages=(host_message("custom", customType="x", content="extra", display=False),))

    stage = Stage([says("ok"), says("ok")], hooks=SessionHooks(before_agent_start=start))
    await stage.session.prompt("hi")
    assert stage.requests == [["user", "user"]]
    assert "calm" in stage.session.system_prompt
    await stage.session.prompt("hi")
    assert stage.kinds.count("message system") == 1


async def test_a_forced_prompt_is_sent_for_one_run_and_not_stored() -> None:
    forced = [StartAnswer(system_prompt="Be a pirate."), None]
    hooks = SessionHooks(before_agent_start=lambda _given: forced.pop(0))
    stage = Stage([says("arr"), says("yes")], hooks=hooks)
    await stage.session.prompt("hi")
    await stage.session.prompt("hi")

    first, second = stage.model.asked
    assert first[0].content == "Be a pirate."  # type: ignore[union-attr]
    assert "pirate" not in str(second)
    assert "pirate" not in stage.session.system_prompt


async def test_going_on_repeats_what_failed_and_refuses_when_there_is_nothing() -> None:
    stage = Stage([fails("401 Unauthorized"), says("fine now")])
    with pytest.raises(NothingToContinue):
        await stage.session.continue_()
    await stage.session.prompt("hi")

    settlement = await stage.session.continue_()
    assert settlement.final_text == "fine now"
    assert stage.requests == [["user"], ["user"]]
    with pytest.raises(CannotContinue):
        await stage.session.continue_()
    assert len(stage.of(AgentSettled)) == 2


async def test_going_on_tells_what_has_changed_in_the_prompt() -> None:
    """At the start of every run, also of one without a new message of the user: the model reads the prompt as it is."""
    stage = Stage([fails("401 Unauthorized"), says("fine now")])
    await stage.session.prompt("hi")
    stage.session.set_prompt_section("mood", "calm")
    await stage.session.continue_()

    asked = Transcript(stage.model.asked[1])
    assert asked.system.sections["mood"] == "<mood>\ncalm\n</mood>"
    assert stage.session.system_prompt == asked.system.prompt


async def test_a_compaction_on_request_keeps_prompts_out() -> None:
    gate = Gate()
    stage = Stage([says("word " * 60), says("word " * 60), says("S").held(gate), says("S")])
    await stage.session.prompt("word " * 60)
    await stage.session.prompt("word " * 60)
    compacting = asyncio.ensure_future(stage.session.compact())
    await stage.until("compaction_start")
    with pytest.raises(CompactionInProgress):
        await stage.session.prompt("hi")
    gate.open()
    await compacting


async def test_a_disposed_session_takes_nothing_in() -> None:
    stage = Stage([says("x")])
    await stage.session.dispose()
    await stage.session.dispose()
    for attempt in (stage.session.prompt("hi"), stage.session.continue_(), stage.session.compact()):
        with pytest.raises(SessionDisposed):
            await attempt
    assert stage.session.phase == "disposed"


async def test_a_cancelled_caller_leaves_a_settled_session() -> None:
    stage = Stage([says("slow").held(Gate()), says("next")])
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.until("turn_start")
    await settle()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going

    assert stage.told[-1] == "agent_settled aborted"
    assert stage.session.is_idle
    assert (await stage.session.prompt("again")).final_text == "next"


async def test_pictures_of_the_user_travel_with_the_text() -> None:
    stage = Stage([says("seen")])
    await stage.session.prompt("look", [Image(data="iVBORw0KGgo=", mime_type="image/png")])
    first = stage.session.messages[1]
    assert isinstance(first, UserMessage)
    assert first.content[0] == Text(text="look")
    assert len(first.content) == 2

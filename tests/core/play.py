"""One run of the machine, told by hand: inputs go in, and what comes out is read as short words.

    play = Play()
    play.tell(Drained((), 0))          -> ["? request hook"]
    play.until(c.Finishing)            answers everything on the way in the dullest way

Words: `agent_start turn_start`, `start user`, `end user`, `deliver user` (an end whose message leaves the lease),
`update`, `call a` (a call is looked at), `progress a`, `over a` or `over a: length` (it ended; why it did not run),
`turn_end 2` (with so many results), `agent_end 5` (with so many messages), `commit`, `give back 1+0` (queued and
prepared), and the questions: `? steering`, `? follow_up`, `? request hook`, `? compose`, `? model`, `? check 0`,
`? run 0`, `? decision`, `? next hook`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import replace
from tests.core.bounded_world import Tool

from antiphon.core import machine
from antiphon.core import states as c
from antiphon.core.calls import Outcome, ToolResult, text_result
from antiphon.core.content import Text, ToolCall
from antiphon.core.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from antiphon.core.growing import grown
from antiphon.core.limits import NOTHING_USED
from antiphon.core.messages import AssistantMessage, Message, UserMessage, user
from antiphon.core.model import Model
from antiphon.core.policy import PROFILES, RunLimits, decision_table
from antiphon.core.ports import ModelRequest
from antiphon.core.toolbox import Toolbox
from antiphon.core.transcript import Transcript

Step: TypeAlias = Callable[[c.State, c.Input], tuple[c.State, list[Any]]]

MODEL = Model(id="model", provider="p", api="a")
FINE = Outcome(result=text_result("fine"), is_error=False, executed=True)
LAST = Outcome(result=ToolResult(content=(Text(text="last"),), terminate=True), is_error=False, executed=True)
NO = Outcome(result=text_result("blocked", details={}), is_error=True)


def says(text: str = "hello", why: Any = "stop") -> AssistantMessage:
    return AssistantMessage(content=(Text(text=text),), stop_reason=why, timestamp=50)


def calls(*ids: str, why: Any = "toolUse", name: str = "tool") -> AssistantMessage:
    blocks = tuple(ToolCall(id=i, name=name, arguments={"for": i}) for i in ids)
    return AssistantMessage(content=blocks, stop_reason=why, timestamp=50)


def request() -> ModelRequest:
    return ModelRequest(MODEL, (), "off", None)  # type: ignore[arg-type]


class Play:
    """`hooks`: are there a request, a finish and a next-turn hook to ask? What else is given changes the policy."""

    def __init__(
        self,
        step: Step = machine.step,
        profile: str = "default",
        *,
        table: Callable[[Any], Any] = decision_table,
        prompts: tuple[Message, ...] = (UserMessage(content="go"),),
        tools: tuple[Any, ...] | None = None,
        limits: RunLimits | None = None,
        mode: Any = "parallel",
        hooks: bool = True,
        history: tuple[Message, ...] = (),
        continuing: bool = False,
        polls_first: bool = True,
        level: Any = "off",
        **policy: Any,
    ) -> None:
        self.step = step
        changed = replace(PROFILES[profile], **policy)
        rules = c.Rules(
            policy=changed,
            limits=changed.limits if limits is None else limits,
            tool_execution=mode,
            table=table(changed),
            asks_request=hooks,
            asks_finish=hooks,
            asks_next=hooks,
            polls_twice=hooks,
        )
        run = c.Run(
            rules=rules,
            transcript=Transcript(history),
            toolbox=Toolbox(tools),
            new=grown(),
            model=MODEL,
            thinking_level=level,
            tally=NOTHING_USED,
        )
        self.prompt = c.Prompt(run=run, messages=prompts, continuing=continuing, polls_first=polls_first, at=10)
        self.state: Any = c.Idle()
        self.commands: list[Any] = []
        self.words: list[str] = []
        self.tell(self.prompt)

    def tell(self, given: Any) -> list[str]:
        """One step; what came of it, in words."""
        self.state, self.commands = self.step(self.state, given)
        told = [word_of(command) for command in self.commands]
        self.words += told
        return told

    def until(self, kind: type, answer: AssistantMessage | None = None, **given: Any) -> Play:
        """Go on to a state of this kind. The next answer of the model is `answer`, unless that state comes before."""
        for _ in range(100):
            if type(self.state) is kind:
                return self
            answers = type(self.state) in (c.Requesting, c.Responding)
            self.tell(self._dull(answer, given))
            if answers:
                answer = None
        raise AssertionError(f"{kind.__name__} does not come; the run is at {type(self.state).__name__}")

    def ended(self, answer: AssistantMessage | None = None) -> str:
        """Go on to the end; its reason."""
        self.until(c.Ended, answer)
        reason: str = self.state.reason
        return reason

    def _dull(self, answer: AssistantMessage | None, given: dict[str, Any]) -> Any:
        state = self.state
        match state:
            case c.Opening() | c.Steering() | c.FollowUp() | c.Latecomers():
                return c.Drained((), 20)
            case c.Composing():
                return c.RequestPrepared(None)
            case c.Asking():
                return c.Composed(request(), 30)
            case c.Requesting() | c.Responding():
                return c.Answered(answer or says())
            case c.Checking():
                return c.Checked(None, 60)
            case c.Executing():
                settled = {one.position for one in state.batch.settled}
                position = next(p for p in range(state.batch.looked_at) if p not in settled)
                return c.Finished(position, given.get("outcome", FINE), 70)
            case c.Finishing():
                return c.Decided(given.get("action"), given.get("queued", False), 80)
            case c.Limited():
                return c.Looked()
            case c.Preparing():
                return c.Prepared(None, 90)
            case _:
                raise AssertionError(f"nothing more can be told in {type(state).__name__}")

    @property
    def new(self) -> tuple[Message, ...]:
        run: c.Run = self.state.run
        return run.new.tuple()

    @property
    def roles(self) -> list[str]:
        """Who has spoken in this run."""
        return [message.role for message in self.new]


def word_of(command: Any) -> str:
    """A command in short."""
    return _WORDS[type(command)](command)


def _over(event: ToolExecutionEnd) -> str:
    details: Any = event.result.details
    if isinstance(details, dict) and "skipped" in details:
        return f"over {event.tool_call_id}: {details['reason']}"
    return f"over {event.tool_call_id}" + (": error" if event.is_error else "")


_WORDS: dict[type, Callable[[Any], str]] = {
    AgentStart: lambda e: "agent_start",
    TurnStart: lambda e: "turn_start",
    MessageStart: lambda e: f"start {e.message.role}",
    MessageUpdate: lambda e: "update",
    MessageEnd: lambda e: f"end {e.message.role}",
    ToolExecutionStart: lambda e: f"call {e.tool_call_id}",
    ToolExecutionUpdate: lambda e: f"progress {e.tool_call_id}",
    ToolExecutionEnd: _over,
    TurnEnd: lambda e: f"turn_end {len(e.tool_results)}",
    AgentEnd: lambda e: f"agent_end {len(e.messages)}",
    c.Commit: lambda e: "commit",
    c.Deliver: lambda e: f"deliver {e.event.message.role}",
    c.GiveBack: lambda e: f"give back {len(e.leased)}+{len(e.prepared)}",
    c.Drain: lambda e: f"? {e.queue}",
    c.PrepareRequest: lambda e: "? request hook",
    c.Compose: lambda e: "? compose",
    c.CallModel: lambda e: "? model",
    c.Preflight: lambda e: f"? check {e.position}",
    c.StartTool: lambda e: f"? run {e.position}",
    c.AskDecision: lambda e: "? decision",
    c.LookAgain: lambda e: "? look",
    c.PrepareNext: lambda e: "? next hook",
}

ORDERED = Tool("tool", execution_mode="sequential")

__all__ = ["FINE", "LAST", "MODEL", "NO", "ORDERED", "Play", "Step", "Tool", "calls", "request", "says", "user"]

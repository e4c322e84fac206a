"""The nouns of a run: its states, what it can be told (inputs), and what it asks for (commands).

States are types: each holds exactly what its moment needs, so no field is ever "not used right now". A state is a
value; transcripts, results and snapshots inside it are windows on shared append-only storage, so a step copies nothing.

Commands are either events (to be told to everybody) or questions. A list of commands has at most one kind of question,
at its end, and the state waits for its answer.

`gc=False`: these values are trees and soon gone, so the cycle collector need not visit them; with a thousand runs at
once that is half of the time. What may outlive its step (a run, its prompt, its questions, its end: the traceback of an
exception keeps them) and leads to tools, and so to whatever a host has made of them, is visited: an unvisited link
would keep a cycle for ever.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

from antiphon.core.calls import Outcome
from antiphon.core.content import ToolCall
from antiphon.core.events import AgentEvent
from antiphon.core.growing import Grown
from antiphon.core.hooks import Context, NextTurn, RequestUpdate, Turn
from antiphon.core.limits import LimitReached, Tally
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.policy import After, EndReason, Policy, RunLimits, decision_table
from antiphon.core.ports import ExecutionMode, ModelRequest
from antiphon.core.response import AnswerSoFar
from antiphon.core.response_events import Growth, Start
from antiphon.core.toolbox import Toolbox
from antiphon.core.transcript import Transcript

QueueName: TypeAlias = Literal["steering", "follow_up"]


@final
class Rules(Struct, frozen=True, kw_only=True, gc=False):
    """What stays the same for a whole run. `asks_…`: is there a hook that answers this question? `polls_twice`: may a
    queue that was found empty be filled while the next turn is prepared? `host_model` is the model of the host,
    whatever hooks make of it: the failure sequence of the reference, which its host tells, names this one.
    """

    policy: Policy
    limits: RunLimits
    tool_execution: ExecutionMode = "parallel"
    table: dict[tuple[str, bool], After]
    asks_request: bool = True
    asks_finish: bool = True
    asks_next: bool = True
    polls_twice: bool = True
    host_model: Model | None = None


def rules_of(
    policy: Policy,
    limits: RunLimits | None,
    tool_execution: ExecutionMode,
    *,
    asks_request: bool = True,
    asks_finish: bool = True,
    asks_next: bool = True,
    polls_twice: bool = True,
    host_model: Model | None = None,
) -> Rules:
    """The rules of a run; without limits of its own it has those of the policy."""
    return Rules(
        policy=policy,
        limits=policy.limits if limits is None else limits,
        tool_execution=tool_execution,
        table=decision_table(policy),
        asks_request=asks_request,
        asks_finish=asks_finish,
        asks_next=asks_next,
        polls_twice=polls_twice,
        host_model=host_model,
    )


@final
class Run(Struct, frozen=True, kw_only=True):
    """What every state of a run knows.

    `transcript` is what the model sees, `new` what this run has added to it, `stopped` the reason of an abort that has
    been noticed, `fault` the text of a failure that ends the run as soon as what is open is closed, `struck` that a
    critical listener failed: then the run ends with an error, whatever else happened.
    """

    rules: Rules
    transcript: Transcript
    toolbox: Toolbox
    new: Grown[Message]
    model: Model
    thinking_level: ThinkingLevel
    tally: Tally
    declared: Toolbox | None = None
    stopped: str | None = None
    fault: str | None = None
    struck: bool = False

    @property
    def context(self) -> Context:
        """The run as hooks see it."""
        return Context(self.transcript, self.toolbox.tools)


@final
class Settled(Struct, frozen=True, gc=False):
    """A call of a batch that is over. `result` is the one message that tells it, to listeners and to the transcript."""

    position: int
    outcome: Outcome
    result: ToolResultMessage


@final
class Batch(Struct, frozen=True, kw_only=True, gc=False):
    """The calls of one answer. A call is known by its position: ids from a model may repeat.

    `looked_at`: calls that were announced and checked, in call order. `ready`: allowed and not begun. `running`: begun
    and not settled. `doubles`: positions whose id already stands earlier in the answer. `reserved`: the tally of the
    run once everything that is ready has begun.
    """

    message: AssistantMessage
    calls: tuple[ToolCall, ...]
    one_by_one: bool
    doubles: frozenset[int]
    looked_at: int
    running: int
    reserved: Tally
    ready: Grown[int]
    settled: Grown[Settled]


# ---- states ---------------------------------------------------------------------------------------------------------


@final
class Idle(Struct, frozen=True, gc=False):
    """No run. Waits for `Prompt`."""


@final
class Opening(Struct, frozen=True, gc=False):
    """The prompts are announced. Waits for `Drained`: steering before the first request."""

    run: Run


@final
class Composing(Struct, frozen=True, gc=False):
    """All messages of the turn are announced. Waits for `RequestPrepared`."""

    run: Run


@final
class Asking(Struct, frozen=True, gc=False):
    """Context, model and level are settled. Waits for `Composed`: transformed, converted, with a key."""

    run: Run


@final
class Requesting(Struct, frozen=True, gc=False):
    """The request has left. Waits for the first response event."""

    run: Run


@final
class Responding(Struct, frozen=True, gc=False):
    """The answer grows. Waits for response events."""

    run: Run
    answer: AnswerSoFar


@final
class Checking(Struct, frozen=True, gc=False):
    """A call is being checked. Waits for `Checked`."""

    run: Run
    after: After
    batch: Batch


@final
class Executing(Struct, frozen=True, gc=False):
    """Calls are running. Waits for `Progress` and `Finished`."""

    run: Run
    after: After
    batch: Batch


@final
class Finishing(Struct, frozen=True, gc=False):
    """Answer and results are final. Waits for `Decided`: the end-of-turn hook."""

    run: Run
    after: After
    message: AssistantMessage
    results: tuple[ToolResultMessage, ...]
    tools_left: bool
    terminated: bool


@final
class Steering(Struct, frozen=True, gc=False):
    """The turn is over. Waits for `Drained`: steering. `turn`: what the next-turn hook will be told, if there is
    one.
    """

    run: Run
    turn: Turn | None
    tools_left: bool
    wants_more: bool
    ends: EndReason


@final
class FollowUp(Struct, frozen=True, gc=False):
    """Nothing asks for a further request. Waits for `Drained`: follow-ups."""

    run: Run
    turn: Turn | None
    wants_more: bool
    ends: EndReason


@final
class Preparing(Struct, frozen=True, gc=False):
    """A further turn will come. Waits for `Prepared`: the next-turn hook.

    `asked`: tools or the host ask for the turn; otherwise only what is pending does.
    """

    run: Run
    pending: tuple[Message, ...]
    polls_again: bool
    asked: bool
    ends: EndReason


@final
class Limited(Struct, frozen=True, gc=False):
    """A bound forbids the further request. Waits for `Looked`: listeners of the turn's end may have aborted."""

    run: Run
    limit: LimitReached


@final
class Latecomers(Struct, frozen=True, gc=False):
    """Waits for `Drained`: steering that came during preparation."""

    run: Run
    prepared: tuple[Message, ...]


@final
class Ended(Struct, frozen=True):
    """The run is over."""

    run: Run
    reason: EndReason
    limit: LimitReached | None = None


State: TypeAlias = (
    Idle
    | Opening
    | Composing
    | Asking
    | Requesting
    | Responding
    | Checking
    | Executing
    | Finishing
    | Limited
    | Steering
    | FollowUp
    | Preparing
    | Latecomers
    | Ended
)

# ---- inputs ---------------------------------------------------------------------------------------------------------
# `at` is the time in ms since the epoch: the core reads no clock.


@final
class Prompt(Struct, frozen=True, kw_only=True):
    """Begin. `continuing`: no new message, ask from the transcript as it is."""

    run: Run
    messages: tuple[Message, ...]
    continuing: bool = False
    polls_first: bool = True
    at: int


@final
class Drained(Struct, frozen=True, gc=False):
    """What a poll took from a queue."""

    messages: tuple[Message, ...]
    at: int


@final
class RequestPrepared(Struct, frozen=True, gc=False):
    update: RequestUpdate | None


@final
class Composed(Struct, frozen=True):
    """The request is complete. `transcript` only if a hook was allowed to change the live list, and did."""

    request: ModelRequest
    at: int = 0
    transcript: Transcript | None = None


@final
class Answered(Struct, frozen=True, gc=False):
    """The final message of a response, however the stream gave it."""

    message: AssistantMessage


@final
class Checked(Struct, frozen=True, gc=False):
    """The next call of the batch was checked. `refusal`: what it gets instead of an execution."""

    refusal: Outcome | None
    at: int


@final
class Progress(Struct, frozen=True, gc=False):
    position: int
    partial_result: Any


@final
class Finished(Struct, frozen=True, gc=False):
    position: int
    outcome: Outcome
    at: int


@final
class Decided(Struct, frozen=True, gc=False):
    """The end-of-turn hook has spoken. `queued`: messages are known to wait in a queue."""

    action: Any
    queued: bool
    at: int


@final
class Looked(Struct, frozen=True, gc=False):
    """Everybody has heard of what happened so far; an abort was told before."""


@final
class Prepared(Struct, frozen=True, gc=False):
    update: NextTurn | None
    at: int


@final
class Withdrawn(Struct, frozen=True, gc=False):
    """These messages were taken from a queue, and have been cleared before they were announced."""

    messages: tuple[Message, ...]


@final
class Interrupt(Struct, frozen=True, gc=False):
    """The run is no longer wanted. Legal in every state of a run."""

    reason: str


@final
class Fault(Struct, frozen=True, gc=False):
    """Foreign code failed in a way that the run does not survive.

    `withdrawn`: calls that were allowed, not begun. `critical`: it was a listener that the run cannot do without.
    """

    text: str
    at: int
    withdrawn: tuple[int, ...] = ()
    critical: bool = False


Input: TypeAlias = (
    Prompt
    | Drained
    | RequestPrepared
    | Composed
    | Start
    | Growth
    | Answered
    | Checked
    | Progress
    | Finished
    | Decided
    | Looked
    | Prepared
    | Withdrawn
    | Interrupt
    | Fault
)

# ---- commands -------------------------------------------------------------------------------------------------------


@final
class Deliver(Struct, frozen=True, gc=False):
    """Tell this `message_end`, and take its message from the head of the lease: it is in the transcript now."""

    event: AgentEvent


@final
class Commit(Struct, frozen=True, gc=False):
    """What is leased will be announced now: it can no longer be cleared."""


@final
class GiveBack(Struct, frozen=True, gc=False):
    """These messages were taken and not announced. `leased` go back to their queue, `prepared` are named as
    undelivered.
    """

    leased: tuple[Message, ...]
    prepared: tuple[Message, ...]


@final
class Drain(Struct, frozen=True, gc=False):
    queue: QueueName


@final
class PrepareRequest(Struct, frozen=True):
    run: Run


@final
class Compose(Struct, frozen=True):
    run: Run


@final
class CallModel(Struct, frozen=True):
    request: ModelRequest


@final
class Preflight(Struct, frozen=True):
    position: int
    call: ToolCall
    message: AssistantMessage
    run: Run


@final
class StartTool(Struct, frozen=True, gc=False):
    position: int
    call: ToolCall


@final
class AskDecision(Struct, frozen=True):
    turn: Turn


@final
class LookAgain(Struct, frozen=True, gc=False):
    """Come back when the events before this are told. Nobody is asked."""


@final
class PrepareNext(Struct, frozen=True):
    turn: Turn


Question: TypeAlias = (
    Drain | PrepareRequest | Compose | CallModel | Preflight | StartTool | AskDecision | LookAgain | PrepareNext
)
Command: TypeAlias = AgentEvent | Commit | Deliver | GiveBack | Question

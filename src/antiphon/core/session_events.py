"""What a conversation says besides its runs: queues, retries, compactions, settings, and that it has settled.

They stand on the ground floor because extensions and modes both read them. Names on the wire: modes specification, 7.
A listener of a session is told `SessionEvent`s: the events of runs (`core/events`), `RunEnded` in place of the core's
`agent_end`, and what is defined here. After `agent_settled` nothing follows by itself.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.events import (
    AgentStart,
    EventBase,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from antiphon.core.messages import Message
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject, JsonValue, Wire

CompactionReason: TypeAlias = Literal["manual", "threshold", "overflow"]
ChangeSource: TypeAlias = Literal["set", "cycle", "restore", "extension"]
ReplacementReason: TypeAlias = Literal["startup", "new", "resume", "fork", "reload"]
BudgetName: TypeAlias = Literal["turns", "tool_calls", "tokens", "cost", "seconds", "progress"]


@final
class RunEnded(EventBase, frozen=True, kw_only=True, gc=False, tag="agent_end"):
    """A low-level run is over. `messages` are those of this run only; `will_retry`: it failed and is repeated."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: tuple[Message, ...]
    will_retry: bool


@final
class AgentSettled(EventBase, frozen=True, kw_only=True, gc=False, tag="agent_settled"):
    """Retries, compactions and continuations of an accepted prompt are over. Exactly once per accepted prompt, last."""

    type: ClassVar[Literal["agent_settled"]] = "agent_settled"
    aborted: bool


@final
class QueuedItem(Wire, frozen=True, kw_only=True, gc=False):
    """A message of the user that waits. `id` is the one that queueing gave."""

    id: str
    kind: Literal["steering", "followUp"]
    text: str
    has_images: bool = False


@final
class QueueUpdate(EventBase, frozen=True, kw_only=True, gc=False, tag="queue_update"):
    """What waits now, all of it, after every change. The texts once more by queue, for readers that know no items."""

    type: ClassVar[Literal["queue_update"]] = "queue_update"
    steering: tuple[str, ...]
    follow_up: tuple[str, ...]
    items: tuple[QueuedItem, ...] = ()


@final
class EntryAppended(EventBase, frozen=True, kw_only=True, gc=False, tag="entry_appended"):
    """An entry that is no message was stored. `entry` is a value of `session_log.entries`."""

    type: ClassVar[Literal["entry_appended"]] = "entry_appended"
    entry: Any


@final
class SessionInfoChanged(EventBase, frozen=True, kw_only=True, gc=False, tag="session_info_changed"):
    """The conversation has another name; absent: it has none any more."""

    type: ClassVar[Literal["session_info_changed"]] = "session_info_changed"
    name: str | UnsetType = UNSET


@final
class ThinkingLevelChanged(EventBase, frozen=True, kw_only=True, gc=False, tag="thinking_level_changed"):
    type: ClassVar[Literal["thinking_level_changed"]] = "thinking_level_changed"
    level: ThinkingLevel


@final
class ModelChanged(EventBase, frozen=True, kw_only=True, gc=False, tag="model_changed"):
    """Another model answers from the next request on."""

    type: ClassVar[Literal["model_changed"]] = "model_changed"
    model: Model
    thinking_level: ThinkingLevel
    source: ChangeSource


@final
class SessionChanged(EventBase, frozen=True, kw_only=True, gc=False, tag="session_changed"):
    """Another conversation is the current one. Told to listeners of the runtime, before anything of the new one."""

    type: ClassVar[Literal["session_changed"]] = "session_changed"
    session_id: str
    session_file: str | UnsetType = UNSET
    reason: ReplacementReason


@final
class CompactionResult(Wire, frozen=True, kw_only=True, gc=False):
    """What a compaction has stored. `estimated_tokens_after`: how long the context is now."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    estimated_tokens_after: int
    usage: Usage | UnsetType = UNSET
    details: Any | UnsetType = UNSET


@final
class CompactionStart(EventBase, frozen=True, kw_only=True, gc=False, tag="compaction_start"):
    type: ClassVar[Literal["compaction_start"]] = "compaction_start"
    reason: CompactionReason


@final
class CompactionEnd(EventBase, frozen=True, kw_only=True, gc=False, tag="compaction_end"):
    """`result` only if something was stored. `will_retry`: the answer that did not fit is asked for again."""

    type: ClassVar[Literal["compaction_end"]] = "compaction_end"
    reason: CompactionReason
    result: CompactionResult | UnsetType = UNSET
    aborted: bool
    will_retry: bool
    error_message: str | UnsetType = UNSET


@final
class AutoRetryStart(EventBase, frozen=True, kw_only=True, gc=False, tag="auto_retry_start"):
    """A failed answer will be asked for again in `delay_ms`; from now on the wait can be cancelled."""

    type: ClassVar[Literal["auto_retry_start"]] = "auto_retry_start"
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


@final
class AutoRetryEnd(EventBase, frozen=True, kw_only=True, gc=False, tag="auto_retry_end"):
    type: ClassVar[Literal["auto_retry_end"]] = "auto_retry_end"
    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


@final
class SummarizationRetryScheduled(EventBase, frozen=True, kw_only=True, gc=False, tag="summarization_retry_scheduled"):
    type: ClassVar[Literal["summarization_retry_scheduled"]] = "summarization_retry_scheduled"
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


@final
class SummarizationRetryAttemptStart(
    EventBase, frozen=True, kw_only=True, gc=False, tag="summarization_retry_attempt_start"
):
    type: ClassVar[Literal["summarization_retry_attempt_start"]] = "summarization_retry_attempt_start"
    source: Literal["compaction", "branchSummary"]
    reason: CompactionReason | UnsetType = UNSET


@final
class SummarizationRetryFinished(EventBase, frozen=True, kw_only=True, gc=False, tag="summarization_retry_finished"):
    type: ClassVar[Literal["summarization_retry_finished"]] = "summarization_retry_finished"


@final
class BashExecutionUpdate(EventBase, frozen=True, kw_only=True, gc=False, tag="bash_execution_update"):
    """Output of a command that the user runs. `id` is the one the caller gave, any JSON."""

    type: ClassVar[Literal["bash_execution_update"]] = "bash_execution_update"
    id: JsonValue | UnsetType = UNSET
    delta: str


@final
class ApprovalRequested(EventBase, frozen=True, kw_only=True, gc=False, tag="approval_requested"):
    """A tool call waits for a person. It is stored, so it may be answered later, and from another process."""

    type: ClassVar[Literal["approval_requested"]] = "approval_requested"
    id: str
    tool_call_id: str
    tool_name: str
    args: JsonObject
    question: str | UnsetType = UNSET


@final
class ApprovalAnswered(EventBase, frozen=True, kw_only=True, gc=False, tag="approval_answered"):
    """`args` if they were edited; `reason` is what the model is told of a refusal."""

    type: ClassVar[Literal["approval_answered"]] = "approval_answered"
    id: str
    approved: bool
    args: JsonObject | UnsetType = UNSET
    reason: str | UnsetType = UNSET


@final
class BudgetReached(EventBase, frozen=True, kw_only=True, gc=False, tag="budget_reached"):
    """A budget is nearly (`hard` false: the model was told) or wholly used up (the work stops at this boundary)."""

    type: ClassVar[Literal["budget_reached"]] = "budget_reached"
    name: BudgetName
    hard: bool
    allowed: float
    used: float


@final
class ExtensionError(EventBase, frozen=True, kw_only=True, gc=False, tag="extension_error"):
    """Code of an extension, or a listener, failed; the conversation goes on."""

    type: ClassVar[Literal["extension_error"]] = "extension_error"
    extension_path: str
    event: str
    error: str


OwnSessionEvent: TypeAlias = (
    RunEnded
    | AgentSettled
    | QueueUpdate
    | EntryAppended
    | SessionInfoChanged
    | ThinkingLevelChanged
    | ModelChanged
    | SessionChanged
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | SummarizationRetryScheduled
    | SummarizationRetryAttemptStart
    | SummarizationRetryFinished
    | BashExecutionUpdate
    | ApprovalRequested
    | ApprovalAnswered
    | BudgetReached
    | ExtensionError
)
SessionEvent: TypeAlias = (
    AgentStart
    | TurnStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | TurnEnd
    | OwnSessionEvent
)
"""Everything that a listener of a session may be told."""

"""What extensions may be asked while a conversation goes on, and what they may answer.

Every hook may be a plain or an async function; `None`, or a field left out, means "no wish". A hook that fails is
reported and changes nothing, except `tool_call`, which then blocks the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

from msgspec import Struct, field

from antiphon.core.content import Content, Image
from antiphon.core.hooks import AfterHook, BeforeHook
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.session_events import CompactionReason
from antiphon.core.usage import Usage
from antiphon.session.ports import Source, StreamingBehavior


@final
class InputGiven(Struct, frozen=True):
    """What the user said, before anything was made of it."""

    text: str
    images: tuple[Image, ...]
    source: Source
    streaming_behavior: StreamingBehavior | None


@final
class InputAnswer(Struct, frozen=True):
    """`handled`: there is nothing left to do. `transform`: go on with these."""

    action: Literal["continue", "transform", "handled"] = "continue"
    text: str = ""
    images: tuple[Image, ...] | None = None


@final
class StartGiven(Struct, frozen=True):
    """A run is about to start, with `message`. `sections` of the prompt may be changed in place."""

    message: Message | None
    system_prompt: str
    sections: dict[str, str]


@final
class StartAnswer(Struct, frozen=True):
    """`messages` follow the starting one. `system_prompt` is sent verbatim for this run, and not stored."""

    messages: tuple[Message, ...] = ()
    system_prompt: str | None = None


@final
class TurnGiven(Struct, frozen=True):
    """A finished turn, stored already. `entry_id`: of the answer."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]
    entry_id: str | None


@final
class BoundaryAnswer(Struct, frozen=True):
    """`go_on`: at least one more request. `entries` are stored in this order, all or none."""

    go_on: bool = False
    entries: tuple[Draft, ...] = ()


@final
class CustomDraft(Struct, frozen=True):
    """State that no model sees."""

    custom_type: str
    data: Any


@final
class CustomMessageDraft(Struct, frozen=True):
    """A message that the model reads as the user's."""

    custom_type: str
    content: str | Content
    display: bool = True
    details: Any = None


@final
class EditDraft(Struct, frozen=True):
    """Other content for an entry of the active path, or (None) none."""

    target_id: str
    content: str | Content | None


@final
class CompactionDraft(Struct, frozen=True):
    """A summary that stands for what came before `first_kept_id` (None: for everything)."""

    summary: str
    first_kept_id: str | None
    tokens_before: int | None = None
    details: Any = None
    usage: Usage | None = None


Draft: TypeAlias = CustomDraft | CustomMessageDraft | EditDraft | CompactionDraft


@final
class CompactGiven(Struct, frozen=True):
    """A compaction is about to be made. `preparation`: what would be summarised."""

    preparation: Any
    instructions: str | None
    reason: CompactionReason
    will_retry: bool
    signal: AbortSignal


@final
class CompactAnswer(Struct, frozen=True):
    """`cancel` it, or give the summary."""

    cancel: bool = False
    compaction: CompactionDraft | None = None


@final
class TreeGiven(Struct, frozen=True):
    """The position in the tree is about to change."""

    target_id: str
    old_leaf_id: str | None
    common_ancestor_id: str | None
    entry_ids: tuple[str, ...]
    wants_summary: bool
    instructions: str | None
    signal: AbortSignal


@final
class TreeAnswer(Struct, frozen=True):
    """`cancel` it, or give the summary of what is left."""

    cancel: bool = False
    summary: str | None = None
    details: Any = None


@final
class ShellGiven(Struct, frozen=True):
    """A command of the user."""

    command: str
    exclude_from_context: bool
    cwd: str


@final
class ShellResult(Struct, frozen=True, kw_only=True):
    """What has come of it. `exit_code` None: it did not exit by itself."""

    output: str
    exit_code: int | None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None


Maybe: TypeAlias = Any  # a value, nothing, or an awaitable of either; the names of the hooks say which


@final
class Command(Struct, frozen=True):
    """What `/name rest` does. It runs at once, also while the model works."""

    handler: Callable[[str], Any]
    description: str = ""


@final
class SessionHooks(Struct, frozen=True, kw_only=True):
    """What extensions want to be asked. Each is one function: whoever has many handlers runs them in order behind it.

    `tool_call`/`tool_result` are hooks of the loop. `message_end` may give another message of the same role, which is
    stored in place of the given one. `context` sees messages without system ones, `context_with_system` all of them.
    `user_bash` may give a `ShellResult` instead of running the command. `before_switch` and `before_fork` give False
    to refuse.
    """

    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])
    input: Callable[[InputGiven], Maybe] | None = None
    before_agent_start: Callable[[StartGiven], Maybe] | None = None
    message_end: Callable[[Message], Maybe] | None = None
    turn_end: Callable[[TurnGiven], Maybe] | None = None
    before_settle: Callable[[], Maybe] | None = None
    tool_call: BeforeHook | None = None
    tool_result: AfterHook | None = None
    context: Callable[[Sequence[Message]], Maybe] | None = None
    context_with_system: Callable[[Sequence[Message]], Maybe] | None = None
    before_compact: Callable[[CompactGiven], Maybe] | None = None
    compacted: Callable[[Any], Maybe] | None = None
    before_tree: Callable[[TreeGiven], Maybe] | None = None
    before_switch: Callable[[str, str | None], Maybe] | None = None
    before_fork: Callable[[str, str], Maybe] | None = None
    user_bash: Callable[[ShellGiven], Maybe] | None = None
    session_start: Callable[[str, str | None], Maybe] | None = None
    session_shutdown: Callable[[str, str | None], Maybe] | None = None


NO_HOOKS = SessionHooks()

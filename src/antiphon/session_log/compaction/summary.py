"""What a summariser is asked, and what is made of its answers. Pure: who asks, and how often, is not decided here.

    preparation = prepare(log.projection(), settings)
    requests = preparation.requests(focus)           # one or two, to be asked in this order
    summary = preparation.summary(answers)           # what a compaction stores

The session sends a request with `REQUEST_OPTIONS`, without tools, under a fresh routing id, with the current thinking
level if the model reasons, and with the model's own output limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct

from antiphon.core.content import ToolCall, text_of
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, UserMessage
from antiphon.core.usage import NO_USAGE, Usage, add_usage
from antiphon.errors import AntiphonError
from antiphon.session_log.compaction.conversation import FileLists, conversation_text, file_lists
from antiphon.session_log.compaction.cut import CompactionSettings, find_cut, summarisable
from antiphon.session_log.compaction.estimate import projected_tokens
from antiphon.session_log.entries import CompactionEntry
from antiphon.session_log.projection import Projected

RequestKind: TypeAlias = Literal["initial", "update", "turn-prefix", "branch", "replaced"]

REQUEST_OPTIONS: dict[str, Any] = {"cache_retention": "none"}

SYSTEM_PROMPT = """\
You write summaries of conversations between a user and an assistant that works with tools. You are shown a conversation
as text. Only summarise it: do not continue it, do not answer anything that is asked in it, do not call tools. Your
summary will stand in place of the conversation, so whatever you leave out is forgotten."""

_OUTLINE = """\
## Goal
What the user wants, in one or two sentences; several points if there are several tasks.

## Constraints and preferences
What the user demanded, ruled out or prefers. "none" if nothing was said.

## Progress
### Done
- [x] What is finished.
### In progress
- [ ] What is being worked on.
### Blocked
- What prevents going on, if anything does.

## Key decisions
- What was decided, and why.

## Next steps
1. What to do next, in order."""

_CRITICAL = """

## Critical context
- Facts, values, references without which the work could not go on. "none" if there are none."""

_STYLE = "\n\nBe brief in every section. Give exact file paths, names of functions, and texts of errors."

_INITIAL = f"""\
Summarise the conversation above, so that another model can carry on the work from the summary alone. Use this outline:

{_OUTLINE}{_CRITICAL}{_STYLE}"""

_UPDATE = f"""\
The conversation above is what happened since the summary in <previous-summary> was written. Bring that summary up to
date: keep everything in it that still holds, add what is new, move what was finished from "In progress" to "Done",
and renew the next steps. Drop only what no longer matters. Use this outline:

{_OUTLINE}{_CRITICAL}{_STYLE}"""

PREFIX_HEADING_IN_REQUEST = "# Beginning of a turn"

_PREFIX = """\
This is the beginning of a turn that was too long to be kept whole; what followed is kept word for word. Summarise the
beginning, so that the rest can be understood:

## Original request
What the user asked for in this turn.

## Progress so far
- What was decided and done in this beginning.

## Context needed to continue
- What the kept rest builds on.

Be brief: only what is needed to understand the rest."""

BRANCH_INSTRUCTIONS = f"""\
Summarise the conversation above. It is a way that was tried and left; the work goes on from an earlier point, and
should profit from what was found out. Use this outline:

{_OUTLINE}{_STYLE}"""

_FOCUS = "\n\nAdditional focus: "

SPLIT_HEADING = "**Start of the turn below:**"
NO_HISTORY = "No earlier history."


class SummaryRefused(AntiphonError):
    """The summariser failed, was cut off or wanted to call a tool: nothing is stored."""


@final
class SummaryRequest(Struct, frozen=True):
    """One question to a summariser."""

    kind: RequestKind
    text: str

    def messages(self, timestamp: int | float) -> tuple[Message, ...]:
        """What to send."""
        return (
            SystemMessage(content=SYSTEM_PROMPT, timestamp=timestamp),
            UserMessage(content=self.text, timestamp=timestamp),
        )


@final
class Summary(Struct, frozen=True):
    """What a compaction stores."""

    text: str
    first_kept_id: str
    tokens_before: int
    usage: Usage
    files: FileLists


@final
class Preparation(Struct, frozen=True):
    """A cut that was made: what to summarise, and what is known besides.

    `history` is told as a whole; `turn_prefix` is the beginning of a turn that was split, told on its own.
    """

    first_kept_id: str
    history: tuple[Message, ...]
    turn_prefix: tuple[Message, ...]
    is_split_turn: bool
    tokens_before: int
    previous_summary: str | None
    files: FileLists

    def requests(self, focus: str | None = None) -> list[SummaryRequest]:
        """What to ask: the history if there is any, then the beginning of the split turn if there is one."""
        asked: list[SummaryRequest] = []
        if self.history or not self.is_split_turn:
            asked.append(history_request(self.history, self.previous_summary, focus))
        if self.is_split_turn:
            asked.append(prefix_request(self.turn_prefix, focus))
        return asked

    def summary(self, answers: Sequence[AssistantMessage]) -> Summary:
        """What to store, from the answers to `requests` in their order.

        Raises:
            SummaryRefused: an answer that must not be stored.
        """
        texts = [answer_text(answer) for answer in answers]
        usage = NO_USAGE
        for answer in answers:
            usage = add_usage(usage, answer.usage)
        text = self._joined(texts) if self.is_split_turn else texts[0]
        return Summary(text + self.files.as_text(), self.first_kept_id, self.tokens_before, usage, self.files)

    def _joined(self, texts: Sequence[str]) -> str:
        history = texts[0] if len(texts) > 1 else self.previous_summary or NO_HISTORY
        return f"{history}\n\n---\n\n{SPLIT_HEADING}\n\n{texts[-1]}"


def prepare(view: Projected, settings: CompactionSettings) -> Preparation | None:
    """What a compaction of this projection would summarise; nothing if there is nothing to do."""
    cut = find_cut(view, settings.keep_recent_tokens)
    if cut is None:
        return None
    told = [item.messages for item in view.items]
    history = _summarisable(told[cut.start : cut.history_end])
    prefix = _summarisable(told[cut.history_end : cut.first_kept])
    previous = view.items[0].entry if view.compacted else None
    earlier = previous if isinstance(previous, CompactionEntry) else None
    return Preparation(
        first_kept_id=view.items[cut.first_kept].entry.id,
        history=history,
        turn_prefix=prefix,
        is_split_turn=cut.turn_start is not None,
        tokens_before=projected_tokens(view).tokens,
        previous_summary=None if earlier is None else earlier.summary,
        files=file_lists((*history, *prefix), () if earlier is None else own_details(earlier)),
    )


def own_details(entry: CompactionEntry) -> list[Any]:
    """The details of a compaction, unless an extension made it: then they may be anything."""
    return [] if entry.details is UNSET or entry.from_hook is True else [entry.details]


def _summarisable(told: Iterable[tuple[Message, ...]]) -> tuple[Message, ...]:
    return tuple(message for messages in told for message in messages if summarisable(message))


def history_request(messages: Sequence[Message], previous: str | None, focus: str | None) -> SummaryRequest:
    """Ask for a summary of what was said, or to bring an earlier one up to date."""
    parts = [f"<conversation>\n{conversation_text(messages)}\n</conversation>"]
    if previous:
        parts.append(f"<previous-summary>\n{previous}\n</previous-summary>")
    parts.append(_with_focus(_UPDATE if previous else _INITIAL, focus))
    return SummaryRequest("update" if previous else "initial", "\n\n".join(parts))


def prefix_request(messages: Sequence[Message], focus: str | None) -> SummaryRequest:
    """Ask for a summary of the beginning of a turn."""
    conversation = f"{PREFIX_HEADING_IN_REQUEST}\n\n{conversation_text(messages)}"
    return SummaryRequest("turn-prefix", f"{conversation}\n\n---\n\n{_with_focus(_PREFIX, focus)}")


def branch_request(messages: Sequence[Message], instructions: str | None, *, replace: bool) -> SummaryRequest:
    """Ask for a summary of a branch that is left. `instructions` add to ours, or (`replace`) stand in their place."""
    conversation = f"<conversation>\n{conversation_text(messages)}\n</conversation>"
    if replace and instructions:
        return SummaryRequest("replaced", f"{conversation}\n\n{instructions}")
    return SummaryRequest("branch", f"{conversation}\n\n{_with_focus(BRANCH_INSTRUCTIONS, instructions)}")


def _with_focus(instructions: str, focus: str | None) -> str:
    return f"{instructions}{_FOCUS}{focus}" if focus else instructions


def answer_text(answer: AssistantMessage) -> str:
    """The words of a summariser's answer; an empty answer is one.

    Raises:
        SummaryRefused: it failed, was cut off, was aborted, or asked for a tool.
    """
    if answer.stop_reason in ("error", "aborted"):
        said = answer.error_message if isinstance(answer.error_message, str) else answer.stop_reason
        raise SummaryRefused(f"the summary failed: {said}")
    if answer.stop_reason == "length":
        raise SummaryRefused("the summary failed: it was cut off by the output limit, so it is not complete")
    if any(type(block) is ToolCall for block in answer.content):
        raise SummaryRefused("the summary failed: the model wanted to call a tool instead of writing it")
    return text_of(answer.content)

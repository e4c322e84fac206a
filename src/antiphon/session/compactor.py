"""Compactions: told, asked for, stored. When it is time, and where to cut, is decided below."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, final

from msgspec import UNSET, UnsetType

from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.ports import AbortSignal
from antiphon.core.session_events import (
    CompactionEnd,
    CompactionReason,
    CompactionResult,
    CompactionStart,
    SummarizationRetryAttemptStart,
    SummarizationRetryFinished,
    SummarizationRetryScheduled,
)
from antiphon.core.usage import NO_USAGE
from antiphon.session.context_size import ends_with_compaction
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import CompactAnswer, CompactGiven, CompactionDraft
from antiphon.session.one_answer import Question, RetryNews, ask_once, ask_with_retries
from antiphon.session.phases import CompactionOutcome
from antiphon.session.refusals import (
    AlreadyCompacted,
    CompactionAborted,
    CompactionFailed,
    NoModel,
    NothingToCompact,
)
from antiphon.session_log.compaction import Preparation, SummaryRefused, SummaryRequest, prepare
from antiphon.session_log.compaction.summary import REQUEST_OPTIONS, answer_text
from antiphon.session_log.entries import CompactionEntry

_FAILED: dict[CompactionReason, str] = {
    "manual": "Compaction failed",
    "threshold": "Auto-compaction failed",
    "overflow": "Context overflow recovery failed",
}


@final
class Summarizer:
    """Asks the model of a conversation for summaries, again after failures that pass."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    async def answers(
        self,
        requests: Sequence[SummaryRequest],
        signal: AbortSignal,
        announce: SummarizationRetryAttemptStart,
    ) -> list[AssistantMessage]:
        """The answers in order; asking stops at the first that cannot be used.

        Raises:
            SummaryRefused: an answer that must not be stored.
            CompactionAborted: it is no longer wanted.
            NoModel: there is nobody to ask.
        """
        given: list[AssistantMessage] = []
        for request in requests:
            answer = await self._ask(request, signal, announce)
            if signal.aborted:
                raise CompactionAborted
            answer_text(answer)
            given.append(answer)
        return given

    async def _ask(
        self, request: SummaryRequest, signal: AbortSignal, announce: SummarizationRetryAttemptStart
    ) -> AssistantMessage:
        c = self._conversation
        question = await self._question(request.messages(c.clock.now_ms()))

        def tell(news: RetryNews) -> None:
            match news.kind:
                case "scheduled":
                    retry = news.retry
                    c.emit(
                        SummarizationRetryScheduled(
                            attempt=retry.attempt,
                            max_attempts=retry.max_attempts,
                            delay_ms=retry.delay_ms,
                            error_message=retry.error,
                        )
                    )
                case "attempt_start":
                    c.emit(announce)
                case "finished":
                    c.emit(SummarizationRetryFinished())

        return await ask_with_retries(
            lambda: ask_once(question, c.models.stream, signal, c.clock),
            c.settings.retry,
            tell,
            signal=signal,
            clock=c.clock,
            context_window=c.context_window,
        )

    async def _question(self, messages: tuple[Message, ...]) -> Question:
        c = self._conversation
        model = c.model
        if model is None:
            raise NoModel
        key = c.models.api_key(model.provider)
        options: Mapping[str, Any] = {**c.settings.request_options, **REQUEST_OPTIONS}
        return Question(
            model=model,
            messages=messages,
            thinking_level=c.agent.thinking_level if model.reasoning else "off",
            options={**options, "max_tokens": model.max_tokens} if model.max_tokens > 0 else options,
            session_id=str(uuid.uuid4()),
            api_key=await key if inspect.isawaitable(key) else key,
        )


@final
class Compactor:
    """Makes compactions of one conversation. Only one at a time: the phase of the conversation sees to that."""

    def __init__(self, conversation: Conversation, summarizer: Summarizer) -> None:
        self._conversation = conversation
        self._summarizer = summarizer

    async def on_request(self, instructions: str | None, signal: AbortSignal) -> CompactionResult:
        """Compact now.

        Raises:
            NothingToCompact, AlreadyCompacted: there is nothing to do.
            CompactionAborted: it was cancelled.
            CompactionFailed: the summary could not be made.
        """
        c = self._conversation
        c.emit(CompactionStart(reason="manual"))
        try:
            result = await self._made(self._prepared(), "manual", instructions, signal, will_retry=False)
        except CompactionFailed as failure:
            self._tell_end("manual", failure, will_retry=False)
            raise
        except BaseException:  # what was begun is told to be over, however it ends
            self._tell_end("manual", CompactionAborted(), will_retry=False)
            raise
        self._tell_end("manual", result, will_retry=False)
        return result

    def _prepared(self) -> Preparation:
        """What there is to summarise.

        Raises:
            NothingToCompact, AlreadyCompacted: nothing.
        """
        c = self._conversation
        view = c.log.projection()
        preparation = prepare(view, c.settings.compaction_for(c.model))
        if preparation is None:
            raise AlreadyCompacted if ends_with_compaction(view) else NothingToCompact
        return preparation

    async def by_itself(self, reason: CompactionReason, signal: AbortSignal, *, will_retry: bool) -> CompactionOutcome:
        """Compact because it is time to. Nothing is told if there is nothing to do."""
        c = self._conversation
        preparation = prepare(c.log.projection(), c.settings.compaction_for(c.model))
        if preparation is None:
            return "nothing"
        c.emit(CompactionStart(reason=reason))
        try:
            result = await self._made(preparation, reason, None, signal, will_retry=will_retry)
        except CompactionFailed as failure:
            self._tell_end(reason, failure, will_retry=False)
            return "aborted" if isinstance(failure, CompactionAborted) else "failed"
        except BaseException:  # what was begun is told to be over, however it ends
            self._tell_end(reason, CompactionAborted(), will_retry=False)
            raise
        self._tell_end(reason, result, will_retry=will_retry)
        return "done"

    def _tell_end(
        self, reason: CompactionReason, came: CompactionResult | CompactionFailed, *, will_retry: bool
    ) -> None:
        result: CompactionResult | UnsetType = UNSET
        text: str | UnsetType = UNSET
        if isinstance(came, CompactionResult):
            result = came
        elif not isinstance(came, CompactionAborted):
            text = f"{_FAILED[reason]}: {came}"
        self._conversation.emit(
            CompactionEnd(
                reason=reason,
                result=result,
                aborted=isinstance(came, CompactionAborted),
                will_retry=will_retry,
                error_message=text,
            )
        )

    async def _made(
        self,
        preparation: Preparation,
        reason: CompactionReason,
        instructions: str | None,
        signal: AbortSignal,
        *,
        will_retry: bool,
    ) -> CompactionResult:
        """The compaction, stored.

        Raises:
            CompactionFailed: why it is not.
        """
        await self._conversation.told()
        await asyncio.sleep(0)  # whoever reacts to the start in a task of its own may still stop it before a request
        if signal.aborted:
            raise CompactionAborted
        given = CompactGiven(preparation, instructions, reason, will_retry, signal)
        draft = await self._wished(given)
        from_hook = draft is not None
        if draft is None:
            draft = await self._summarized(preparation, reason, instructions, signal)
        if signal.aborted:
            raise CompactionAborted
        return self._store(draft, preparation, from_hook=from_hook)

    async def _wished(self, given: CompactGiven) -> CompactionDraft | None:
        """What an extension wants stored, if it does."""
        c = self._conversation
        hook = c.hooks.before_compact
        if hook is None:
            return None
        try:
            answer = hook(given)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the border to extensions
            c.report("session_before_compact", error, hook)
            return None
        if not isinstance(answer, CompactAnswer):
            return None
        if answer.cancel:
            raise CompactionAborted
        return answer.compaction

    async def _summarized(
        self, preparation: Preparation, reason: CompactionReason, instructions: str | None, signal: AbortSignal
    ) -> CompactionDraft:
        announce = SummarizationRetryAttemptStart(source="compaction", reason=reason)
        try:
            answers = await self._summarizer.answers(preparation.requests(instructions), signal, announce)
            summary = preparation.summary(answers)
        except (SummaryRefused, NoModel) as refused:
            raise CompactionFailed(str(refused)) from refused
        return CompactionDraft(
            summary.text,
            summary.first_kept_id,
            summary.tokens_before,
            summary.files.details(),
            None if summary.usage is NO_USAGE else summary.usage,
        )

    def _store(self, draft: CompactionDraft, preparation: Preparation, *, from_hook: bool) -> CompactionResult:
        c = self._conversation
        tokens_before = preparation.tokens_before if draft.tokens_before is None else draft.tokens_before
        details = UNSET if draft.details is None else draft.details
        usage = UNSET if draft.usage is None else draft.usage
        entry_id = c.log.append_compaction(
            draft.summary,
            draft.first_kept_id,
            tokens_before,
            details=details,
            usage=usage,
            from_hook=True if from_hook else UNSET,
        )
        entry = c.log.entry(entry_id)
        if c.hooks.compacted is not None:
            self._notify(entry)
        kept = entry.first_kept_entry_id if isinstance(entry, CompactionEntry) else UNSET
        return CompactionResult(
            summary=draft.summary,
            first_kept_entry_id=entry_id if kept is UNSET else kept,
            tokens_before=tokens_before,
            estimated_tokens_after=c.log.context_tokens().tokens,
            usage=usage,
            details=details,
        )

    def _notify(self, entry: Any) -> None:
        c = self._conversation
        hook = c.hooks.compacted
        try:
            if hook is not None:
                hook(entry)
        except Exception as error:  # noqa: BLE001 - the border to extensions
            c.report("session_compact", error, hook)

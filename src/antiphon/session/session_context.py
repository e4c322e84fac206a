"""The face of a session that changes what the model sees: summaries, places in the tree, texts."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from antiphon.core.session_events import CompactionResult
from antiphon.loop.abort import AbortController
from antiphon.session import phases
from antiphon.session.navigation import Navigation, Wish
from antiphon.session.ports import Resources
from antiphon.session.refusals import CompactionInProgress, SessionBusy, SessionDisposed
from antiphon.session.session_talk import SessionTalk


class SessionContext(SessionTalk):
    """Rewriting the context of a conversation."""

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace what was said long ago by a summary. A run is aborted first, and not continued.

        Raises:
            NothingToCompact, AlreadyCompacted: there is nothing to do.
            CompactionFailed, CompactionAborted: it was not done.
        """
        c = self._c
        while not c.is_in(phases.Idle, phases.Disposed):
            self.request_abort("compaction requested")
            await self.wait_for_idle()
        if c.is_in(phases.Disposed):
            raise SessionDisposed
        c.send(phases.CompactionBegan())
        c.work = AbortController()
        done: phases.CompactionOutcome = "failed"
        try:
            result = await self._compactor.on_request(instructions, c.work.signal)
            done = "done"
        finally:
            c.refresh()
            c.send(phases.Compacted(done))
        if result.usage is not UNSET:
            self._budget.charge(result.usage)
        await c.told()
        return result

    async def navigate_tree(
        self,
        target_id: str,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Navigation:
        """Go to another place in the tree: before a message that somebody wrote, behind anything else.

        Raises:
            SessionBusy: a run is active.
            NoSuchEntry, SummaryRefused: why not; nothing has moved.
        """
        c = self._c
        if not c.is_in(phases.Idle):
            busy = SessionBusy("Wait for the run to end, or abort it, before going to another place.")
            raise CompactionInProgress("the context is rewritten") if c.life is None else busy
        c.send(phases.SummaryBegan())
        c.work = AbortController()
        try:
            wish = Wish(
                target_id=target_id,
                summarize=summarize,
                instructions=custom_instructions,
                replace_instructions=replace_instructions,
                label=label,
            )
            navigation = await self._navigator.go(wish, c.work.signal)
        finally:
            c.send(phases.SummaryEnded())
        if not navigation.cancelled:
            self._moved()
        await c.told()
        return navigation

    def _moved(self) -> None:
        """What depends on the branch is read again."""
        c = self._c
        self._has_moved = True
        self._choices.forget_branch()
        c.refresh()
        self._registry.restore([tool.name for tool in c.log.messages().system.tools])
        self._approvals.run_ended()

    def refresh_context(self, resources: Resources) -> None:
        """Other texts for the prompt, skills and templates; the model is told before its next request."""
        self._c.resources = resources

    def export_to_html(self, path: str) -> None:
        """Write the conversation as a page to read."""
        from antiphon.session_log.export import session_html

        Path(path).write_text(session_html(self._c.log), encoding="utf-8")

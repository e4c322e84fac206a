"""Why a conversation cannot do what it was asked. The text is what a person or a program on the wire is told.

MisuseError
├── SessionBusy            a run is active: give a streaming behaviour, or wait
├── CompactionInProgress   a compaction or a branch summary is being written: wait for it
├── ExtensionCommandRefused  a command of an extension cannot be queued: prompt it
├── SessionDisposed        the conversation is closed
├── ApprovalsPending       calls wait for a person: answer them first
└── NoSuchApproval         nothing waits under that id
ConfigurationError
├── NoModel                choose one first
└── NoCredentials          give a key
SessionError
├── NothingToCompact, AlreadyCompacted, CompactionFailed, CompactionAborted
├── NotAForkPoint          the entry is no message of the user
└── NotSavedYet            nothing was said yet, so there is no file
"""

from __future__ import annotations

from antiphon.errors import ConfigurationError, MisuseError, SessionError
from antiphon.providers.local.model import HOW_TO_INSTALL, PROVIDER


class SessionBusy(MisuseError):
    """A run is active; nothing was changed."""

    def __init__(self, what: str = "") -> None:
        advice = "Specify streamingBehavior ('steer' or 'followUp') to queue the message, or wait for the run to end."
        super().__init__(f"Agent is already processing. {what or advice}")


class CompactionInProgress(MisuseError):
    """The context is being rewritten; nothing was changed."""

    def __init__(self, doing: str) -> None:
        super().__init__(f"Not possible while {doing}; wait for it to end, or abort it")


class ExtensionCommandRefused(MisuseError):
    """Commands run at once; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Extension commands cannot be queued; send them as a prompt")


class SessionDisposed(MisuseError):
    """The conversation was closed; make another one."""

    def __init__(self) -> None:
        super().__init__("This session is closed")


class ApprovalsPending(MisuseError):
    """Calls of the last answer wait for approval; nothing was changed."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} tool call(s) wait for approval; answer them first, or send a message to refuse them")


class NoSuchApproval(MisuseError):
    """No call waits for an answer under this id; perhaps it was answered already."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"No approval {approval_id!r} is pending")


class NoModel(ConfigurationError):
    """There is no model to ask."""

    def __init__(self) -> None:
        super().__init__("No model selected; choose one, or set a key so that a default can be chosen")


class NoCredentials(ConfigurationError):
    """The provider of the model needs a key that is not there."""

    def __init__(self, provider: str) -> None:
        if provider == PROVIDER.id:
            super().__init__(f"The embedded model is not installed; {HOW_TO_INSTALL}")
        else:
            super().__init__(f"No API key found for {provider}; set its key, or choose a model of another provider")


class CompactionFailed(SessionError):
    """The summary could not be made; the conversation is as it was."""


class NothingToCompact(CompactionFailed):
    """All of it would be kept."""

    def __init__(self) -> None:
        super().__init__("Nothing to compact (session too small)")


class AlreadyCompacted(CompactionFailed):
    """Nothing was said since the last compaction."""

    def __init__(self) -> None:
        super().__init__("Already compacted")


class CompactionAborted(CompactionFailed):
    """It was cancelled."""

    def __init__(self) -> None:
        super().__init__("Compaction cancelled")


class NotAForkPoint(SessionError):
    """Only messages of the user can be forked before."""

    def __init__(self, entry_id: str) -> None:
        super().__init__(f"Invalid entry ID for forking: {entry_id!r} is no user message of this session")


class NotSavedYet(SessionError):
    """A session without a file cannot be copied from it."""

    def __init__(self) -> None:
        super().__init__("This session is not saved yet; send a message first")

"""Every exception of the project, named for what a caller can do about it.

    AntiphonError
    ├── MisuseError              the program called us wrongly: change the program
    │   ├── AgentBusy            a run is active: steer, follow_up or wait_for_idle
    │   ├── NothingToContinue    no message to answer: prompt instead
    │   ├── CannotContinue       the last message is an answer and nothing is queued: prompt instead
    │   ├── LimitStillReached    raise the limit, then continue
    │   ├── WrongArgument        something given cannot be used: says what, where, what to give
    │   └── WouldDeadlock        a listener waits for its own run: make it a task
    ├── WireError                bytes or JSON that are not what they should be: says what and where
    ├── ProtocolError            a provider, driver or trace broke the rules of the loop
    ├── StreamEnded              an event stream was ended without a result
    ├── StreamBroken             a model stream ended or fell silent without an answer
    ├── RunFault                 what went wrong in foreign code during a run; raised only on request
    └── UserError                bad input from a person: shown as one line, with an exit code
        ├── ConfigurationError   a setting, key, model or path: says which and what to do
        ├── ProviderError        a provider refused or failed: says which, with status and advice
        ├── SessionError         a session file cannot be used as asked
        └── WorkspaceError       a file or process may not, or cannot, be touched as asked

Rooms add leaves of their own: `loop/arguments.ArgumentsRefused`, `tools/faults.ToolFault` and `OperationAborted`,
`session_log/refusals`. What a model can repair is never an
exception of the run: it becomes a tool result.
"""

from __future__ import annotations


class AntiphonError(Exception):
    """Root of all exceptions of this project."""


class MisuseError(AntiphonError):
    """The program used an entry point in a state that forbids it; nothing was changed."""


class AgentBusy(MisuseError):
    """A run of this agent is active."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is refused while a run is active; queue the message with steer() or follow_up(), "
            "or await wait_for_idle() first"
        )


class NothingToContinue(MisuseError):
    """There is no message that a model could answer."""


class CannotContinue(MisuseError):
    """The transcript ends with an answer and no message is queued."""


class LimitStillReached(MisuseError):
    """The limit that ended the last run is still in force."""


class WrongArgument(MisuseError, TypeError, ValueError):
    """Something that was given cannot be used; the text says what, where, and what to give instead."""


class WouldDeadlock(MisuseError):
    """A listener awaited the end of the run that is waiting for this listener."""


class WireError(AntiphonError):
    """A value does not have the shape the wire asks for; the text names the place."""


class ProtocolError(AntiphonError):
    """An input, event or answer that the rules of the loop do not allow at this moment."""


class StreamEnded(AntiphonError):
    """The event stream was ended without a result."""


class StreamBroken(AntiphonError):
    """A model stream ended, or stayed silent, without a final answer."""


class RunFault(AntiphonError):
    """Foreign code failed during a run; `__cause__` is what it raised."""


class UserError(AntiphonError):
    """Bad input from a person. The text is one clear line; `exit_code` is what a command ends with."""

    exit_code = 1


class ConfigurationError(UserError):
    """A setting, key, model name or path that cannot be used."""

    exit_code = 2


class ProviderError(UserError):
    """A model provider could not be reached, refused, or failed."""


class SessionError(UserError):
    """A session cannot be opened, written or continued as asked; its file was left as it was."""


class WorkspaceError(UserError):
    """A file or process may not, or cannot, be touched as asked."""


def words_of(error: BaseException) -> str:
    """What an exception says; nothing if it says nothing, or fails when it is asked."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - it is foreign code as well
        return ""

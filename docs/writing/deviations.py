"""Where the default profile differs from the reference, and why that is safer.

Every field of a policy in which `PI` and `DEFAULT` differ stands in one of these rows; a test compares.
"""

from __future__ import annotations

from antiphon.core.policy import Deviation

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "D1",
        ("check_abort_before_request", "aborted_empty_turn"),
        "the abort signal is not looked at between turns",
        "behind an abort no request leaves and no call starts; a turn without an answer is closed by its event alone",
        "stop means stop: no further cost, no further effects",
    ),
    Deviation(
        "D2",
        ("abort_grace",),
        "a run waits for ever for a tool or stream that ignores the signal",
        "after a grace it is cancelled, then left alone and named in `outcome.abandoned`",
        "a prompt always returns, and says what may have happened",
    ),
    Deviation(
        "D3",
        ("return_undelivered",),
        "a queued message is lost when something fails between taking and telling it",
        "a message leaves its queue when it is in the transcript; else it goes back to the head",
        "the words of a person are not lost",
    ),
    Deviation(
        "D4",
        ("pair_unexecuted", "skip_details"),
        "calls of failed or aborted answers stay without results",
        "every call has one result when the turn ends; `details` says that it did not run, and why",
        "providers refuse unanswered calls: the next prompt would fail",
    ),
    Deviation(
        "D5",
        ("listener_fault",),
        "a listener that raises ends the run and hides the event from the next listeners",
        "the fault is recorded; only a listener declared critical ends the run",
        "an observer is no controller; a store is",
    ),
    Deviation(
        "D6",
        ("duplicate_call_id",),
        "two calls with one id in one answer both run",
        "the first runs, the second is refused at its place",
        "nothing has its effects twice because a model repeated an id",
    ),
    Deviation(
        "D7",
        ("fault_closing",),
        "behind an unexpected error only the failure is told, and what was open stays open",
        "what is open is closed from the inside out, then the failure is told",
        "displays do not hang, and every consumer sees one shape of failure",
    ),
    Deviation(
        "D11",
        ("limits",),
        "no bound of turns",
        "a bound that no honest run reaches",
        "an endless loop ends some day",
    ),
    Deviation(
        "D13",
        ("hook_messages",),
        "hooks get the list that the loop works on",
        "hooks get a snapshot",
        "a hook that changes its list changes no later request by accident",
    ),
    Deviation(
        "–",
        ("on_unknown_stop",),
        "a stop reason that nobody knows counts as `stop`",
        "the stream broke its protocol, and that is told as a failure",
        "a fault of a provider does not look like an answer",
    ),
    Deviation(
        "–",
        ("nameless_error",),
        "an exception without a text gives an empty error text",
        "its class is named",
        "an empty message helps nobody",
    ),
    Deviation(
        "D8, D9, D10, D12, D14, D15",
        (),
        "streams that hang when their producer fails, lists of the caller that grow, follow-ups of the last listener"
        " that wait for ever, a second start that leaves an orphan, listeners that are told half of a sequence",
        "none of these, in every profile",
        "no record needs them",
    ),
)

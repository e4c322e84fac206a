"""Pages about the loop: where profiles differ, decision tables, when a run stops, what the state says when."""

from __future__ import annotations

from inspect import get_annotations
from typing import get_args

from docs.writing.markdown import code, paragraphs, table
from tests.scenarios.state_changes import CHANGES
from tests.scenarios.stops import STOPS

from antiphon.core.calls import CUT_TEXT, SKIP_TEXT
from antiphon.core.policy import (
    DEFAULT,
    DEVIATIONS,
    PI,
    PROFILES,
    STRICT,
    After,
    EndReason,
    Policy,
    RunLimits,
    decision_table,
)

END_REASONS: dict[str, str] = {
    "stop": "the model was done and nothing was queued",
    "length": "the last answer was cut off by the output limit",
    "error": "an answer, a hook or a critical listener failed",
    "aborted": "somebody asked the run to stop, and something was prevented by it",
    "terminated": "every result of the last batch said that no further request is needed",
    "ended_by_host": "the finish hook said `end`",
    "max_turns": "a limit of `RunLimits`",
    "max_tool_calls": "a limit of `RunLimits`: a call was refused for it",
    "max_tokens": "a limit of `RunLimits`",
    "max_cost": "a limit of `RunLimits`",
    "deadline": "`max_seconds` of `RunLimits` was over",
    "no_progress": "`repeat_limit` of `RunLimits`: the same call with the same result again and again",
}


def policy() -> str:
    """Profiles side by side, their decision tables, and why the default differs from the reference."""
    rows = [
        (code(name), *(code(_shown(getattr(profile, name))) for profile in (PI, DEFAULT, STRICT)))
        for name in get_annotations(Policy)
        if name != "name"
    ]
    parts = [
        "# Profiles and policies\n",
        "The loop has one set of rules. A `Policy` answers the questions that they leave open; three are ready: `PI`"
        " does what the reference (Pi 1.6.0) does, `DEFAULT` repairs it where messages or effects could be lost,"
        " `STRICT` is the loop of the course. Give one to `Agent(policy=...)`, or make your own with"
        " `msgspec.structs.replace(DEFAULT, ...)`.\n",
        "## Side by side\n",
        table(("field", "`PI`", "`DEFAULT`", "`STRICT`"), rows),
        "## What follows an answer\n",
        "Why the model stopped, whether the answer asks for calls, and what follows. *Refused* calls do not run and get"
        " an error result each; *goes on* means: results, queues and hooks decide as usual.\n",
        *(_decisions(profile) for profile in PROFILES.values()),
        "## Where the default differs from the reference, and why\n",
        "Each line has a test that shows both: `tests/core/test_deviations.py`.\n",
        table(
            ("", "fields", "reference", "here", "why"),
            [(d.id, ", ".join(map(code, d.fields)) or "–", d.reference, d.ours, d.reason) for d in DEVIATIONS],
        ),
        "## Limits of a run\n",
        paragraphs(RunLimits.__doc__) + "\n",
        table(
            ("field", "type", "default"),
            [
                (code(name), code(str(kind).replace(" | None", "")), code(getattr(RunLimits(), name)))
                for name, kind in get_annotations(RunLimits).items()
            ],
        ),
    ]
    return "\n".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, RunLimits):
        given = {name: getattr(value, name) for name in get_annotations(RunLimits)}
        return ", ".join(f"{k}={v:,}" for k, v in given.items() if v not in (None, ())) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _decisions(profile: Policy) -> str:
    decisions = decision_table(profile)
    reasons = list(dict.fromkeys(reason for reason, _ in decisions))
    rows = [
        (code(r), _after(decisions[r, False], has_calls=False), _after(decisions[r, True], has_calls=True))
        for r in reasons
    ]
    return f"### `{profile.name}`\n\n" + table(("stop reason", "without calls", "with calls"), rows)


def _after(after: After, *, has_calls: bool) -> str:
    calls = {"none": "", "run": "calls run, ", "refuse": f"calls refused (`{after.skip}`), ", "leave": "calls left, "}
    then = {
        "go on": "goes on" if has_calls else "queues, else the run ends",
        "hard end": f"the run ends with `{after.reason}`",
        "fail": "becomes a failure: the stream broke its protocol",
    }
    return (calls[after.calls] if has_calls else "") + then[after.then]


def runs() -> str:
    """When a run stops, how it may end, what the state says when."""
    missing = set(get_args(EndReason)) ^ set(END_REASONS)
    if missing:
        raise LookupError(f"reasons to end without words, or words without a reason: {sorted(missing)}")
    parts = [
        "# Runs: when they stop, what is told, what is in the state\n",
        "Each line of the first two tables is a test: `tests/scenarios/test_boundary_rows.py::test_when_a_run_stops`"
        " and `tests/scenarios/test_agent_rows.py::test_the_state_changes_before_anybody_is_told`.\n",
        "## When a run stops and when it goes on\n",
        table(
            ("situation", "what follows", "outcome in the test"),
            [(name, stop.then, code(stop.reason)) for name, stop in STOPS.items()],
        ),
        "## What the state says when an event is told\n",
        table(("event", "before any listener is called"), [(code(e), c.words) for e, c in CHANGES.items()]),
        "Behind the listeners of `agent_end` the run is released: `is_streaming` is false, `pending_tool_calls` is"
        " empty, and whoever awaits `wait_for_idle()` goes on.\n",
        "## How a run may end\n",
        "`RunOutcome.reason` is one of these.\n",
        table(("reason", "meaning"), [(code(r), END_REASONS[r]) for r in get_args(EndReason)]),
        "## Calls that did not run, or did not finish\n",
        "Their results have `is_error` true. `details` is `{skipped: true, reason}` if the call was not begun, and"
        " `{cutOff: true, reason}` if it was: then it may have had effects.\n",
        table(("not begun", "what the model is told"), [(code(r), t) for r, t in SKIP_TEXT.items()]),
        table(("not finished", "what the model is told"), [(code(r), t) for r, t in CUT_TEXT.items()]),
    ]
    return "\n".join(parts)

"""Every answer a model can give, in every profile, against the table of the specification; and every field of a policy.

The table below is written by hand from section 4.3, the columns of `FIELDS` from section 8.1.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from antiphon.core.messages import StopReason
from antiphon.core.policy import (
    DEFAULT,
    NO_LIMITS,
    PI,
    PROFILES,
    STRICT,
    Policy,
    RunLimits,
    after_response,
    decision_table,
)
from antiphon.errors import WrongArgument

Meaning = tuple[str, str, str | None, str | None]
"""What happens to the calls, what follows, why calls are skipped, how the run ends."""

NATURAL: Meaning = ("none", "go on", None, None)
EXECUTED: Meaning = ("run", "go on", None, None)


def ends(reason: str) -> Meaning:
    return "none", "hard end", None, reason


def skipped(why: str, reason: str) -> Meaning:
    return "refuse", "hard end", why, reason


UNPAIRED_ERROR: Meaning = ("leave", "hard end", None, "error")
UNPAIRED_ABORT: Meaning = ("leave", "hard end", None, "aborted")
RETRIED: Meaning = ("refuse", "go on", "length", None)
BROKEN: Meaning = ("none", "fail", None, "error")
BROKEN_CALLS: Meaning = ("refuse", "fail", "error", "error")

DECISIONS: dict[tuple[str, bool], tuple[Meaning, Meaning, Meaning]] = {
    # (stop reason, calls?): pi, default, strict
    ("stop", False): (NATURAL, NATURAL, ends("stop")),
    ("stop", True): (EXECUTED, EXECUTED, skipped("unexpected-stop", "error")),
    ("deferred", False): (NATURAL, NATURAL, ends("stop")),
    ("deferred", True): (EXECUTED, EXECUTED, skipped("unexpected-stop", "error")),
    ("toolUse", False): (NATURAL, NATURAL, ends("error")),
    ("toolUse", True): (EXECUTED, EXECUTED, EXECUTED),
    ("length", False): (NATURAL, NATURAL, ends("length")),
    ("length", True): (RETRIED, RETRIED, skipped("length", "length")),
    ("error", False): (ends("error"), ends("error"), ends("error")),
    ("error", True): (UNPAIRED_ERROR, skipped("error", "error"), skipped("error", "error")),
    ("aborted", False): (ends("aborted"), ends("aborted"), ends("aborted")),
    ("aborted", True): (UNPAIRED_ABORT, skipped("aborted", "aborted"), skipped("aborted", "aborted")),
    ("pending", False): (NATURAL, BROKEN, BROKEN),
    ("pending", True): (EXECUTED, BROKEN_CALLS, BROKEN_CALLS),
    ("some other word", False): (NATURAL, BROKEN, BROKEN),
    ("some other word", True): (EXECUTED, BROKEN_CALLS, BROKEN_CALLS),
}


def meaning_of(after: Any) -> Meaning:
    """What counts of a line: why calls are skipped if they are, how the run ends if it does."""
    skip = after.skip if after.calls == "refuse" else None
    reason = after.reason if after.then != "go on" else None
    return after.calls, after.then, skip, reason


def check_decisions(profiles: dict[str, Policy], table: Any, after: Any) -> None:
    """Compare a decision table with the one above."""
    for (why, has_calls), meanings in DECISIONS.items():
        for name, meaning in zip(("pi", "default", "strict"), meanings, strict=True):
            found = meaning_of(after(table(profiles[name]), why, has_calls))
            assert found == meaning, f"{name}: {why}, {'with' if has_calls else 'no'} calls"


@pytest.mark.requirement("S0-13", "X1", "X1b", "X3", "X4", "X5")
def test_every_answer_leads_to_what_the_specification_says() -> None:
    check_decisions(PROFILES, decision_table, after_response)


@pytest.mark.requirement("S0-13")
@pytest.mark.parametrize("profile", PROFILES)
def test_the_table_is_total(profile: str) -> None:
    """A stop reason that is added to the type without a line here would be read as `pending`."""
    reasons = get_args(StopReason)

    assert set(decision_table(PROFILES[profile])) == {(why, calls) for why in reasons for calls in (False, True)}
    assert {why for why, _ in DECISIONS} == {*reasons, "some other word"}


FIELDS: dict[str, tuple[Any, Any, Any]] = {
    # field: pi, default, strict
    "name": ("pi", "default", "strict"),
    "on_length_calls": ("retry", "retry", "end"),
    "length_retry_limit": (None, None, None),
    "on_length_end": ("natural", "natural", "end"),
    "pair_unexecuted": ("never", "always", "always"),
    "on_stop_with_calls": ("execute", "execute", "error"),
    "on_tooluse_empty": ("end", "end", "error"),
    "on_unknown_stop": ("as_stop", "failure", "failure"),
    "check_abort_before_request": (False, True, True),
    "aborted_empty_turn": ("append", "event only", "event only"),
    "duplicate_call_id": ("allow", "error_second", "error_second"),
    "equal_tool_names": ("first counts", "refuse", "refuse"),
    "skip_details": ("empty", "typed", "typed"),
    "abort_grace": (None, 2.0, 2.0),
    "return_undelivered": (False, True, True),
    "listener_fault": ("ends the run", "recorded", "recorded"),
    "fault_closing": ("failure sequence", "innermost first", "innermost first"),
    "hook_messages": ("live list", "snapshot", "snapshot"),
    "natural_end": ("natural", "natural", "end"),
    "nameless_error": ("empty", "class name", "class name"),
    "limits": (NO_LIMITS, RunLimits(max_turns=1_000_000), NO_LIMITS),
}


def check_fields(pi: Policy, default: Policy, strict: Policy) -> None:
    """Compare policies with the columns above."""
    for name, column in FIELDS.items():
        found = tuple(getattr(policy, name) for policy in (pi, default, strict))
        assert repr(found) == repr(column), name


def test_every_deviation_is_a_field_of_a_policy() -> None:
    assert set(Policy.__struct_fields__) == set(FIELDS)
    check_fields(PI, DEFAULT, STRICT)


def test_other_combinations_are_possible() -> None:
    """A host may take one answer of a profile and not the other."""
    table = decision_table(Policy(name="own", on_length_end="end", natural_end="natural", on_stop_with_calls="error"))

    assert meaning_of(table["length", False]) == ends("length")
    assert meaning_of(table["stop", False]) == NATURAL
    assert meaning_of(table["stop", True]) == skipped("unexpected-stop", "error")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_turns": 0}, "max_turns must be a whole number of at least 1, not 0"),
        ({"max_tool_calls": 0}, "max_tool_calls must be a whole number of at least 1, not 0"),
        ({"max_tokens": -1}, "max_tokens must be a whole number of at least 1, not -1"),
        ({"repeat_limit": 0}, "repeat_limit must be a whole number of at least 1, not 0"),
        ({"max_turns": 2.5}, "max_turns must be a whole number"),
        ({"max_turns": True}, "max_turns must be a whole number"),
        ({"max_turns": "3"}, "max_turns must be a whole number of at least 1, not '3'"),
        ({"max_cost": 0.0}, "max_cost must be a number above 0, not 0.0"),
        ({"max_seconds": -2}, "max_seconds must be a number above 0, not -2"),
        ({"max_seconds": float("nan")}, "max_seconds must be a number above 0, not nan"),
        ({"max_cost": "1"}, "max_cost must be a number above 0, not '1'"),
        ({"max_calls_of": {"bash": 3}}, "max_calls_of must be a tuple of pairs"),
        ({"max_calls_of": [("bash", 3)]}, "max_calls_of must be a tuple of pairs"),
        ({"max_calls_of": ("bash", 3)}, "max_calls_of must be a tuple of pairs"),
        ({"max_calls_of": (("bash", 3, 4),)}, "max_calls_of must be a tuple of pairs"),
        ({"max_calls_of": ((3, "bash"),)}, "max_calls_of must be a tuple of pairs"),
        ({"max_calls_of": (("bash", -1),)}, "max_calls_of must be a tuple of pairs"),
    ],
)
def test_a_bound_that_is_none_or_forbids_everything_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongArgument, match=message):
        RunLimits(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on_length_calls": "sometimes"}, "on_length_calls must be one of retry, end, not 'sometimes'"),
        ({"pair_unexecuted": None}, "pair_unexecuted must be one of never, always, not None"),
        ({"abort_grace": -1}, "abort_grace must be seconds, 0 or more, or None, not -1"),
        ({"abort_grace": float("nan")}, "abort_grace must be seconds"),
        ({"abort_grace": "2"}, "abort_grace must be seconds"),
        ({"length_retry_limit": -1}, "length_retry_limit must be a whole number or None, not -1"),
        ({"length_retry_limit": 1.5}, "length_retry_limit must be a whole number"),
        ({"limits": 3}, "limits must be RunLimits"),
        ({"limits": None}, "limits must be RunLimits"),
    ],
)
def test_a_policy_that_answers_with_something_else_is_refused(given: dict[str, Any], message: str) -> None:
    """A wrong word would silently count as one of the others."""
    with pytest.raises(WrongArgument, match=f"^Policy: {message}"):
        replace(DEFAULT, **given)


def test_bounds_of_one_are_allowed() -> None:
    limits = RunLimits(max_turns=1, max_tool_calls=1, max_tokens=1, repeat_limit=1, max_cost=0.01, max_seconds=0.5)

    assert limits.max_turns == 1

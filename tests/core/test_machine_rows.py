"""Every line of the machine's table does what its test in `machine_rows` says; what no line allows is refused."""

from __future__ import annotations

import pytest
from tests.core.machine_rows import ROWS
from tests.core.play import Play, user

from antiphon.core import machine
from antiphon.core import states as c
from antiphon.core.response_events import TextDelta
from antiphon.errors import ProtocolError


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    """The reason of a row is the docstring, or the name, of its run in `machine_rows`."""
    _, run = ROWS[name]

    run(Play)


def test_every_row_of_the_table_has_a_run() -> None:
    proved = {row for row, _ in ROWS.values()}
    grown = {(c.Requesting, TextDelta), (c.Responding, TextDelta)}  # one kind of growth stands for all

    assert {(state, given) for state, given, _ in machine.ROWS} | grown - proved <= proved


def test_an_input_that_no_row_allows_is_a_fault_of_the_driver() -> None:
    """The text names state and input: whoever wrote the driver will read it."""
    with pytest.raises(ProtocolError, match="Idle cannot receive Checked"):
        machine.step(c.Idle(), c.Checked(None, 0))
    with pytest.raises(ProtocolError, match="Opening cannot receive Answered"):
        Play().tell(c.Answered(None))  # type: ignore[arg-type]


def test_a_run_that_is_over_can_only_hear_of_a_failure_or_an_abort() -> None:
    play = Play().until(c.Ended)

    assert play.tell(c.Interrupt("too late")) == []
    with pytest.raises(ProtocolError, match="Ended cannot receive Drained"):
        play.tell(c.Drained((), 0))


def test_one_state_can_be_answered_twice() -> None:
    """A state is a value: two answers to one question make two runs that know nothing of each other."""
    one = Play().until(c.Steering)
    two = Play().until(c.Steering)
    two.state = one.state

    one.tell(c.Drained((user("wait"),), 0))
    one.ended()

    assert two.ended() == "stop"
    assert (len(one.new), len(two.new)) == (4, 2)

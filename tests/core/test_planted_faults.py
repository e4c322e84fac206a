"""No planted fault passes: each is caught by at least one net, and the real machine by none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.planted import FILES, NETS, REAL, catch_of, first_catch, planted
from tests.core.planted_faults import PLANTED, Planted

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verification.md"
UNCHANGED = Planted("nothing", "machine", "AGENT_START = AgentStart()", "AGENT_START = AgentStart()")


def test_there_are_enough_faults_to_say_something() -> None:
    assert len(PLANTED) >= 50
    assert len({fault.name for fault in PLANTED}) == len(PLANTED)
    assert {fault.file for fault in PLANTED} == set(FILES)


@pytest.mark.parametrize("net", NETS)
def test_the_real_machine_passes_every_net(net: str) -> None:
    """Its files are executed anew, without a fault: what the nets catch is the fault, not the way it came."""
    NETS[net](planted(UNCHANGED))


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_every_planted_fault_is_caught(fault: Planted) -> None:
    """Nets are tried until one has it; which of them do is in the table of the verification page."""
    assert first_catch(fault) is not None


def test_planting_leaves_the_real_machine_alone() -> None:
    before = {name: vars(module).copy() for name, module in FILES.items()}

    planted(PLANTED[0])

    assert {name: vars(module) for name, module in FILES.items()} == before
    from antiphon.core import machine

    assert machine.step is REAL.step


def test_a_fault_whose_text_has_gone_is_reported() -> None:
    """When the code changes, its planted faults have to change with it."""
    with pytest.raises(AssertionError, match="its text stands 0 times"):
        planted(Planted("gone", "machine", "no such text", ""))


def test_the_page_names_every_fault() -> None:
    """`python -m tests.core.planted` prints the table anew."""
    page = PAGE.read_text("utf-8")

    assert [fault.name for fault in PLANTED if f"| {fault.name} |" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("net", ["rows", "story", "every moment"])
def test_each_net_alone_catches_most(net: str) -> None:
    """A net that catches little is not worth its time."""
    caught = sum(net in catch_of(fault) for fault in PLANTED[::5])

    assert caught >= len(PLANTED[::5]) // 2

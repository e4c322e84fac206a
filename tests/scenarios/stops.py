"""When a run stops and when it goes on: one small world for each line of the table in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon import RunLimits, ToolResult
from antiphon.testing import World, calls, fails, says

_ENDS = "end"


@dataclass(frozen=True)
class Stop:
    """`then`: what follows, in words. `requests`, `reason`, `left_queued`: what the test sees in this world."""

    then: str
    world: Callable[[], World]
    requests: int
    reason: str
    left_queued: bool = False


def _steered(world: World) -> World:
    world.steer_while_running("A", "turn left")
    return world


def _followed(world: World) -> World:
    world.agent.follow_up("and then")
    return world


def _once(answer: str) -> Callable[..., str | None]:
    answers = iter([answer])
    return lambda *_given: next(answers, None)


TERMINATING = {"A": ToolResult(terminate=True)}

STOPS: dict[str, Stop] = {
    "the answer has no calls and nothing is queued": Stop("the run ends", lambda: World([says("done")]), 1, "stop"),
    "the answer has calls": Stop(
        "their results are sent with a further request", lambda: World([calls("A"), says("done")]), 2, "stop"
    ),
    "every result of the batch says terminate": Stop(
        "the run ends", lambda: World([calls("A")], results=TERMINATING), 1, "terminated"
    ),
    "the same, and steering waits": Stop(
        "a further turn with it", lambda: _steered(World([calls("A"), says("ok")], results=TERMINATING)), 2, "stop"
    ),
    "no calls, and a follow-up waits": Stop(
        "a further turn with it", lambda: _followed(World([says("done"), says("more")])), 2, "stop"
    ),
    "the finish hook says continue, nothing else would follow": Stop(
        "one further turn with the context as it is",
        lambda: World([says("hm"), says("now")], finish_turn=_once("continue")),
        2,
        "stop",
    ),
    "the finish hook says end": Stop(
        "the run ends, queues are not read",
        lambda: _followed(World([calls("A"), says("no")], finish_turn=_once(_ENDS))),
        1,
        "ended_by_host",
        left_queued=True,
    ),
    "the answer failed": Stop(
        "the run ends, queues are not read", lambda: _followed(World([fails("overloaded")])), 1, "error", True
    ),
    "the run was aborted, and something would follow": Stop(
        "the run ends behind the open turn, queues are not read",
        lambda: _aborted(_followed(World([calls("A"), says("no")]))),
        1,
        "aborted",
        left_queued=True,
    ),
    "a limit is reached, and a further request would follow": Stop(
        "the run ends behind the finished turn",
        lambda: World([calls("A"), says("no")], limits=RunLimits(max_turns=1)),
        1,
        "max_turns",
    ),
    "a limit is reached by the last answer": Stop(
        "the run ends by itself", lambda: World([says("done")], limits=RunLimits(max_turns=1)), 1, "stop"
    ),
}


def _aborted(world: World) -> World:
    world.abort_while_running("A")
    return world

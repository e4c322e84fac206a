"""What test runs mean: which step is right, which saboteur was noticed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from antiphon.course.kit.chapters import Chapter, Step
from antiphon.course.kit.running import TestRun
from antiphon.course.saboteurs import SABOTEURS, Saboteur

State: TypeAlias = Literal["right", "wrong", "open"]
Fate: TypeAlias = Literal["caught", "missed", "waiting"]


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """How a step stands; `failed` are the runs that speak against it. `open`: part of it is not written yet."""

    step: Step
    state: State
    tests: int
    failed: tuple[TestRun, ...] = ()


@dataclass(frozen=True, slots=True)
class SaboteurVerdict:
    """Whether the test that is meant for a saboteur notices it.

    Unnoticed counts as missed only when the steps are right: a saboteur may need what a later step brings (a signal
    that is looked at) to do its harm. Until then it waits, as it does when its test fails anyway.
    """

    saboteur: Saboteur
    fate: Fate
    said: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All steps and all saboteurs of a chapter."""

    steps: tuple[StepVerdict, ...]
    saboteurs: tuple[SaboteurVerdict, ...]

    @property
    def following(self) -> StepVerdict | None:
        """The first step that is not right, if there is one; optional steps do not count."""
        return next((s for s in self.steps if s.state != "right" and s.step.number is not None), None)

    @property
    def finished(self) -> bool:
        """Every step is right, optional ones aside, and no saboteur goes unnoticed."""
        return self.following is None and all(s.fate != "missed" for s in self.saboteurs)


def judge(chapter: Chapter, runs: Sequence[TestRun]) -> Verdict:
    """The verdict on runs of every test alone and behind the saboteurs that it is meant to catch."""
    plain = [run for run in runs if not run.saboteur]
    behind = {run.saboteur: run for run in runs if run.saboteur}
    steps = tuple(_step(step, [run for run in plain if run.file == step.test_file]) for step in chapter.steps)
    sure = {run.test for run in plain if run.ending == "passed" and _is_sure(run.file, steps)}
    passed = {run.test for run in plain if run.ending == "passed"}
    fates = tuple(_saboteur(saboteur, passed, sure, behind) for saboteur in SABOTEURS[chapter.number])
    return Verdict(steps, fates)


def _is_sure(file: str, steps: Sequence[StepVerdict]) -> bool:
    """All required steps are right, and so is the step of this file."""
    return all(s.state == "right" for s in steps if s.step.number is not None or s.step.test_file == file)


def _step(step: Step, runs: Sequence[TestRun]) -> StepVerdict:
    failed = tuple(run for run in runs if run.ending != "passed")
    if runs and not failed:
        return StepVerdict(step, "right", len(runs))
    is_open = not runs or any(run.ending == "open" for run in failed)
    return StepVerdict(step, "open" if is_open else "wrong", len(runs), failed)


def _saboteur(saboteur: Saboteur, passed: Set[str], sure: Set[str], behind: Mapping[str, TestRun]) -> SaboteurVerdict:
    run = behind.get(saboteur.name)
    if run is None or saboteur.caught_by not in passed:
        return SaboteurVerdict(saboteur, "waiting")
    if run.ending == "passed":
        return SaboteurVerdict(saboteur, "missed" if saboteur.caught_by in sure else "waiting")
    return SaboteurVerdict(saboteur, "caught", run.said)

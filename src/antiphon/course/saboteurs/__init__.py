"""Mistakes on purpose: for every promise of a chapter somebody who breaks it, and the test that has to notice.

Used by the injected tests of a practice folder and by `antiphon course sabotage`. Start reading at `registry.py`; then
`loop.py` for chapter 07.
"""

from __future__ import annotations

from typing import Any

from antiphon.course.saboteurs.executor import EXECUTOR_SABOTEURS
from antiphon.course.saboteurs.loop import LOOP_SABOTEURS
from antiphon.course.saboteurs.model import MODEL_SABOTEURS
from antiphon.course.saboteurs.registry import Saboteur
from antiphon.course.saboteurs.tools import TOOL_SABOTEURS

SABOTEURS: dict[str, tuple[Saboteur, ...]] = {
    "04": MODEL_SABOTEURS,
    "06": EXECUTOR_SABOTEURS,
    "07": LOOP_SABOTEURS,
    "08": TOOL_SABOTEURS,
}
ALL = "all"
"""The wish to see every saboteur once, in front of the test that has to catch it."""


def sabotaged(chapter: str, module: Any, name: str) -> Any:
    """The module under test behind this saboteur; without a name the module itself."""
    if not name:
        return module
    return next(saboteur for saboteur in SABOTEURS[chapter] if saboteur.name == name).applied_to(module)


def subjects(chapter: str, test: str, wish: str) -> list[str]:
    """Behind whom a test runs: nobody, then those it has to catch (`all`), or one saboteur by name."""
    if wish != ALL:
        return ["", wish]
    return ["", *(saboteur.name for saboteur in SABOTEURS[chapter] if saboteur.caught_by == test)]


__all__ = ["ALL", "SABOTEURS", "Saboteur", "sabotaged", "subjects"]

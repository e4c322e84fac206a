"""What a saboteur is: a known mistake, put around whatever is under test, and the test that has to catch it.

A saboteur does not need the source of its victim. It stands between the victim and the outside (model, executor,
signal, listener) and makes the pair behave as if the mistake were inside. So the same saboteur works on the reference,
on the loop of this project, and on the file of a learner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

Change: TypeAlias = Callable[[Any], Mapping[str, Any]]
"""Given the module under test, the names in it to replace."""


@dataclass(frozen=True, slots=True)
class Saboteur:
    """One mistake. `promise` is what it breaks, in English and Chinese; `caught_by` the name of a test."""

    name: str
    caught_by: str
    promise: str
    promise_zh: str
    change: Change

    def applied_to(self, module: Any) -> Any:
        """The module as it would be with the mistake in it. The module itself is not changed."""
        return SimpleNamespace(**{**vars(module), **self.change(module)})

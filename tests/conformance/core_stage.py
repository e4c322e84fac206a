"""Everything a scenario puts around a run: recorder, scripted model, tools and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.core_hooks import Hooks
from tests.conformance.core_model import ScriptedModel
from tests.conformance.core_recorder import Recorder
from tests.conformance.core_tools import Behaviours, Catalogue


class Stage:
    """The parts of one scenario, wired to one recorder."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.scenario = scenario
        self.recorder = Recorder(scenario.get("triggers", []))
        behaviours = Behaviours(scenario.get("calls", {}), self.recorder)
        self.catalogue = Catalogue(scenario.get("tools", ()), behaviours)
        self.hooks = Hooks(scenario.get("hooks", {}), self.catalogue, self.recorder)
        self.model = ScriptedModel(scenario, self.recorder)

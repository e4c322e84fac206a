"""The face of a session that is set: who answers, how hard it thinks, what it does by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.queues import QueueMode
from antiphon.errors import ConfigurationError
from antiphon.session.choices import Direction, ModelCycle, ScopedModel
from antiphon.session.session_parts import SessionParts


class SessionSwitches(SessionParts):
    """What may be chosen while a conversation goes on."""

    def set_model(
        self, model: Model | str, *, persist: bool = False, source: Literal["set", "extension"] = "set"
    ) -> None:
        """Ask another model from the next request on; a text names it as `provider/id`.

        Raises:
            ConfigurationError: there is no such model, or no key for it.
        """
        if isinstance(model, str):
            provider, _, model_id = model.partition("/")
            known = self._c.models.find(provider, model_id)
            if known is None:
                raise ConfigurationError(f"Model not found: {model}")
            model = known
        self._choices.set_model(model, persist=persist, source=source)

    def cycle_model(self, direction: Direction = "forward", *, persist: bool = False) -> ModelCycle | None:
        """The next model of the scope, or of all usable ones; nothing if there is no other."""
        return self._choices.cycle_model(direction, persist=persist)

    @property
    def scoped_models(self) -> tuple[ScopedModel, ...]:
        return self._choices.scoped

    def set_scoped_models(self, models: Sequence[ScopedModel]) -> None:
        self._choices.scoped = tuple(models)

    def get_available_models(self) -> tuple[Model, ...]:
        return tuple(self._c.models.available())

    def set_thinking_level(self, level: str, *, persist: bool = False) -> None:
        """Think this hard from the next request on, or as nearly so as the model can."""
        self._choices.set_level(level, persist=persist)

    def cycle_thinking_level(self) -> ThinkingLevel | None:
        """The next level; nothing if the model has only one."""
        return self._choices.cycle_level()

    def get_available_thinking_levels(self) -> tuple[ThinkingLevel, ...]:
        return self._choices.levels

    @property
    def supports_thinking(self) -> bool:
        return len(self._choices.levels) > 1

    # -- settings of this session ---------------------------------------------------------------------------------

    @property
    def steering_mode(self) -> QueueMode:
        return self._c.agent.steering_mode

    def set_steering_mode(self, mode: QueueMode, *, persist: bool = False) -> None:
        self._persisted("steeringMode", mode, persist=persist)
        self._c.agent.steering_mode = mode

    @property
    def follow_up_mode(self) -> QueueMode:
        return self._c.agent.follow_up_mode

    def set_follow_up_mode(self, mode: QueueMode, *, persist: bool = False) -> None:
        self._persisted("followUpMode", mode, persist=persist)
        self._c.agent.follow_up_mode = mode

    @property
    def auto_retry_enabled(self) -> bool:
        return self._c.settings.retry.enabled

    def set_auto_retry_enabled(self, enabled: bool, *, persist: bool = False) -> None:
        self._persisted("retry.enabled", enabled, persist=persist)
        self._c.settings = self._c.settings.with_retry(enabled=enabled)

    @property
    def auto_compaction_enabled(self) -> bool:
        return self._c.settings.compaction.enabled

    def set_auto_compaction_enabled(self, enabled: bool, *, persist: bool = False) -> None:
        self._persisted("compaction.enabled", enabled, persist=persist)
        self._c.settings = self._c.settings.with_compaction(enabled=enabled)

    def _persisted(self, key: str, value: Any, *, persist: bool) -> None:
        if persist:
            self._choices.saver()(key, value)

"""Which model answers and how hard it thinks: chosen at the start, changed on the way, recorded in the log.

A change counts from the next request on. What is written to settings files is not decided here: whoever passes
`persist` is asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.session_events import ChangeSource, ModelChanged, ThinkingLevelChanged
from antiphon.errors import ConfigurationError
from antiphon.providers.levels import clamp_level, supported_levels
from antiphon.session.conversation import Conversation
from antiphon.session.ports import ModelAccess
from antiphon.session.refusals import NoCredentials
from antiphon.session.settings import SessionSettings, model_key
from antiphon.session_log.log import SessionLog
from antiphon.session_log.tree import THINKING

Persist: TypeAlias = Callable[[str, Any], None]
Direction: TypeAlias = Literal["forward", "backward"]
USUAL_LEVEL: ThinkingLevel = "medium"


@final
class ScopedModel(Struct, frozen=True):
    """A model to cycle through, and the level to use it with, if one was named."""

    model: Model
    thinking_level: ThinkingLevel | None = None


@final
class ModelCycle(Struct, frozen=True, gc=False, rename="camel"):
    """Where cycling has led. `is_scoped`: through a chosen list, not through all usable models."""

    model: Model
    thinking_level: ThinkingLevel
    is_scoped: bool


@final
class Choice(Struct, frozen=True):
    """A model and a level to start with. `notice`: what a person should know about it."""

    model: Model | None
    thinking_level: ThinkingLevel
    notice: str | None = None


def first_choice(
    log: SessionLog,
    models: ModelAccess,
    settings: SessionSettings,
    *,
    model: Model | None,
    thinking_level: ThinkingLevel | None,
    default: Model | None = None,
) -> Choice:
    """What a conversation starts with: what was asked for, what it was left with, the default, what there is."""
    recorded = log.settings.model
    notice: str | None = None
    chosen = model
    if chosen is None and recorded is not None:
        known = models.find(recorded.provider, recorded.model_id)
        if known is not None and models.has_credentials(known):
            chosen = known
    if chosen is None:
        usable = models.available()
        fits = default is not None and models.has_credentials(default)
        chosen = default if fits else (usable[0] if usable else None)
        if recorded is not None and chosen is not None:
            lost = f"{recorded.provider}/{recorded.model_id}"
            notice = f"Could not restore model {lost}. Using {model_key(chosen)}."
    return Choice(chosen, first_level(log, settings, chosen, thinking_level), notice)


def first_level(
    log: SessionLog, settings: SessionSettings, model: Model | None, asked: ThinkingLevel | None
) -> ThinkingLevel:
    """The level to start with, as the model can do it."""
    if model is None:
        return "off"
    level: str | None = asked
    if level is None and level_is_recorded(log):
        level = log.settings.thinking_level
    if level is None:
        level = settings.model_thinking_levels.get(model_key(model)) or settings.default_thinking_level
    return clamp_level(model, level or USUAL_LEVEL)


def level_is_recorded(log: SessionLog) -> bool:
    """Does the path to the leaf say which level was chosen?"""
    table = log.table
    leaf = table.number(log.leaf_id)
    return any(table.kinds[number] == THINKING for number in table.upward(leaf))


@final
class Choices:
    """Model and level of one conversation."""

    def __init__(
        self, conversation: Conversation, scoped: Sequence[ScopedModel] = (), persist: Persist | None = None
    ) -> None:
        self._c = conversation
        self._persist = persist
        self.scoped: tuple[ScopedModel, ...] = tuple(scoped)
        self._level_recorded_for: object = None

    # -- recording ------------------------------------------------------------------------------------------------

    def record(self) -> None:
        """Write down model and level where the branch implies others (a new session, a move in the tree).

        Where it says nothing of a model the next answer will.
        """
        c = self._c
        model, known = c.model, c.log.settings.model
        if model is not None:
            differs = known is not None and (known.provider, known.model_id) != (model.provider, model.id)
            if differs or not c.log.entry_count:
                c.log.append_model_change(model.provider, model.id)
        level = c.agent.thinking_level
        if c.log.settings.thinking_level != level or not self._is_level_recorded():
            c.log.append_thinking_level_change(level)
            self._level_recorded_for = c.log

    def forget_branch(self) -> None:
        """The position in the tree has changed: what was known of the branch may be wrong."""
        self._level_recorded_for = None

    def _is_level_recorded(self) -> bool:
        if self._level_recorded_for is not self._c.log and level_is_recorded(self._c.log):
            self._level_recorded_for = self._c.log
        return self._level_recorded_for is self._c.log

    def _use(self, model: Model) -> None:
        self._c.model = model
        self._c.agent.model = model

    # -- models ---------------------------------------------------------------------------------------------------

    def set_model(
        self,
        model: Model,
        *,
        persist: bool = False,
        source: ChangeSource = "set",
        level: ThinkingLevel | None = None,
    ) -> None:
        """Another model answers from the next request on.

        Raises:
            NoCredentials: its provider needs a key.
            ConfigurationError: it should be persisted, and nobody can.
        """
        c = self._c
        if not c.models.has_credentials(model):
            raise NoCredentials(model.provider)
        save = self._saver() if persist else None
        changed = model != c.model
        self._use(model)
        if changed:
            c.log.append_model_change(model.provider, model.id)
        wanted = level or self._level_in_settings(model) or c.agent.thinking_level
        self._set_level(clamp_level(model, wanted))
        if changed:
            c.emit(ModelChanged(model=model, thinking_level=c.agent.thinking_level, source=source))
        if save is not None:
            save("defaultProvider", model.provider)
            save("defaultModel", model.id)

    def _level_in_settings(self, model: Model) -> ThinkingLevel | None:
        settings = self._c.settings
        return settings.model_thinking_levels.get(model_key(model)) or settings.default_thinking_level

    def cycle_model(self, direction: Direction = "forward", *, persist: bool = False) -> ModelCycle | None:
        """The next model of the scope, or of all usable ones; nothing if there is no other."""
        c = self._c
        usable = [scoped for scoped in self.scoped if c.models.has_credentials(scoped.model)]
        is_scoped = bool(self.scoped)
        rows = usable if is_scoped else [ScopedModel(model) for model in c.models.available()]
        keys = [model_key(row.model) for row in rows]
        here = keys.index(model_key(c.model)) if c.model is not None and model_key(c.model) in keys else None
        if not rows or (len(rows) == 1 and here is not None):
            return None
        step = 1 if direction == "forward" else -1
        place = (0 if step == 1 else len(rows) - 1) if here is None else (here + step) % len(rows)
        row = rows[place]
        self.set_model(row.model, persist=persist, source="cycle", level=row.thinking_level)
        return ModelCycle(row.model, c.agent.thinking_level, is_scoped)

    # -- levels ---------------------------------------------------------------------------------------------------

    @property
    def levels(self) -> tuple[ThinkingLevel, ...]:
        """The levels of the present model, in rising order."""
        return ("off",) if self._c.model is None else supported_levels(self._c.model)

    def set_level(self, level: str, *, persist: bool = False) -> None:
        """Think this hard from the next request on, or as nearly so as the model can.

        Raises:
            ConfigurationError: it should be persisted, and nobody can.
        """
        save = self._saver() if persist else None
        self._set_level("off" if self._c.model is None else clamp_level(self._c.model, level))
        if save is not None:
            save("defaultThinkingLevel", level)

    def cycle_level(self) -> ThinkingLevel | None:
        """The next level, from the last back to the first; nothing if the model has only one."""
        levels = self.levels
        if len(levels) < 2:
            return None
        now = self._c.agent.thinking_level
        place = levels.index(now) if now in levels else -1
        self._set_level(levels[(place + 1) % len(levels)])
        return self._c.agent.thinking_level

    def _set_level(self, level: ThinkingLevel) -> None:
        c = self._c
        if level == c.agent.thinking_level:
            return
        c.agent.thinking_level = level
        if c.log.settings.thinking_level != level:
            c.log.append_thinking_level_change(level)
        c.emit(ThinkingLevelChanged(level=level))

    def saver(self) -> Persist:
        """Who writes settings.

        Raises:
            ConfigurationError: nobody does.
        """
        return self._saver()

    def _saver(self) -> Persist:
        if self._persist is None:
            raise ConfigurationError("this session has no settings file to write to; leave out persist")
        return self._persist

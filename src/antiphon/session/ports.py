"""What a conversation needs from others: models, and the texts of a folder.

Structural: whoever implements these need not import this file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias, final

from msgspec import Struct

from antiphon.core.model import Model
from antiphon.core.ports import ModelStream

Source: TypeAlias = Literal["interactive", "rpc", "extension"]
StreamingBehavior: TypeAlias = Literal["steer", "followUp"]


class ModelAccess(Protocol):
    """Which models there are, and how they are asked."""

    @property
    def stream(self) -> ModelStream: ...

    def available(self) -> Sequence[Model]:
        """Models whose provider has credentials."""
        ...

    def find(self, provider: str, model_id: str) -> Model | None: ...

    def has_credentials(self, model: Model) -> bool: ...

    def api_key(self, provider: str) -> str | Awaitable[str | None] | None:
        """The key to send; None: the stream function knows it itself."""
        ...


@final
class GivenModels(Struct, frozen=True):
    """These models, all of them usable: for embedding and for tests."""

    stream: ModelStream
    models: tuple[Model, ...] = ()
    key: str | None = None

    def available(self) -> Sequence[Model]:
        return self.models

    def find(self, provider: str, model_id: str) -> Model | None:
        return next((m for m in self.models if (m.provider, m.id) == (provider, model_id)), None)

    def has_credentials(self, model: Model) -> bool:
        return True

    def api_key(self, provider: str) -> str | None:
        return self.key


# ---- texts ----------------------------------------------------------------------------------------------------------


@final
class ContextFile(Struct, frozen=True):
    """A text that stands in the prompt, and where it came from."""

    path: str
    text: str


@final
class SkillInfo(Struct, frozen=True, kw_only=True):
    """A skill as the model is told of it; it reads the rest from `location`. `hidden`: only the user may call it."""

    name: str
    description: str
    location: str
    hidden: bool = False


@final
class TemplateInfo(Struct, frozen=True, kw_only=True):
    """A prompt with a name."""

    name: str
    description: str = ""
    argument_hint: str = ""


Expand: TypeAlias = Callable[[str, str], str | None]
"""Name and the rest of the line → the text that stands for it; None: there is no such name."""


def _nothing(_name: str, _arguments: str) -> str | None:
    return None


@final
class Resources(Struct, frozen=True, kw_only=True):
    """The texts of a working folder, read once. `base_prompt` replaces the product's own, and tools and rules with it.

    `context_files` outermost first. `docs`: where the product's documentation lies and when to read it.
    """

    base_prompt: str | None = None
    addenda: tuple[str, ...] = ()
    context_files: tuple[ContextFile, ...] = ()
    skills: tuple[SkillInfo, ...] = ()
    templates: tuple[TemplateInfo, ...] = ()
    docs: str | None = None
    expand_skill: Expand = _nothing
    expand_template: Expand = _nothing

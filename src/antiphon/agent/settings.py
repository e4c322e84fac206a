"""What a host gives an agent, checked where it is given: a wrong value never waits for a run to stumble over it.

Settings stay plain attributes. A `Setting` stands on the class and only watches assignments; since it has no `__get__`,
reading finds the value in the instance, at the cost of any attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast, final, get_args

from antiphon.core.content import Image
from antiphon.core.limits import Budget
from antiphon.core.messages import Message, SystemMessage
from antiphon.core.model import THINKING_LEVELS, Model
from antiphon.core.policy import Policy, RunLimits
from antiphon.core.ports import ExecutionMode, Tool
from antiphon.core.queues import QueueMode
from antiphon.core.transcript import Transcript
from antiphon.errors import WrongArgument
from antiphon.loop.given import as_messages

Check: TypeAlias = Callable[[Any], str | None]
"""What should have been given; None if the value will do."""

T = TypeVar("T")


@final
class Setting:
    """An attribute that refuses what no run could work with."""

    __slots__ = ("_check", "_name")

    def __init__(self, name: str, check: Check) -> None:
        self._name = name
        self._check = check

    def __set__(self, agent: object, value: Any) -> None:
        wanted = self._check(value)
        if wanted is not None:
            raise WrongArgument(f"Agent.{self._name} cannot be {_shown(value)}; give {wanted}")
        vars(agent)[self._name] = value


def guarded(agent_class: type[T]) -> type[T]:
    """The class, with every setting of `SETTINGS` watched."""
    for name, check in SETTINGS.items():
        setattr(agent_class, name, Setting(name, check))
    return agent_class


# -- checks ---------------------------------------------------------------------------------------------------------


def _function(wanted: str) -> Check:
    return lambda value: None if callable(value) else wanted


def _one_of(choices: Iterable[str]) -> Check:
    allowed = tuple(choices)
    return lambda value: None if isinstance(value, str) and value in allowed else f"one of {', '.join(allowed)}"


def _kind(kind: type | tuple[type, ...], wanted: str) -> Check:
    return lambda value: None if isinstance(value, kind) else wanted


def _or_none(check: Check) -> Check:
    def checked(value: Any) -> str | None:
        wanted = None if value is None else check(value)
        return None if wanted is None else f"{wanted}, or None"

    return checked


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0  # which NaN is not


def _some_seconds(value: Any) -> str | None:
    return None if _is_seconds(value) and value > 0 else "a number of seconds above 0"


def _seconds(value: Any) -> str | None:
    return None if _is_seconds(value) else "a number of seconds, 0 or more"


def _clock(value: Any) -> str | None:
    fits = all(callable(getattr(value, name, None)) for name in ("now_ms", "monotonic", "sleep"))
    return None if fits else "an object with now_ms, monotonic and sleep"


_HOOK = _or_none(_function("a function"))
_TEXT = _or_none(_kind(str, "a text"))

SETTINGS: dict[str, Check] = {
    "stream": _function("a function that is called with a ModelRequest, such as stream_for(model)"),
    "model": _kind(Model, 'a Model, such as resolve("provider/id")'),
    "thinking_level": _one_of(THINKING_LEVELS),
    "tool_execution": _one_of(get_args(ExecutionMode)),
    "policy": _kind(Policy, "a Policy: DEFAULT, STRICT or PI"),
    "limits": _or_none(_kind(RunLimits, "RunLimits(...)")),
    "budget": _or_none(_kind(Budget, "a Budget")),
    "api_key": _TEXT,
    "session_id": _TEXT,
    "options": _kind(Mapping, "a mapping"),
    **dict.fromkeys(("convert_to_llm", "transform_context", "get_api_key", "prepare_request"), _HOOK),
    **dict.fromkeys(("prepare_next_turn", "finish_turn", "before_tool_call", "after_tool_call", "on_fault"), _HOOK),
    "stream_idle_timeout": _or_none(_some_seconds),
    "close_timeout": _seconds,
    "clock": _clock,
}


# -- what is no plain attribute -------------------------------------------------------------------------------------


def queue_mode(name: str, mode: Any) -> QueueMode:
    """A mode of a queue.

    Raises:
        WrongArgument: there is no such mode.
    """
    wanted = _one_of(get_args(QueueMode))(mode)
    if wanted is not None:
        raise WrongArgument(f"Agent.{name} cannot be {_shown(mode)}; give {wanted}")
    return cast("QueueMode", mode)


def given_tools(tools: Any, policy: Policy) -> tuple[Tool, ...]:
    """Tools that can be told to a model and run.

    Raises:
        WrongArgument: one of them is no tool, or two have one name and the policy does not let the first one count.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise WrongArgument(f"Agent.tools cannot be {_shown(tools)}; give a list of tools")
    seen: set[str] = set()
    given: tuple[Any, ...] = tuple(tools)
    for place, tool in enumerate(given):
        missing = _missing(tool)
        if missing is not None:
            raise WrongArgument(f"Agent.tools[{place}] is {_shown(tool)}, which is no tool: {missing}")
        if tool.name in seen and policy.equal_tool_names == "refuse":
            raise WrongArgument(f"Agent.tools has two tools named {tool.name!r}; give each a name of its own")
        seen.add(tool.name)
    return given


def _missing(tool: Any) -> str | None:
    """Why something is no tool, and what to do."""
    if not isinstance(getattr(tool, "name", None), str) or not tool.name:
        plain = callable(tool) and not isinstance(tool, type)
        return "decorate the function with @tool" if plain else "it has no name; make it with @tool"
    if not isinstance(getattr(tool, "description", None), str):
        return "its description is no text"
    if not isinstance(getattr(tool, "parameters", None), Mapping):
        return "its parameters are no JSON Schema; give a dict such as {'type': 'object', 'properties': {}}"
    return None if callable(getattr(tool, "execute", None)) else "its execute is no function"


def given_messages(messages: Any, where: str) -> Sequence[Message]:
    """Messages. A transcript holds nothing else, however long it is, so it is taken as it is.

    Raises:
        WrongArgument: it is no list of messages.
    """
    if isinstance(messages, Transcript):
        return messages
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise WrongArgument(f"{where}: {_shown(messages)} is no list of messages; give a list")
    return as_messages(messages, where)


def given_prompt(prompt: Any) -> str:
    """A system prompt.

    Raises:
        WrongArgument: it is no text.
    """
    if not isinstance(prompt, str):
        raise WrongArgument(f"Agent(system_prompt=...) cannot be {_shown(prompt)}; give a text")
    return prompt


def given_system(message: Any) -> SystemMessage:
    """A change of the prompt.

    Raises:
        WrongArgument: it is no system message.
    """
    if not isinstance(message, SystemMessage):
        raise WrongArgument(f"continue_(system=...) cannot be {_shown(message)}; give a SystemMessage")
    return message


def given_images(images: Any, *, beside_text: bool) -> Sequence[Image]:
    """Images for a prompt.

    Raises:
        WrongArgument: one of them is none, or there is no text that they would belong to.
    """
    if isinstance(images, str | bytes | Mapping) or not isinstance(images, Iterable):
        raise WrongArgument(f"prompt(images=...): {_shown(images)} is no list of images; give [Image(...)]")
    given: tuple[Any, ...] = tuple(images)
    for image in given:
        if not isinstance(image, Image):
            raise WrongArgument(f"prompt(images=...): {_shown(image)} is no Image; give Image(data=..., mime_type=...)")
    if given and not beside_text:
        raise WrongArgument("prompt(images=...) goes with a text; put the images into the content of your message")
    return given


def given_listener(listener: Any) -> Any:
    """A listener.

    Raises:
        WrongArgument: it cannot be called.
    """
    if not callable(listener):
        raise WrongArgument(f"subscribe(): {_shown(listener)} is no listener; give a function of (event, signal)")
    return listener


def _shown(value: Any) -> str:
    """A value in an error: short, and never its text, which may be a secret."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a {type(value).__name__}"

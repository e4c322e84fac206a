"""What hosts, hooks and tools hand in, checked at the border: beyond it everything has the type it should have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast, get_args

from antiphon.core.hooks import Context
from antiphon.core.messages import Message
from antiphon.core.model import Model
from antiphon.core.policy import Policy, RunLimits
from antiphon.errors import WrongArgument
from antiphon.loop.config import LoopConfig

T = TypeVar("T")

MESSAGE_KINDS: tuple[type, ...] = get_args(Message)


def as_message(given: Any, where: str) -> Message:
    """A message.

    Raises:
        WrongArgument: it is none; says where it came from and what it is.
    """
    if not isinstance(given, MESSAGE_KINDS):
        raise WrongArgument(
            f"{where}: a {type(given).__name__} is no message; give a text, user(...) or another message"
        )
    return cast("Message", given)


def as_messages(given: Iterable[Any], where: str) -> tuple[Message, ...]:
    """Messages.

    Raises:
        WrongArgument: one of them is none.
    """
    messages = tuple(given)
    for message in messages:
        as_message(message, where)
    return messages


def as_answer(given: Any, kind: type[T], where: str) -> T | None:
    """What a hook answered, if it is of the kind that the question asks for, or nothing.

    Raises:
        TypeError: it is something else.
    """
    if given is None or isinstance(given, kind):
        return given
    raise TypeError(f"{where} answered with a {type(given).__name__}, not with a {kind.__name__} or None")


def refuse_unusable(prompts: Any, context: Any, config: Any, emit: Any, signal: Any, stream: Any) -> None:
    """Look at what a low-level run is given, before anything happens. O(prompts + tools).

    Raises:
        WrongArgument: no run could work with it.
    """
    _must_be(isinstance(context, Context), "context", context, "a Context")
    _must_be(_is_list(context.messages), "context.messages", context.messages, "a list of messages")
    _must_be(
        context.tools is None or _is_list(context.tools), "context.tools", context.tools, "a list of tools, or None"
    )
    for tool in context.tools or ():
        fits = isinstance(getattr(tool, "name", None), str) and callable(getattr(tool, "execute", None))
        _must_be(fits, "a tool in context.tools", tool, "a tool; make it with @tool")
    _must_be(isinstance(config, LoopConfig), "config", config, "a LoopConfig")
    _must_be(isinstance(config.model, Model), "config.model", config.model, "a Model")
    _must_be(isinstance(config.policy, Policy), "config.policy", config.policy, "a Policy")
    limits = config.limits
    _must_be(limits is None or isinstance(limits, RunLimits), "config.limits", limits, "RunLimits(...), or None")
    _must_be(callable(emit), "emit", emit, "a function of one event")
    fits = signal is None or hasattr(signal, "on_abort")
    _must_be(fits, "signal", signal, "the signal of an AbortController, or None")
    _must_be(callable(stream), "stream", stream, "a function that is called with a ModelRequest")
    _must_be(_is_list(prompts), "prompts", prompts, "a list of messages")
    for prompt in prompts:
        as_message(prompt, "prompts")


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray)


def _must_be(fits: bool, name: str, given: Any, wanted: str) -> None:
    if not fits:
        raise WrongArgument(f"{name} cannot be a {type(given).__name__}; give {wanted}")

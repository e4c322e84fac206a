"""What hosts, hooks and tools hand in, checked at the border: beyond it everything has the type it should have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast, get_args

from antiphon.core.messages import Message
from antiphon.errors import WrongArgument

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

"""Does the work get anywhere? Judged by what calls bring about, not by how often they are made.

A result is news if nothing like it came before in this work; news makes everything before it forgotten. Like it is:

- for a call that failed, an earlier failure of the same tool in the same words, whatever the arguments: a model that
  tries one name after the other under one error gets nowhere;
- for a call that worked, the same call with the same result. Waiting is honest, so that counts a third of a failure.

So sixty edits are sixty pieces of news, twelve looks at a job that is not done are four failures' worth, and a failure
that rotates one argument counts whole every time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, final

from msgspec import UNSET

from antiphon.core.content import ToolCall, text_of
from antiphon.core.messages import ToolResultMessage
from antiphon.core.wire import encode, to_wire

FAILED, UNCHANGED = 3, 1
"""What a result without news counts: after a failure, after something that worked."""
_NUMBER = re.compile(r"\d+")
_LONGEST = 10_000


@final
class Progress:
    """What one piece of work has brought about so far."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._stale = 0

    @property
    def without_news(self) -> int:
        """How many failures in a row have taught nothing; results of other calls in between count a third."""
        return self._stale // FAILED

    def note(self, call: ToolCall, result: ToolResultMessage) -> None:
        """This call has ended so."""
        outcome = _failure(call, result) if result.is_error else _success(call, result)
        if outcome in self._seen:
            self._stale += FAILED if result.is_error else UNCHANGED
        else:
            self._seen.add(outcome)
            self._stale = 0


def _failure(call: ToolCall, result: ToolResultMessage) -> bytes:
    """The failure without what depends on the arguments."""
    text = text_of(result.content)[:_LONGEST]
    for value in sorted(set(_leaves(call.arguments)), key=len, reverse=True):
        text = text.replace(value, "…")
    return _digest("failed", call.name, " ".join(_NUMBER.sub("#", text).split()))


def _success(call: ToolCall, result: ToolResultMessage) -> bytes:
    details = None if result.details is UNSET else to_wire(result.details)
    return _digest("worked", call.name, call.arguments, to_wire(result.content), details)


def _leaves(value: Any) -> Iterator[str]:
    """Texts and numbers anywhere in the arguments, as an error would name them."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str | int | float) and not isinstance(item, bool) and str(item).strip():
            yield str(item)


def _digest(*parts: Any) -> bytes:
    return blake2b(encode(parts), digest_size=16).digest()

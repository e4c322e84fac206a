"""Asking before a call: ready-made hooks for `before_tool_call`.

Each maker gives a function from a checked call to a `BeforeDecision`. They decide by the name of the tool: the reading
tools of this package are harmless, everything else changes something until the host says otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.core.hooks import BeforeDecision, BeforeHook, BeforeToolCall
from antiphon.core.ports import AbortSignal
from antiphon.core.wire import JsonObject, encode

HARMLESS = frozenset({"read", "grep", "find", "ls"})
_WRITES = frozenset({"write", "edit"})
_COMMANDS = frozenset({"bash", "powershell"})

Answer: TypeAlias = Literal["yes", "always", "no"]


class Question(Struct, frozen=True):
    """What a person is asked. `subject`: the path, the command, or else the arguments as JSON."""

    kind: Literal["write", "command", "call"]
    tool: str
    subject: str
    call: BeforeToolCall


Ask: TypeAlias = Callable[[Question, AbortSignal], Answer | Awaitable[Answer]]


def allow_all() -> BeforeHook:
    """Every call may run; the same as no hook."""

    def decide(_call: BeforeToolCall, _signal: AbortSignal) -> BeforeDecision | None:
        return None

    return decide


def read_only(harmless: Collection[str] = HARMLESS) -> BeforeHook:
    """Only harmless tools may run. The names are all that counts, so name only tools that you know."""
    names = frozenset(harmless)

    def decide(call: BeforeToolCall, _signal: AbortSignal) -> BeforeDecision | None:
        name = call.tool_call.name
        if name in names:
            return None
        allowed = ", ".join(sorted(names)) or "none"
        return BeforeDecision(block=True, reason=f"Tool {name} is not allowed: only reading is. Allowed: {allowed}.")

    return decide


def ask_first(ask: Ask, harmless: Collection[str] = HARMLESS) -> BeforeHook:
    """Ask before every write, command and unknown tool. `always` is remembered while this hook lives.

    What is remembered: for writing tools the tool, for commands the very command, for other tools the tool. An answer
    that is none of the three, or an `ask` that raises, does not let the call run.
    """
    names = frozenset(harmless)
    granted: set[Hashable] = set()

    async def decide(call: BeforeToolCall, signal: AbortSignal) -> BeforeDecision | None:
        if call.tool_call.name in names:
            return None
        question = question_of(call)
        key = (question.tool, question.subject if question.kind == "command" else None)
        if key in granted:
            return None
        given = ask(question, signal)
        answer = await given if inspect.isawaitable(given) else given
        if answer == "always":
            granted.add(key)
        if answer in ("yes", "always"):
            return None
        return BeforeDecision(block=True, reason=f"The user did not allow this call of {question.tool}.")

    return decide


def question_of(call: BeforeToolCall) -> Question:
    """What a call is about to do, for a person to judge."""
    name, args = call.tool_call.name, call.args
    if name in _WRITES:
        return Question("write", name, _text(args, "path"), call)
    if name in _COMMANDS:
        return Question("command", name, _text(args, "command"), call)
    return Question("call", name, encode(args).decode(), call)


def _text(args: JsonObject, key: str) -> str:
    value = args.get(key)
    return value if isinstance(value, str) else encode(args).decode()

"""From what a person typed to what a model is told: commands, input handlers, skills, templates."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from antiphon.core.content import Image, Text
from antiphon.core.messages import UserMessage
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import Command, InputAnswer, InputGiven, SessionHooks
from antiphon.session.ports import Resources

_COMMAND = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)
SKILL = "skill:"


def command_of(text: str, hooks: SessionHooks) -> tuple[Command, str] | None:
    """The extension command that a text calls, and the rest of the text."""
    found = _COMMAND.fullmatch(text)
    command = None if found is None else hooks.commands.get(found[1])
    return None if found is None or command is None else (command, found[2] or "")


async def run_command(conversation: Conversation, command: Command, rest: str) -> None:
    """Run a command. What it raises is reported."""
    try:
        done = command.handler(rest)
        if inspect.isawaitable(done):
            await done
    except Exception as error:  # noqa: BLE001 - the border to extensions
        conversation.report("command", error, command.handler)


async def handled_input(conversation: Conversation, given: InputGiven) -> InputGiven | None:
    """What the input handlers make of it; nothing if there is nothing left to do."""
    hook = conversation.hooks.input
    if hook is None:
        return given
    try:
        answer: Any = hook(given)
        answer = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 - the border to extensions
        conversation.report("input", error, hook)
        return given
    if not isinstance(answer, InputAnswer) or answer.action == "continue":
        return given
    if answer.action == "handled":
        return None
    return replace(given, text=answer.text, images=given.images if answer.images is None else answer.images)


def expanded(text: str, resources: Resources) -> str:
    """The text with a skill or template command replaced by what it stands for; unknown ones stay as they are."""
    found = _COMMAND.fullmatch(text)
    if found is None:
        return text
    name, rest = found[1], found[2] or ""
    if name.startswith(SKILL):
        made = resources.expand_skill(name[len(SKILL) :], rest)
    else:
        made = resources.expand_template(name, rest)
    return text if made is None else made


def user_message(text: str, images: Sequence[Image], timestamp: int) -> UserMessage:
    """What the user says, as a message."""
    return UserMessage(content=(Text(text=text), *images), timestamp=timestamp)

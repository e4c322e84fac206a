"""What GitHub Copilot wants to know about a request, whatever protocol the request speaks."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.content import Image
from antiphon.core.messages import Message, ToolResultMessage, UserMessage
from antiphon.core.model import Model


def is_copilot(model: Model) -> bool:
    return model.provider == "github-copilot"


def copilot_headers(model: Model, messages: Sequence[Message]) -> dict[str, str]:
    """Who began the request, and whether there is something to see in it; nothing for other providers."""
    if not is_copilot(model):
        return {}
    by_user = not messages or type(messages[-1]) is UserMessage
    headers = {"x-initiator": "user" if by_user else "agent", "openai-intent": "conversation-edits"}
    if any(_has_image(message) for message in messages):
        headers["copilot-vision-request"] = "true"
    return headers


def _has_image(message: Message) -> bool:
    if type(message) is not UserMessage and type(message) is not ToolResultMessage:
        return False
    content = message.content
    return not isinstance(content, str) and any(type(block) is Image for block in content)

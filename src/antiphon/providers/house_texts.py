"""Words of our own that stand in requests: what a model reads where history has a hole or a server has a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

NO_RESULT: Final = "No result is available: this call was not answered."
IMAGE_OMITTED: Final = "(one or more images were here, but this model cannot see images)"
TOOL_IMAGE_OMITTED: Final = "(the tool returned one or more images, but this model cannot see images)"
SEE_IMAGE: Final = "(see the attached image)"
NO_OUTPUT: Final = "(the tool produced no output)"
BRIDGE: Final = "The tool results have been taken in."
IMAGES_FOLLOW: Final = "Images from the tool results above:"
TOOL_IMAGE: Final = "Image from the tool result above:"
ERROR_IMAGE_LATER: Final = "(the image of this failed call is attached after the results)"
TOOLS_UPDATE: Final = "The set of tools has changed; the items that follow replace what was said about tools before."
REDACTED: Final = "(reasoning hidden by the provider)"
PLACEHOLDER_NAME: Final = "never_available"
PLACEHOLDER_DESCRIPTION: Final = "Keeps a place in the tool list. It is never available; do not call it."


def error_image_caption(call_id: str, tool: str) -> str:
    """Whose images follow."""
    return f"Image of the failed call {call_id} of tool {tool}:"


def section_updated(name: str) -> str:
    """In front of the new text of a prompt section."""
    return f'Section "{name}" of the instructions now reads:'


def section_removed(name: str) -> str:
    return f'Section "{name}" of the instructions no longer applies.'


def tools_still_unavailable(names: str) -> str:
    return f"Still unavailable: {names}."


def tools_removed(names: str) -> str:
    return f"These tools are no longer available: {names}."


HouseText: TypeAlias = str | Callable[..., str]

HOUSE_TEXTS: Final[dict[str, HouseText]] = {
    "no_result": NO_RESULT,
    "image_omitted": IMAGE_OMITTED,
    "tool_image_omitted": TOOL_IMAGE_OMITTED,
    "see_image": SEE_IMAGE,
    "no_output": NO_OUTPUT,
    "bridge": BRIDGE,
    "images_follow": IMAGES_FOLLOW,
    "tool_image": TOOL_IMAGE,
    "error_image_later": ERROR_IMAGE_LATER,
    "error_image_caption": error_image_caption,
    "section_updated": section_updated,
    "section_removed": section_removed,
    "tools_update": TOOLS_UPDATE,
    "tools_still_unavailable": tools_still_unavailable,
    "tools_removed": tools_removed,
    "redacted": REDACTED,
    "deferred_placeholder_name": PLACEHOLDER_NAME,
    "deferred_placeholder_description": PLACEHOLDER_DESCRIPTION,
}
"""Every house text by its name in the conformance data; functions take the arguments of the token."""

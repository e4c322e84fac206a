"""Pictures that the user sends, made small enough for the model that will see them."""

from __future__ import annotations

import asyncio
import base64
import binascii

from msgspec import structs

from antiphon.core.content import Block, Image, Text
from antiphon.core.messages import UserMessage
from antiphon.core.model import Model
from antiphon.tools.image_resize import ImageLimits, limits_of_model
from antiphon.tools.image_view import view_image


def has_images(message: UserMessage) -> bool:
    return not isinstance(message.content, str) and any(type(block) is Image for block in message.content)


async def fitted(message: UserMessage, model: Model) -> UserMessage:
    """The message with every picture inside the limits of the model; one that cannot be is a note instead.

    The same message if nothing has to change.
    """
    limits = limits_of_model(model.input_limits)
    blocks = await asyncio.to_thread(_fitted_blocks, message, limits)
    return message if blocks == message.content else structs.replace(message, content=blocks)


def _fitted_blocks(message: UserMessage, limits: ImageLimits) -> tuple[Block, ...]:
    content = () if isinstance(message.content, str) else message.content
    return tuple(shown for block in content for shown in _shown(block, limits))


def _shown(block: Block, limits: ImageLimits) -> tuple[Block, ...]:
    if type(block) is not Image:
        return (block,)
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return (block,)
    view = view_image(data, limits, resize=True, stopped=lambda: False)
    if view.data is None:
        return (Text(text=view.note),)
    if view.data == data:
        return (block,)
    picture = Image(data=base64.b64encode(view.data).decode(), mime_type=view.mime_type)
    return (picture, Text(text=view.note)) if view.note else (picture,)

"""From the messages of a session to those of a model."""

from __future__ import annotations

from antiphon.core.messages import message_from_wire, message_to_wire, user
from antiphon.session_log.convert import NO_IMAGE, to_model_messages, without_images

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def test_nothing_is_copied_where_nothing_is_to_convert() -> None:
    messages = (user("a"), user("b"))

    assert to_model_messages(messages) is messages


def test_images_become_a_short_text_and_neighbours_one() -> None:
    given = [IMAGE, IMAGE, {"type": "text", "text": "x"}, IMAGE]
    messages = [message_from_wire({"role": "user", "content": given}), user("plain")]

    first, second = without_images(messages)

    texts = [block["text"] for block in message_to_wire(first)["content"]]
    assert texts == [NO_IMAGE, "x", NO_IMAGE]
    assert second == user("plain")

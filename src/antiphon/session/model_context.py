"""What a model sees of a conversation: host messages as the user's, declarations without the hidden ones.

A conversation grows at its end, so what was converted is kept: a request converts only the messages that are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from msgspec import UNSET, structs

from antiphon.core.messages import Message, SystemMessage
from antiphon.core.system_state import SystemState
from antiphon.core.transcript import Transcript
from antiphon.session_log.convert import converted_message, without_images


@final
class ModelContext:
    """Converts transcripts. `hidden`: tools whose declarations are left out. `block_images`: pictures are, too."""

    def __init__(self, *, block_images: bool = False) -> None:
        self.block_images = block_images
        self._hidden: frozenset[str] = frozenset()
        self._of: object = None
        self._taken = 0
        self._made = Transcript()

    @property
    def hidden(self) -> frozenset[str]:
        return self._hidden

    @hidden.setter
    def hidden(self, names: frozenset[str]) -> None:
        if names != self._hidden:
            self._hidden = names
            self._of = None

    def __call__(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages for a model. The same sequence if there is nothing to convert."""
        if not isinstance(messages, Transcript):
            return [told for message in messages for told in self._told(message)]
        if not messages.has_host_messages and not self._hidden and not self.block_images:
            return messages
        if self._of is not messages.storage or len(messages) < self._taken:
            self._of, self._taken, self._made = messages.storage, 0, Transcript()
        for number in range(self._taken, len(messages)):
            self._made = self._made.extend(self._told(messages[number]))
        self._taken = len(messages)
        return self._made

    def _told(self, message: Message) -> tuple[Message, ...]:
        if self._hidden and type(message) is SystemMessage and message.tools_added is not UNSET:
            shown = tuple(tool for tool in message.tools_added if tool.name not in self._hidden)
            message = structs.replace(message, tools_added=shown or UNSET)
        told = converted_message(message)
        return tuple(without_images(told)) if self.block_images else told


def with_prompt(messages: Sequence[Message], prompt: str, state: SystemState) -> list[Message]:
    """The messages with another prompt in place of all that system messages said; the tools in force stay declared."""
    first = SystemMessage(content=prompt, tools_added=state.tools or UNSET)
    return [first, *(message for message in messages if type(message) is not SystemMessage)]

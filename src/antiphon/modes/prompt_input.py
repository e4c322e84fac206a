"""The prompts of a one-shot run: standard input, then files, then the first message; each further message on its own.

A newline stands between parts, unless the left one already ends with one. What is a picture is decided by content.
Source: modes specification 4.
"""

from __future__ import annotations

import base64
import os
import select
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from antiphon.core.content import Image
from antiphon.core.model import Model
from antiphon.errors import ConfigurationError
from antiphon.resources.paths import expanded
from antiphon.tools.image_resize import limits_of_model
from antiphon.tools.image_view import view_image
from antiphon.tools.images import SNIFF_BYTES, image_type

READ_BYTES = 1 << 20
PATIENCE_SECONDS = 3.0
MOST_INPUT_BYTES = 64 * 1024 * 1024


class GivenPrompt(Struct, frozen=True):
    """What to say, and pictures that go with it."""

    text: str
    images: tuple[Image, ...] = ()


class Pictures(Struct, frozen=True):
    """How pictures are given to a model: made smaller or not, or not at all."""

    model: Model | None = None
    resize: bool = True
    blocked: bool = False


def read_stdin(waiting: Callable[[], None] | None = None) -> str:
    """Everything on standard input, trimmed; broken bytes become U+FFFD.

    `waiting` is called once if nothing comes for some seconds: a person may wonder what we wait for.

    Raises:
        ConfigurationError: it cannot be read, or does not end.
    """
    blocks: list[bytes] = []
    left = MOST_INPUT_BYTES
    try:
        if waiting is not None and not select.select([0], [], [], PATIENCE_SECONDS)[0]:
            waiting()
        while block := os.read(0, READ_BYTES):
            blocks.append(block)
            left -= len(block)
            if left < 0:
                raise ConfigurationError(
                    f"standard input is larger than {MOST_INPUT_BYTES // 1024 // 1024} MiB; "
                    "keep it in a file and let the agent look into that"
                )
    except OSError as error:
        raise ConfigurationError(f"standard input cannot be read: {error.strerror or error}") from error
    return b"".join(blocks).decode("utf-8", "replace").removeprefix("\ufeff").strip()


def check_file(name: str, cwd: Path, home: Path) -> None:
    """Look whether a file can be read.

    Raises:
        ConfigurationError: it cannot.
    """
    with _reading(name), (cwd / expanded(name, home)).open("rb"):
        return


@contextmanager
def _reading(name: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        hint = "; words that begin with @ are files, behind -- they are a message" if " " in name else ""
        raise ConfigurationError(f"cannot read @{name}: {getattr(error, 'strerror', None) or error}{hint}") from error


def file_part(name: str, cwd: Path, home: Path, pictures: Pictures) -> GivenPrompt:
    """A file as a part of a prompt; an empty file is no part.

    Raises:
        ConfigurationError: it cannot be read.
    """
    path = cwd / expanded(name, home)
    with _reading(name), path.open("rb") as file:
        data = file.read(MOST_INPUT_BYTES + 1)
    if len(data) > MOST_INPUT_BYTES:
        raise ConfigurationError(f"cannot read @{name}: it is larger than {MOST_INPUT_BYTES // 1024 // 1024} MiB")
    if image_type(data[:SNIFF_BYTES]) is not None:
        return _picture(path, data, pictures)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return GivenPrompt(f'<file name="{path}">\n{text}\n</file>\n' if text else "")


def _picture(path: Path, data: bytes, pictures: Pictures) -> GivenPrompt:
    """An attachment, and a word in the text about what it is, or why it is left out."""
    if pictures.blocked:
        return GivenPrompt(f'<file name="{path}">[Image omitted: the settings allow none.]</file>\n')
    limits = limits_of_model(pictures.model.input_limits) if pictures.model is not None else limits_of_model({})
    view = view_image(data, limits, resize=pictures.resize, stopped=lambda: False)
    hints = "\n".join(view.note.split("\n")[1:])
    text = f'<file name="{path}">{hints}</file>\n'
    if view.data is None:
        return GivenPrompt(text)
    return GivenPrompt(text, (Image(data=base64.b64encode(view.data).decode(), mime_type=view.mime_type),))


def prompts_of(
    messages: Sequence[str],
    files: Sequence[str],
    piped: str,
    cwd: Path,
    home: Path,
    pictures: Pictures,
    told: Callable[[str], None] = lambda _text: None,
) -> list[GivenPrompt]:
    """The prompts in order: the first one with everything in front of it, each further message on its own.

    `told` hears what a person should know, such as a file that is empty.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    read = [file_part(name, cwd, home, pictures) for name in files]
    for name, part in zip(files, read, strict=True):
        if not part.text:
            told(f"@{name} is empty and left out")
    first = join([piped, *(part.text for part in read), *messages[:1]])
    images = tuple(image for part in read for image in part.images)
    rest = [GivenPrompt(message) for message in messages[1:] if message.strip()]
    return ([GivenPrompt(first, images)] if first.strip() or images else []) + rest


def join(parts: Sequence[str]) -> str:
    """Non-empty parts, each on a line of its own."""
    out: list[str] = []
    for part in parts:
        if part and out and not out[-1].endswith("\n"):
            out.append("\n")
        if part:
            out.append(part)
    return "".join(out)

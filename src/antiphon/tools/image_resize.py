"""Making pictures small enough for a model. The one file that needs an imaging library (Pillow, optional)."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator
from typing import Any, cast

from msgspec import Struct, UnsetType

from antiphon.core.wire import JsonObject

MAX_PIXELS = 2_000
MAX_BASE64_BYTES = 4_718_592  # 4.5 MiB
_QUALITIES = (85, 70, 55, 40)


class ImageLimits(Struct, frozen=True):
    """What a model takes at most. `max_base64_bytes` is the size of the encoded text; `jpeg_quality` is tried first."""

    max_width: int = MAX_PIXELS
    max_height: int = MAX_PIXELS
    max_base64_bytes: int = MAX_BASE64_BYTES
    jpeg_quality: int = 80


def limits_of_model(input_limits: JsonObject | UnsetType) -> ImageLimits:
    """The limits that a model's description sets under `images.resize`; what it leaves out or garbles is usual."""
    given: Any = input_limits
    for key in ("images", "resize"):
        given = cast("JsonObject", given).get(key) if isinstance(given, dict) else None
    if not isinstance(given, dict):
        return ImageLimits()
    names = {
        "max_width": "maxWidth",
        "max_height": "maxHeight",
        "max_base64_bytes": "maxBytes",
        "jpeg_quality": "jpegQuality",
    }
    wanted = {name: cast("JsonObject", given).get(wire) for name, wire in names.items()}
    return ImageLimits(**{name: int(n) for name, n in wanted.items() if isinstance(n, int | float) and n >= 1})


class Resized(Struct, frozen=True):
    """The picture to send, and the size it had."""

    data: bytes
    mime_type: str
    width: int
    height: int
    original_width: int
    original_height: int


def base64_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def can_resize() -> bool:
    """Is the imaging library installed?"""
    try:
        importlib.import_module("PIL.Image")
    except ImportError:
        return False
    return True


def resized(data: bytes, limits: ImageLimits, stopped: Callable[[], bool]) -> Resized | None:
    """The picture, upright, inside the limits; None: it cannot be decoded, or not be made small enough.

    Lossless and lossy forms are tried and the smaller one wins; while none fits, lower qualities, then three quarters
    of the size.
    """
    image = _open(data)
    if image is None:
        return None
    original: tuple[int, int] = image.size
    width, height = _fitting(original, limits)
    while not stopped():
        scaled = image if (width, height) == original else image.resize((width, height), _lanczos())
        for encoded, mime_type in _candidates(scaled, limits.jpeg_quality):
            if base64_size(encoded) < limits.max_base64_bytes:
                return Resized(encoded, mime_type, width, height, original[0], original[1])
        if (width, height) == (1, 1):
            return None
        width, height = max(1, width * 3 // 4), max(1, height * 3 // 4)
    return None


def to_png(data: bytes) -> bytes | None:
    """The picture as PNG; None: it cannot be decoded."""
    image = _open(data)
    return None if image is None else _png(image)


def _open(data: bytes) -> Any | None:
    image_module = importlib.import_module("PIL.Image")
    turn = importlib.import_module("PIL.ImageOps")
    try:
        image = image_module.open(io.BytesIO(data))
        image.load()
        return turn.exif_transpose(image)
    except Exception:  # noqa: BLE001 - the library raises what it likes for broken pictures
        return None


def _lanczos() -> Any:
    return importlib.import_module("PIL.Image").Resampling.LANCZOS


def _fitting(size: tuple[int, int], limits: ImageLimits) -> tuple[int, int]:
    """The largest size inside the limits with the same proportions; halves of a pixel are rounded up."""
    width, height = size
    if width <= limits.max_width and height <= limits.max_height:
        return size
    if width * limits.max_height >= height * limits.max_width:
        return limits.max_width, max(1, _rounded(height * limits.max_width, width))
    return max(1, _rounded(width * limits.max_height, height)), limits.max_height


def _rounded(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def _candidates(image: Any, quality: int) -> Iterator[tuple[bytes, str]]:
    """Encodings to try, best first: the smaller of PNG and JPEG, then JPEG of falling quality."""
    first = [(_png(image), "image/png"), (_jpeg(image, quality), "image/jpeg")]
    yield from sorted(first, key=lambda pair: len(pair[0]))
    for lower in _QUALITIES:
        yield _jpeg(image, lower), "image/jpeg"


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    plain = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16") else image.convert("RGBA")
    plain.save(out, "PNG")
    return out.getvalue()


def _jpeg(image: Any, quality: int) -> bytes:
    out = io.BytesIO()
    image.convert("RGB").save(out, "JPEG", quality=quality)
    return out.getvalue()

"""A picture file as it is shown to a model: kept as it is where possible, made smaller where needed, with a note.

Source: tools specification, 2. Without an imaging library pictures within the limits still pass; larger ones are left
out with a note that says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from antiphon.tools.image_resize import ImageLimits, Resized, base64_size, can_resize, resized, to_png
from antiphon.tools.images import Picture, image_type, jpeg_orientation, picture, png_of_bmp

MOST_BYTES = 64 * 1024 * 1024  # larger files are not even loaded
MOST_PIXELS = 80_000_000  # a small file may unfold to gigabytes

TOO_LARGE = "[Image omitted: could not be resized below the inline image size limit.]"
NO_LIBRARY = (
    "[Image omitted: it is {width}x{height} pixels and {size} bytes, too large to be shown, and making it smaller "
    "needs the Python package Pillow, which is not installed.]"
)
ANIMATED = "[Image omitted: an animated PNG cannot be shown; save one frame as a picture of its own.]"


class ImageView(Struct, frozen=True):
    """What is shown. `data` None: only the note."""

    note: str
    mime_type: str = ""
    data: bytes | None = None


def view_image(data: bytes, limits: ImageLimits, *, resize: bool, stopped: Callable[[], bool]) -> ImageView:
    """The view of a file whose beginning says that it is a picture. `resize` false: whatever its size, as it is."""
    kind = image_type(data) or ""
    seen = picture(data)
    hints: list[str] = []
    if kind == "image/bmp" and seen is not None and seen.width * seen.height <= MOST_PIXELS:
        converted = png_of_bmp(data) or (to_png(data) if can_resize() else None)
        if converted is not None:
            hints.append("[Image converted from image/bmp to image/png.]")
            data, kind, seen = converted, "image/png", picture(converted)
    if seen is not None and seen.width * seen.height > MOST_PIXELS:
        return omitted(kind, f"[Image omitted: {seen.width}x{seen.height} pixels are more than can be handled.]")
    if seen is None or not seen.whole or kind == "image/bmp":
        return omitted(kind, TOO_LARGE)
    if seen.animated:
        return _animated(data, seen, limits, stopped)
    if not resize or (_fits(data, seen, limits) and not (kind == "image/jpeg" and jpeg_orientation(data) != 1)):
        return _shown(data, kind, hints)
    return _smaller(data, seen, limits, hints, stopped)


def _fits(data: bytes, seen: Picture, limits: ImageLimits) -> bool:
    inside = seen.width <= limits.max_width and seen.height <= limits.max_height
    return inside and base64_size(data) < limits.max_base64_bytes


def _smaller(
    data: bytes, seen: Picture, limits: ImageLimits, hints: list[str], stopped: Callable[[], bool]
) -> ImageView:
    if not can_resize():
        if _fits(data, seen, limits):  # only its orientation asked for work
            return _shown(data, seen.mime_type, hints)
        return omitted(seen.mime_type, NO_LIBRARY.format(width=seen.width, height=seen.height, size=len(data)))
    made = resized(data, limits, stopped)
    if made is None:
        return omitted(seen.mime_type, TOO_LARGE)
    return _shown(made.data, made.mime_type, [*hints, *_scale_hint(made)])


def _scale_hint(made: Resized) -> list[str]:
    if (made.width, made.height) == (made.original_width, made.original_height):
        return []
    factor = made.original_width / made.width
    return [
        f"[Image: original {made.original_width}x{made.original_height}, displayed at {made.width}x{made.height}. "
        f"Multiply coordinates by {factor:.2f} to map to original image.]"
    ]


def _animated(data: bytes, seen: Picture, limits: ImageLimits, stopped: Callable[[], bool]) -> ImageView:
    """The first frame, where a library can take it out."""
    made = resized(data, limits, stopped) if can_resize() else None
    if made is None:
        return omitted(seen.mime_type, ANIMATED)
    return _shown(made.data, made.mime_type, ["[Animated image: only its first frame is shown.]", *_scale_hint(made)])


def omitted(kind: str, why: str) -> ImageView:
    """A picture that cannot be shown, and why."""
    return ImageView(note=f"Read image file [{kind}]\n{why}")


def _shown(data: bytes, kind: str, hints: list[str]) -> ImageView:
    return ImageView(note="\n".join([f"Read image file [{kind}]", *hints]), mime_type=kind, data=data)

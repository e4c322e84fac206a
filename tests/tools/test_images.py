"""Pictures: recognised by content, measured and checked without a library, made smaller with one."""

from __future__ import annotations

import base64
import builtins
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image as Pillow
from tests.tools.calls import outcome_of
from tests.tools.memory_files import MemoryFiles, NoProcesses

from antiphon.core.content import Image, Text
from antiphon.core.model import Model
from antiphon.tools import images
from antiphon.tools.image_resize import ImageLimits, base64_size, limits_of_model, resized
from antiphon.tools.image_view import view_image
from antiphon.tools.images import image_type, jpeg_orientation, picture, png_of_bmp
from antiphon.tools.local_files import never
from antiphon.tools.read import read_tool
from antiphon.tools.workspace import HostWorkspace


def drawn(kind: str, size: tuple[int, int] = (30, 20), **options: Any) -> bytes:
    out = io.BytesIO()
    Pillow.linear_gradient("L").resize(size).convert("RGB").save(out, kind, **options)
    return out.getvalue()


def noise(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Pillow.effect_noise((width, height), 100).convert("RGB").save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "mime", "options"),
    [
        ("PNG", "image/png", {}),
        ("JPEG", "image/jpeg", {}),
        ("JPEG", "image/jpeg", {"progressive": True}),
        ("GIF", "image/gif", {}),
        ("WEBP", "image/webp", {}),
        ("WEBP", "image/webp", {"lossless": True}),
        ("WEBP", "image/webp", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
        ("BMP", "image/bmp", {}),
    ],
)
def test_type_and_size_are_read_from_the_bytes(kind: str, mime: str, options: dict[str, Any]) -> None:
    data = drawn(kind, (37, 23), **options)
    seen = picture(data)
    assert image_type(data[: images.SNIFF_BYTES]) == mime
    assert seen is not None
    assert (seen.mime_type, seen.width, seen.height, seen.whole) == (mime, 37, 23, True)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_that_was_cut_off_is_noticed(kind: str) -> None:
    data = drawn(kind)
    seen = picture(data[: len(data) * 2 // 3])
    assert seen is None or not seen.whole


@pytest.mark.parametrize("text", [b"BM is short for", b"BMW bought an aeroplane factory, and more", b"RIFF-RAFF", b""])
def test_texts_that_begin_like_pictures_are_texts(text: bytes) -> None:
    assert image_type(text) is None
    assert picture(text) is None


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_plain_bmp_becomes_the_same_picture_as_png(mode: str) -> None:
    original = Pillow.effect_noise((7, 5), 80).convert(mode)
    out = io.BytesIO()
    original.save(out, "BMP")
    converted = png_of_bmp(out.getvalue())
    assert converted is not None
    assert list(Pillow.open(io.BytesIO(converted)).convert("RGB").tobytes()) == list(original.convert("RGB").tobytes())


def test_other_kinds_of_bmp_need_the_library() -> None:
    out = io.BytesIO()
    Pillow.linear_gradient("L").resize((9, 9)).convert("P").save(out, "BMP")
    assert png_of_bmp(out.getvalue()) is None
    view = view_image(out.getvalue(), ImageLimits(), resize=True, stopped=never)
    assert view.mime_type == "image/png" and view.data is not None and picture(view.data) is not None


def test_a_large_picture_is_made_smaller_and_says_by_how_much() -> None:
    view = view_image(drawn("PNG", (3000, 1500)), ImageLimits(), resize=True, stopped=never)
    assert view.data is not None
    seen = picture(view.data)
    assert seen is not None and (seen.width, seen.height) == (2000, 1000)
    assert view.note.endswith(
        "[Image: original 3000x1500, displayed at 2000x1000. Multiply coordinates by 1.50 to map to original image.]"
    )


def test_a_heavy_picture_loses_quality_then_size() -> None:
    limits = ImageLimits(max_base64_bytes=60_000)
    made = resized(noise(400, 400), limits, never)
    assert made is not None and base64_size(made.data) < 60_000 and made.mime_type == "image/jpeg"
    half = resized(noise(20, 13), ImageLimits(max_width=10, max_height=10), never)
    assert half is not None
    assert (half.width, half.height) == (10, 7)  # of 6.5; halves go up
    tiny = resized(noise(400, 400), ImageLimits(max_base64_bytes=3_000), never)
    assert tiny is not None and tiny.width < 400
    assert resized(noise(40, 40), ImageLimits(max_base64_bytes=10), never) is None


def test_orientation_is_applied() -> None:
    turned = Pillow.new("RGB", (40, 20), "red")
    exif = turned.getexif()
    exif[0x0112] = 6
    out = io.BytesIO()
    turned.save(out, "JPEG", exif=exif)
    assert jpeg_orientation(out.getvalue()) == 6
    assert jpeg_orientation(drawn("JPEG")) == 1
    view = view_image(out.getvalue(), ImageLimits(), resize=True, stopped=never)
    assert view.data is not None
    seen = picture(view.data)
    assert seen is not None and (seen.width, seen.height) == (20, 40)


def animated_png() -> bytes:
    out = io.BytesIO()
    frames = [Pillow.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:])
    return out.getvalue()


def test_an_animated_png_is_shown_by_its_first_frame() -> None:
    """The reference shows its bytes as text."""
    view = view_image(animated_png(), ImageLimits(), resize=True, stopped=never)
    assert view.data is not None
    assert Pillow.open(io.BytesIO(view.data)).convert("RGB").getpixel((0, 0)) in ((255, 0, 0), (254, 0, 0))
    assert "[Animated image: only its first frame is shown.]" in view.note


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr("antiphon.tools.image_resize.importlib.import_module", without)


@pytest.mark.usefixtures("no_library")
def test_without_the_library_small_pictures_pass_and_large_ones_say_what_is_missing() -> None:
    limits = ImageLimits()
    assert view_image(drawn("PNG"), limits, resize=True, stopped=never).data == drawn("PNG")
    assert view_image(drawn("BMP"), limits, resize=True, stopped=never).mime_type == "image/png"
    large = view_image(drawn("PNG", (2400, 10)), limits, resize=True, stopped=never)
    assert large.data is None
    assert "2400x10 pixels" in large.note and "Pillow" in large.note
    moving = view_image(animated_png(), limits, resize=True, stopped=never)
    assert moving.data is None and "animated PNG" in moving.note


def test_a_picture_with_a_broken_inside_is_left_out() -> None:
    data = bytearray(drawn("PNG", (2400, 10)))
    at = data.index(b"IDAT") + 4
    (size,) = struct.unpack_from(">I", data, at - 8)
    data[at : at + 10] = b"\0" * 10
    struct.pack_into(">I", data, at + size, zlib.crc32(bytes(data[at - 4 : at + size])))
    view = view_image(bytes(data), ImageLimits(), resize=True, stopped=never)
    assert view.data is None and "Image omitted" in view.note


async def test_a_model_without_eyes_is_named_in_the_details() -> None:
    workspace = HostWorkspace("/w", MemoryFiles({"/w/p": drawn("PNG")}), NoProcesses())
    blind = Model(id="blind-1", api="x", provider="p", input=("text",))
    seeing = Model(id="eyes-1", api="x", provider="p", input=("text", "image"))

    result = (await outcome_of(read_tool(workspace, model=lambda: blind), {"path": "p"})).result
    assert result.details == {"imageUnsupportedByModel": "blind-1"}
    assert [type(block) for block in result.content] == [Text, Image]
    result = (await outcome_of(read_tool(workspace, model=lambda: seeing), {"path": "p"})).result
    assert not isinstance(result.details, dict)
    narrow = Model(
        id="n", api="x", provider="p", input=("image",), input_limits={"images": {"resize": {"maxWidth": 10}}}
    )
    result = (await outcome_of(read_tool(workspace, model=lambda: narrow), {"path": "p"})).result
    assert "original 30x20, displayed at 10x7" in result.content[0].text
    result = (await outcome_of(read_tool(workspace, model=lambda: seeing), {"path": "p"})).result
    assert result.structured_content["data"] == base64.b64encode(drawn("PNG")).decode()


async def test_limits_of_the_host_and_no_resizing() -> None:
    data = drawn("PNG", (300, 30))
    workspace = HostWorkspace("/w", MemoryFiles({"/w/p": data}), NoProcesses())
    small = read_tool(workspace, image_limits=ImageLimits(max_width=100))
    result = (await outcome_of(small, {"path": "p"})).result
    assert "displayed at 100x10" in result.content[0].text
    result = (await outcome_of(read_tool(workspace, resize_images=False), {"path": "p"})).result
    assert result.content[1].data == base64.b64encode(data).decode()


def test_paths_of_pictures_do_not_matter(tmp_path: Path) -> None:
    assert image_type(b"\x89PNG\r\n\x1a\n" + b"\0" * 20) is None  # no header chunk
    assert picture(b"\xff\xd8\xff\xe0") is None


@pytest.mark.parametrize("given", [msgspec.UNSET, {}, {"images": None}, {"images": {"resize": {"maxWidth": "wide"}}}])
def test_a_model_without_usable_limits_has_the_usual_ones(given: Any) -> None:
    assert limits_of_model(given) == ImageLimits()


async def test_files_and_pictures_beyond_all_measure_are_not_loaded() -> None:
    import antiphon.tools.read as read_module

    bomb = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    )
    workspace = HostWorkspace("/w", MemoryFiles({"/w/bomb": bomb, "/w/p": drawn("PNG")}), NoProcesses())
    result = (await outcome_of(read_tool(workspace), {"path": "bomb"})).result
    assert "60000x60000 pixels are more than can be handled" in result.content[0].text

    limit = read_module.MOST_BYTES
    read_module.MOST_BYTES = 100
    try:
        result = (await outcome_of(read_tool(workspace), {"path": "p"})).result
    finally:
        read_module.MOST_BYTES = limit
    assert result.content[0].text == "Read image file [image/png]\n[Image omitted: the file is larger than 100B.]"

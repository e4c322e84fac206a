"""Pictures recognised and measured by their bytes. Pure, without an imaging library.

Source: tools specification, 2.
"""

from __future__ import annotations

import struct
import zlib

from msgspec import Struct

SNIFF_BYTES = 4_100
PNG = b"\x89PNG\r\n\x1a\n"


class Picture(Struct, frozen=True):
    """What the bytes say. `whole`: nothing is missing, as far as the container tells. `animated`: an animated PNG."""

    mime_type: str
    width: int
    height: int
    whole: bool = True
    animated: bool = False


def image_type(head: bytes) -> str | None:
    """The media type by the first bytes of a file; None: no picture that models take."""
    if head.startswith(b"\xff\xd8\xff") and head[3:4] != b"\xf7":
        return "image/jpeg"
    if head.startswith(PNG) and head[12:16] == b"IHDR":
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith(b"BM") and _is_bmp(head):
        return "image/bmp"
    return None


def _is_bmp(head: bytes) -> bool:
    """`BM` begins many a text; sizes must make sense as well."""
    if len(head) < 26:
        return False
    header = int.from_bytes(head[14:18], "little")
    return header in (12, 40, 52, 56, 64, 108, 124) and head[6:10] == bytes(4)


def picture(data: bytes) -> Picture | None:
    """Type and size of a picture; None: the bytes are none, or broken before they say their size."""
    kind = image_type(data[:SNIFF_BYTES])
    try:
        if kind == "image/png":
            return _png(data)
        if kind == "image/jpeg":
            return _jpeg(data)
        if kind == "image/gif":
            width, height = struct.unpack_from("<HH", data, 6)
            return Picture(kind, width, height, whole=data.rstrip(b"\0").endswith(b";"))
        if kind == "image/webp":
            return _webp(data)
        if kind == "image/bmp":
            return _bmp_size(data)
    except (struct.error, IndexError):
        return None
    return None


def _png(data: bytes) -> Picture:
    width, height = struct.unpack_from(">II", data, 16)
    animated = False
    position = len(PNG)
    while position + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, position)
        name, end = data[position + 4 : position + 8], position + 8 + size
        animated = animated or name == b"acTL"
        if end + 4 > len(data) or zlib.crc32(data[position + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            break
        if name == b"IEND":
            return Picture("image/png", width, height, animated=animated)
        position = end + 4
    return Picture("image/png", width, height, whole=False, animated=animated)


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg(data: bytes) -> Picture | None:
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD8 or marker == 0x01:
            position += 1 if marker == 0xFF else 2
            continue
        (size,) = struct.unpack_from(">H", data, position + 2)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return Picture("image/jpeg", width, height, whole=data.rfind(b"\xff\xd9") > position)
        position += 2 + size
    return None


def jpeg_orientation(data: bytes) -> int:
    """How a JPEG asks to be turned (EXIF, 1 to 8); 1: not at all."""
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF and data[position + 1] != 0xDA:
        (size,) = struct.unpack_from(">H", data, position + 2)
        if data[position + 1] == 0xE1 and data[position + 4 : position + 10] == b"Exif\0\0":
            return _exif_orientation(data[position + 10 : position + 2 + size])
        position += 2 + size
    return 1


def _exif_orientation(tiff: bytes) -> int:
    order = "<" if tiff.startswith(b"II") else ">"
    try:
        (table,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, table)
        for index in range(min(count, 200)):
            tag, _kind, _n, value = struct.unpack_from(order + "HHIH", tiff, table + 2 + 12 * index)
            if tag == 0x0112:
                return value if 1 <= value <= 8 else 1
    except struct.error:
        return 1
    return 1


def _webp(data: bytes) -> Picture | None:
    whole = int.from_bytes(data[4:8], "little") + 8 <= len(data) + 1
    form = data[12:16]
    if form == b"VP8X":
        width = 1 + int.from_bytes(data[24:27], "little")
        height = 1 + int.from_bytes(data[27:30], "little")
    elif form == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif form == b"VP8 ":
        width, height = (value & 0x3FFF for value in struct.unpack_from("<HH", data, 26))
    else:
        return None
    return Picture("image/webp", width, height, whole=whole)


def _bmp_size(data: bytes) -> Picture:
    if int.from_bytes(data[14:18], "little") == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
    return Picture("image/bmp", width, abs(height), whole=int.from_bytes(data[10:14], "little") < len(data))


def png_of_bmp(data: bytes) -> bytes | None:
    """The same picture as PNG, for the plain kinds of BMP (24 or 32 bits, uncompressed); None: not one of them."""
    if len(data) < 54 or int.from_bytes(data[14:18], "little") < 40:
        return None
    offset = int.from_bytes(data[10:14], "little")
    width, height, _planes, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    rows, step = abs(height), bits // 8
    stride = (width * step + 3) // 4 * 4
    if bits not in (24, 32) or compression or width <= 0 or not rows or offset + stride * rows > len(data):
        return None
    lines = bytearray()
    for row in range(rows):
        at = offset + stride * (rows - 1 - row if height > 0 else row)
        line = data[at : at + width * step]
        pixels = bytearray(width * 3)
        pixels[0::3], pixels[1::3], pixels[2::3] = line[2::step], line[1::step], line[0::step]
        lines += b"\0" + pixels
    head = struct.pack(">IIBBBBB", width, rows, 8, 2, 0, 0, 0)
    return PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(bytes(lines))) + _chunk(b"IEND", b"")


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

"""A real browser without a window, and what its pictures show. Tests that need it skip where there is none."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
DARK: Final = "--blink-settings=preferredColorScheme=0"
_NO_SCRIPTS: Final = '{"profile": {"default_content_setting_values": {"javascript": 2}}}'
SECONDS: Final = 120
Colour = tuple[int, int, int]


class Browser:
    """Starts anew, with a profile of its own, for every page. `scripts`: may pages run any?"""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._runs = 0
        self.scripts = True

    def _run(self, page: Path, *options: str) -> bytes:
        self._runs += 1
        profile = self._folder / f"profile{self._runs}"
        (profile / "Default").mkdir(parents=True)
        if not self.scripts:
            (profile / "Default" / "Preferences").write_text(_NO_SCRIPTS)
        command = [self._program, *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()]
        return subprocess.run(command, capture_output=True, timeout=SECONDS, check=True).stdout

    def dom(self, page: Path, *options: str) -> str:
        """What the browser made of a page, written as HTML again."""
        return self._run(page, "--dump-dom", *options).decode()

    def picture(self, page: Path, width: int, height: int, *options: str) -> Picture:
        """What a person would see of it."""
        path = page.with_name(f"{page.stem}-{width}-{self._runs}.png")
        self._run(page, f"--window-size={width},{height}", f"--screenshot={path}", *options)
        return Picture(path.read_bytes())


def found_browser(folder: Path) -> Browser:
    """The browser of this machine; the test is skipped if there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)} is on the PATH")
    return Browser(program, folder)


class Picture:
    """A PNG, decoded as far as browsers write them: eight bits, RGB or RGBA, not interlaced."""

    def __init__(self, data: bytes) -> None:
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        self.width, self.height, depth, kind, *rest = struct.unpack(">IIBBBBB", data[16:29])
        assert (depth, rest[2]) == (8, 0)
        self._step = {2: 3, 6: 4}[kind]
        at, packed = 8, b""
        while at < len(data):
            length, name = struct.unpack(">I4s", data[at : at + 8])
            packed += data[at + 8 : at + 8 + length] if name == b"IDAT" else b""
            at += 12 + length
        self.rows = self._unfiltered(zlib.decompress(packed))

    def _unfiltered(self, data: bytes) -> list[bytes]:
        step, length = self._step, self.width * self._step
        rows: list[bytes] = []
        above = bytearray(length)
        for start in range(0, len(data), length + 1):
            row = bytearray(data[start + 1 : start + 1 + length])
            _undo(data[start], row, above, step)
            rows.append(bytes(row))
            above = row
        return rows

    def at(self, x: int, y: int) -> Colour:
        row = self.rows[y]
        return (row[x * self._step], row[x * self._step + 1], row[x * self._step + 2])

    def colours(self) -> Counter[Colour]:
        """How many pixels have which colour."""
        step = self._step
        return Counter(
            colour for row in self.rows for colour in zip(row[::step], row[1::step], row[2::step], strict=True)
        )


def _undo(kind: int, row: bytearray, above: bytearray, step: int) -> None:
    """Undo one of the five filters of a row, in place."""
    if kind == 2:
        row[:] = bytes((a + b) & 255 for a, b in zip(row, above, strict=True))
        return
    for at in range(len(row) if kind else 0):
        left, up = (row[at - step] if at >= step else 0), above[at]
        corner = above[at - step] if at >= step else 0
        guess = {1: left, 3: (left + up) // 2}.get(kind)
        row[at] = (row[at] + (_paeth(left, up, corner) if guess is None else guess)) & 255


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))

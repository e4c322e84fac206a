"""What a path in a model's words means. Pure: the same rules for POSIX and Windows, whatever machine this runs on.

Source: tools specification, 1.1. The literal reading is tried first, so that files with special spaces or a leading
`@` in their names stay reachable.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, TypeAlias
from urllib.parse import unquote

Flavour: TypeAlias = Literal["posix", "macos", "windows"]

_SPECIAL_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_SHOT_TIME = re.compile(r" (AM|PM)\.", re.IGNORECASE)
_DRIVE_URL = re.compile(r"^/[A-Za-z]:(/|$)")
_SHELL_DRIVE = re.compile(r"^/(?:mnt/|cygdrive/)?([A-Za-z])(/|$)")


class BadPath(ValueError):
    """A text that names no file on this host."""


def plain(path: str) -> str:
    """Special spaces become plain ones and one leading `@` is dropped: what models tend to add."""
    path = _SPECIAL_SPACES.sub(" ", path)
    return path[1:] if path.startswith("@") else path


def readings(path: str, cwd: str, home: str | None, flavour: Flavour = "posix") -> tuple[str, ...]:
    """The absolute paths that a text may mean, the literal one first; the last is meant when none exists.

    Raises:
        BadPath: the text holds a NUL character or is a file URL for another host.
    """
    literal = resolve(path, cwd, home, flavour)
    usual = resolve(plain(path), cwd, home, flavour)
    return (literal,) if literal == usual else (literal, usual)


def resolve(path: str, cwd: str, home: str | None, flavour: Flavour = "posix") -> str:
    """The absolute path: home folder, file URL, working folder, dots folded. Looks at no file.

    Raises:
        BadPath: see `readings`.
    """
    path = _checked(path)
    module = ntpath if flavour == "windows" else posixpath
    path = _from_url(path, flavour) if path[:7].lower() == "file://" else _at_home(path, home, flavour)
    if flavour == "windows":
        path = _from_shell(path)
    joined: str = module.normpath(module.join(cwd, path))
    return joined[1:] if flavour != "windows" and joined.startswith("//") else joined


def _checked(path: str) -> str:
    """The path, if a file system can take it. Surrogates that stand for single bytes of a name are fine."""
    if "\0" in path:
        raise BadPath(f"A path must not contain a NUL character: {path!r}")
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadPath(f"A path must be Unicode text, without lone surrogates: {path!r}") from None
    return path


def _at_home(path: str, home: str | None, flavour: Flavour) -> str:
    """`~` and `~/…`; another user's `~name` stays as it is."""
    if home is None or not path.startswith("~"):
        return path
    if path == "~":
        return home
    if path[1] == "/" or (flavour == "windows" and path[1] == "\\"):
        return home.rstrip("\\/" if flavour == "windows" else "/") + path[1:]
    return path


def _from_url(url: str, flavour: Flavour) -> str:
    rest = url[len("file://") :]
    host, slash, tail = rest.partition("/")
    tail = slash + tail
    if host.lower() not in ("", "localhost"):
        if flavour == "windows":
            return "\\\\" + host + unquote(tail).replace("/", "\\")
        raise BadPath(f"A file URL must not name a host: {url}")
    decoded = _checked(unquote(tail, errors="surrogateescape"))
    if flavour == "windows" and _DRIVE_URL.match(decoded):
        return decoded[1:].replace("/", "\\")
    return decoded


def _from_shell(path: str) -> str:
    """`/c/x`, `/mnt/c/x` and `/cygdrive/c/x`, as shells on Windows write drives."""
    match = _SHELL_DRIVE.match(path)
    if match is None:
        return path
    return f"{match[1].upper()}:\\" + path[match.end() :].replace("/", "\\")


def spellings(path: str) -> Iterator[str]:
    """Other Unicode spellings under which a file may exist, most likely first.

    macOS puts a narrow no-break space before AM and PM in names of screenshots, stores names decomposed, and its
    editors write curly apostrophes.
    """
    decomposed = unicodedata.normalize("NFD", path)
    tried = {path}
    for other in (
        _SHOT_TIME.sub("\u202f\\1.", path),
        decomposed,
        path.replace("'", "\u2019"),
        decomposed.replace("'", "\u2019"),
    ):
        if other not in tried:
            tried.add(other)
            yield other


_RESERVED = re.compile(r"^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?$", re.IGNORECASE)


def windows_trouble(path: str) -> str | None:
    """Why a path cannot name a plain file on Windows, or None: devices, streams, names that change when stored."""
    drive, rest = ntpath.splitdrive(path)
    if drive.startswith(("\\\\.\\", "\\\\?\\")):
        return f"{path} names a device or a raw path"
    for name in filter(None, re.split(r"[\\/]", rest)):
        if _RESERVED.match(name.rstrip(" .")):
            return f"{name} is a device on Windows, not a file"
        if name not in (".", "..") and name != name.rstrip(" ."):
            return f"{name!r} ends in a blank or dot, which Windows drops"
        bad = re.search(r'[<>:"|?*\x00-\x1f]', name)
        if bad:
            return f"{name!r} holds {bad[0]!r}, which a file name on Windows cannot"
    return None


def file_key(path: str, flavour: Flavour = "posix") -> str:
    """What two paths have in common if they mean one file: case and Unicode form do not matter on every system."""
    if flavour == "macos":
        path = unicodedata.normalize("NFD", path)
    return path if flavour == "posix" else path.casefold()


def flavour_of(platform: str) -> Flavour:
    """The path rules of a platform, named as in `sys.platform`."""
    if platform == "darwin":
        return "macos"
    return "windows" if platform == "win32" else "posix"


def folder_of(path: str) -> str:
    """The folder in which a file of this absolute path lies. The path itself shows whose syntax it has."""
    return posixpath.dirname(path) if path.startswith("/") else ntpath.dirname(path)


def below(folder: str, name: str) -> str:
    """The absolute path of an entry of a folder."""
    return posixpath.join(folder, name) if folder.startswith("/") else ntpath.join(folder, name)


def to_utf8(text: str) -> bytes:
    """The bytes of a text from a model; a lone surrogate becomes U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")

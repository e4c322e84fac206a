"""What a path in a model's words means, on POSIX and on Windows, tested on any machine."""

from __future__ import annotations

import unicodedata

import pytest

from antiphon.tools.paths import (
    BadPath,
    below,
    file_key,
    flavour_of,
    folder_of,
    readings,
    resolve,
    spellings,
    to_utf8,
    windows_trouble,
)

POSIX = [
    ("a.txt", "/w/a.txt"),
    ("./d/../a.txt", "/w/a.txt"),
    ("../a.txt", "/a.txt"),
    ("../../../../a.txt", "/a.txt"),
    ("", "/w"),
    (".", "/w"),
    ("/etc/x", "/etc/x"),
    ("//etc/x", "/etc/x"),
    ("~", "/home/me"),
    ("~/x", "/home/me/x"),
    ("~root/x", "/w/~root/x"),
    ("a/~/x", "/w/a/~/x"),
    ("file:///tmp/a%20b", "/tmp/a b"),
    ("FILE://localhost/tmp/%E4%B8%AD", "/tmp/中"),
    ("C:\\x", "/w/C:\\x"),
    ("file:///%FF", "/\udcff"),
    ("\udcff", "/w/\udcff"),
]

WINDOWS = [
    ("a.txt", "C:\\w\\a.txt"),
    ("d/e.txt", "C:\\w\\d\\e.txt"),
    ("..\\a.txt", "C:\\a.txt"),
    ("D:\\x\\y", "D:\\x\\y"),
    ("d:/x/y", "d:\\x\\y"),
    ("\\x", "C:\\x"),
    ("~", "C:\\Users\\me"),
    ("~\\x", "C:\\Users\\me\\x"),
    ("~/x", "C:\\Users\\me\\x"),
    ("\\\\server\\share\\x", "\\\\server\\share\\x"),
    ("file:///C:/x/y%20z", "C:\\x\\y z"),
    ("file://server/share/x", "\\\\server\\share\\x"),
    ("/c/x/y", "C:\\x\\y"),
    ("/mnt/d/x", "D:\\x"),
    ("/cygdrive/d", "D:\\"),
    ("/usr/bin", "C:\\usr\\bin"),
]


@pytest.mark.parametrize(("given", "meant"), POSIX)
def test_posix_paths(given: str, meant: str) -> None:
    assert resolve(given, "/w", "/home/me") == meant


@pytest.mark.parametrize(("given", "meant"), WINDOWS)
def test_windows_paths(given: str, meant: str) -> None:
    assert resolve(given, "C:\\w", "C:\\Users\\me", "windows") == meant


def test_without_a_home_a_tilde_is_a_name() -> None:
    assert resolve("~/x", "/w", None) == "/w/~/x"


@pytest.mark.parametrize("bad", ["a\0b", "file:///a%00b", "file://elsewhere/x", "\ud800"])
def test_a_text_that_names_no_file_here_is_refused(bad: str) -> None:
    with pytest.raises(BadPath):
        resolve(bad, "/w", None)


def test_the_literal_reading_comes_first() -> None:
    """The reference cannot name a file with a special space or a leading @."""
    assert readings("@a\u00a0b", "/w", None) == ("/w/@a\u00a0b", "/w/a b")
    assert readings("a b", "/w", None) == ("/w/a b",)
    assert readings("@~/x", "/w", "/h") == ("/w/@~/x", "/h/x")


@pytest.mark.parametrize("space", [chr(n) for n in (0xA0, 0x2000, 0x2009, 0x200A, 0x202F, 0x205F, 0x3000)])
def test_special_spaces_may_mean_plain_ones(space: str) -> None:
    assert readings(f"a{space}b", "/w", None)[-1] == "/w/a b"


def test_other_spellings_of_a_name() -> None:
    path = "/w/it's é 1.02 PM.png"
    others = list(spellings(path))

    assert others[0] == "/w/it's é 1.02\u202fPM.png"
    assert unicodedata.normalize("NFD", path) in others
    assert "/w/it’s é 1.02 PM.png" in others
    assert unicodedata.normalize("NFD", "/w/it’s é 1.02 PM.png") in others
    assert list(spellings("/w/plain.txt")) == []


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("C:\\w\\CON", "device"),
        ("C:\\w\\nul.txt", "device"),
        ("C:\\w\\com1.log", "device"),
        ("C:\\aux\\x", "device"),
        ("C:\\w\\a.txt:stream", "':'"),
        ("C:\\w\\a?.txt", "'?'"),
        ("C:\\w\\dot.", "drops"),
        ("C:\\w\\blank \\x", "drops"),
        ("\\\\.\\PhysicalDrive0", "device"),
        ("\\\\?\\C:\\x", "raw path"),
    ],
)
def test_names_that_mean_something_else_on_windows(path: str, part: str) -> None:
    assert part in (windows_trouble(path) or "")


@pytest.mark.parametrize("path", ["C:\\w\\console.txt", "C:\\w\\a b\\c.txt", "\\\\server\\share\\x", "C:\\w\\.env"])
def test_ordinary_names_on_windows(path: str) -> None:
    assert windows_trouble(path) is None


def test_spellings_of_one_file_have_one_key() -> None:
    nfd = unicodedata.normalize("NFD", "/W/É.txt")
    assert file_key("/w/é.TXT", "macos") == file_key(nfd, "macos")
    assert file_key("C:\\W\\A.txt", "windows") == file_key("c:\\w\\a.TXT", "windows")
    assert file_key("/w/a") != file_key("/w/A")
    assert file_key("/W/É.txt") != file_key(nfd)
    assert [flavour_of(name) for name in ("linux", "darwin", "win32", "freebsd14")] == [
        "posix", "macos", "windows", "posix",
    ]  # fmt: skip
    assert resolve("~/x", "/w", "/Users/me", "macos") == "/Users/me/x"


def test_bytes_and_folders() -> None:
    assert to_utf8("a\ud800b") == "a\ufffdb".encode()
    assert to_utf8("\ud83d\ude00") == "😀".encode()
    assert folder_of("/a/b") == "/a"
    assert folder_of("C:\\a\\b") == "C:\\a"
    assert (below("/a", "b"), below("C:\\a", "b")) == ("/a/b", "C:\\a\\b")

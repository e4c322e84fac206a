"""Give up the right to write outside some folders, then become another program.

Run as a script, without the package: `python -I -S sandbox_landlock.py FOLDER... -- PROGRAM ARGUMENT...`. The kernel's
Landlock is asked directly; what it once forbids holds for the program and everything it starts. Reading stays allowed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PR_SET_NO_NEW_PRIVS = 38
_RULE_PATH_BENEATH = 1
_CREATE_RULESET_VERSION = 1
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2

_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
_MAKE = 0b1111111 << 6  # character and block devices, folders, files, sockets, pipes, links
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_ON_FILES = _WRITE_FILE | _TRUNCATE


def abi() -> int:
    """The version of Landlock that this kernel offers; 0: none."""
    if platform.system() != "Linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION, fails=False))


def restrict_writes(folders: list[str]) -> None:
    """From now on this process and its children write in these folders only.

    Raises:
        OSError: the kernel cannot, or a folder does not exist.
    """
    version = abi()
    rights = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE
    rights |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    # Signals stay inside from version 6 on, so that a command cannot end the program that watches it.
    fields = struct.pack("=QQQ", rights, 0, _SCOPE_SIGNAL if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _call(_CREATE_RULESET, ctypes.c_char_p(fields), size, 0)
    for folder in folders:
        _allow(ruleset, folder, rights)
    for device in ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"):  # noqa: S108
        if os.path.exists(device):
            _allow(ruleset, device, rights)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        fitting = rights if os.path.isdir(path) else rights & _ON_FILES
        rule = struct.pack("=Qi", fitting, handle)
        _call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(handle)


def _call(number: int, *arguments: object, fails: bool = True) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    if result < 0 and fails:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), "landlock")
    return result


def main(arguments: list[str]) -> None:
    """Restrict, then become the program."""
    split = arguments.index("--")
    restrict_writes(arguments[:split])
    program = arguments[split + 1 :]
    try:
        os.execv(program[0], program)  # noqa: S606 - becoming another program is the purpose
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv[1:])

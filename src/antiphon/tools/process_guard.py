"""A small process that outlives ours by a moment: it waits for our death, however it comes, and ends our commands.

It is `process_tree.py` run as a script, without the package and in a session of its own, and it holds the reading end
of a pipe whose writing end only we have.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from antiphon.tools import process_tree


class Guard:
    """Our side: start it, and dismiss it when nothing is left to guard."""

    def __init__(self, mark: str, since: int) -> None:
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-I", "-S", os.path.abspath(process_tree.__file__), str(reading), mark, str(since)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(reading,),
                start_new_session=True,
            )
        finally:
            os.close(reading)

    def dismiss(self) -> int:
        """We have tidied up ourselves. Waits for its end, and gives its exit code."""
        with contextlib.suppress(BrokenPipeError):  # somebody has ended it
            os.write(self._writing, b".")
        os.close(self._writing)
        return self._process.wait()

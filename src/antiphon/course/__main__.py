"""`python -m antiphon.course`: the same as `antiphon course`."""

from __future__ import annotations

import sys

from antiphon.course.command import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

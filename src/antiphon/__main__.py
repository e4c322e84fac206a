"""`python -m antiphon`, and the command `antiphon`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; gives the exit code."""
    from antiphon.modes.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

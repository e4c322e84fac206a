"""`python -m antiphon`, and the command `antiphon`. The version is told before anything else is loaded."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; gives the exit code."""
    if sys.argv[1:] in (["--version"], ["-v"]):
        from antiphon import __version__

        sys.stdout.write(f"antiphon {__version__}\n")
        return 0
    from antiphon.modes.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

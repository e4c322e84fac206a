"""`python -m antiphon`, and the command `antiphon`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; gives the exit code."""
    arguments = sys.argv[1:]
    try:
        if arguments and arguments[0] == "course":  # stands on a floor above the modes, so the door leads there
            from antiphon.course.command import run as learn

            return learn(arguments[1:])
        from antiphon.modes.cli import run

        return run(arguments)
    except KeyboardInterrupt:  # while modules are loaded, before signals are ours
        return 130


if __name__ == "__main__":
    sys.exit(main())

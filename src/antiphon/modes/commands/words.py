"""The words behind a command, read with the standard library; a mistake is an error of ours, not an exit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from antiphon.errors import UserError
from antiphon.modes.output import Output


class BadWords(UserError):
    """The words behind a command make no sense."""


class HelpShown(Exception):
    """The person asked for help and got it."""


class Words(argparse.ArgumentParser):
    """A parser that raises instead of exiting, and writes help where we write."""

    output: Output | None = None

    def error(self, message: str) -> NoReturn:
        raise BadWords(f"{message}; {self.prog} --help says more")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown

    def print_help(self, file: object = None) -> None:
        del file
        assert Words.output is not None
        self.color = False  # Python 3.14 would colour it: what we write to a terminal has no control characters
        Words.output.text(self.format_help())


def read_words(parser: Words, words: Sequence[str], output: Output) -> argparse.Namespace | None:
    """What the words say; nothing if help was shown.

    Raises:
        BadWords: they make no sense.
    """
    Words.output = output
    try:
        return parser.parse_args(list(words))
    except HelpShown:
        return None
    finally:
        Words.output = None

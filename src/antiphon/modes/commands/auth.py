"""`antiphon auth`: is there a key, keep one, forget one. A key is never shown.

`check`: 0 there is a key, 1 there is none, 2 there is one that cannot be used.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from antiphon.core.wire import encode
from antiphon.errors import ConfigurationError
from antiphon.modes.commands.words import Words, read_words
from antiphon.modes.output import Output, stdin_is_terminal
from antiphon.modes.tables import table
from antiphon.resources.credentials import Answer, ApiKey, store_credential
from antiphon.resources.paths import Places, places, working_folder
from antiphon.resources.secret_values import Unresolved, form_of
from antiphon.session.model_access import FileModels, load_models

READY, MISSING, INVALID = 0, 1, 2
_MOST_BYTES = 64 * 1024


def run(words: Sequence[str], output: Output) -> int:
    """Carry out one of the commands; gives the exit code."""
    given = read_words(_parser(), words, output)
    if given is None:
        return 0
    where = places(Path(working_folder()), os.environ)
    models = load_models(where, os.environ)
    for diagnostic in models.diagnostics:
        output.warning(diagnostic.message)
    code: int = given.do(where, models, given, output)
    return code


def _parser() -> Words:
    parser = Words("antiphon auth", description="Keys of providers. They are kept in auth.json, for you alone.")
    parts = parser.add_subparsers(required=True, metavar="check|login|logout")
    part = parts.add_parser("check", help="is there a key? 0 yes, 1 no, 2 one that cannot be used")
    part.add_argument("provider", nargs="?", metavar="PROVIDER", help="default: all of them")
    part.add_argument("--json", action="store_true", help="one JSON record a line")
    part.set_defaults(do=_check)
    part = parts.add_parser("login", help="keep a key, read from standard input; it may be $NAME or !command")
    part.add_argument("provider", metavar="PROVIDER")
    part.set_defaults(do=_login)
    part = parts.add_parser("logout", help="forget the key that is kept")
    part.add_argument("provider", metavar="PROVIDER")
    part.set_defaults(do=_logout)
    return parser


def _check(where: Places, models: FileModels, given: argparse.Namespace, output: Output) -> int:
    if given.provider is not None:
        models.catalog.provider(given.provider)  # one that does not exist is an error
        chosen: tuple[str, ...] = (given.provider,)
    else:
        chosen = tuple(id_ for id_ in models.catalog.providers if models.keys.has(id_))
    answers = [(id_, models.keys.ask(id_)) for id_ in chosen]
    if given.json:
        for id_, answer in answers:
            output.write(encode({"provider": id_, "status": _word(answer), "place": answer.place}) + b"\n")
    elif answers:
        output.text(table([(id_, _word(answer), answer.place, _why(answer)) for id_, answer in answers]))
    if not answers:
        output.say(
            "no provider has a key; set one (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...), "
            "or keep one with `antiphon auth login PROVIDER`\n"
        )
    return max((_code(answer) for _, answer in answers), default=MISSING)


def _code(answer: Answer) -> int:
    if answer.key is not None:
        return READY
    return MISSING if answer.place == "nowhere" else INVALID


def usable(key: str) -> bool:
    """Can the key stand in a header?"""
    return key.isascii() and key.isprintable() and " " not in key


def _word(answer: Answer) -> str:
    return ("ready", "missing", "invalid")[_code(answer)]


def _why(answer: Answer) -> str:
    return answer.found.reason if isinstance(answer.found, Unresolved) else ""


def _login(where: Places, models: FileModels, given: argparse.Namespace, output: Output) -> int:
    models.catalog.provider(given.provider)
    key = _read_key(given.provider)
    if not key:
        raise ConfigurationError("no key was given; nothing is changed")
    if form_of(key) == "literal text" and not usable(key):
        raise ConfigurationError("a key has no spaces, line breaks or letters outside of ASCII; nothing is changed")
    store_credential(where, given.provider, ApiKey(key))
    output.text(f"the key of {given.provider} ({form_of(key)}) is kept in {where.credentials}\n")
    return 0


def _read_key(provider: str) -> str:
    if stdin_is_terminal():
        return getpass.getpass(f"Key of {provider}: ", stream=sys.stderr).strip()
    return os.read(0, _MOST_BYTES).decode("utf-8", "replace").strip()


def _logout(where: Places, models: FileModels, given: argparse.Namespace, output: Output) -> int:
    if given.provider not in models.keys.stored_providers:
        output.text(f"no key of {given.provider} is kept\n")
        return 0
    store_credential(where, given.provider, None)
    output.text(f"the key of {given.provider} is forgotten\n")
    return 0

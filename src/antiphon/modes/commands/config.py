"""`antiphon config`: every setting and resource with where it came from and why; changing a setting; the schema."""

from __future__ import annotations

import argparse
import difflib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET

from antiphon.core.wire import JsonValue, encode, to_wire
from antiphon.errors import ConfigurationError
from antiphon.modes.commands.words import Words, read_words
from antiphon.modes.ignore_rules import IgnoreRules
from antiphon.modes.output import Output
from antiphon.modes.tables import table
from antiphon.resources.diagnostics import Finding
from antiphon.resources.loading import Wishes, load_resources
from antiphon.resources.paths import Places, places, working_folder
from antiphon.resources.settings_keys import keys, schema
from antiphon.resources.settings_writing import change_settings
from antiphon.session.model_access import load_models

_TITLES = {
    "trust": "Trust",
    "setting": "Settings",
    "prompt": "Prompts",
    "context": "Context files",
    "skill": "Skills",
    "template": "Prompt templates",
    "extension": "Extensions",
    "credentials": "Keys",
    "models": "Models",
}


def run(words: Sequence[str], output: Output) -> int:
    """Carry out one of the commands; gives the exit code."""
    given = read_words(_parser(), words, output)
    if given is None:
        return 0
    code: int = given.do(places(Path(working_folder()), os.environ), given, output)
    return code


def _parser() -> Words:
    parser = Words("antiphon config", description="Settings and resources: what holds here, and why.")
    parts = parser.add_subparsers(required=True, metavar="explain|set|unset|schema")
    part = parts.add_parser("explain", help="every setting and resource, where it came from and why")
    part.add_argument("words", nargs="*", metavar="WORD", help="only lines with all of these words")
    part.add_argument("--json", action="store_true", help="one JSON record a line")
    part.add_argument("--approve", "-a", action="store_true", help="as if the project were trusted")
    part.set_defaults(do=_explain)
    part = parts.add_parser("set", help="change a setting")
    part.add_argument("key", metavar="KEY")
    part.add_argument("value", metavar="VALUE", help="JSON; anything else is a text")
    part.add_argument("--project", action="store_true", help="in the project's file, not your own")
    part.set_defaults(do=_set)
    part = parts.add_parser("unset", help="take a setting out of the file")
    part.add_argument("key", metavar="KEY")
    part.add_argument("--project", action="store_true", help="in the project's file, not your own")
    part.set_defaults(do=_set, value=None)
    part = parts.add_parser("schema", help="the JSON Schema of settings.json")
    part.set_defaults(do=_schema)
    return parser


def _explain(where: Places, given: argparse.Namespace, output: Output) -> int:
    loaded = load_resources(where, Wishes(approve=True if given.approve else None), ignored=IgnoreRules())
    models = load_models(where, os.environ)
    findings = [*loaded.findings, *_files(where), *models.keys.findings(tuple(models.catalog.providers))]
    wanted = [word.lower() for word in given.words]
    findings = [found for found in findings if all(word in _words(found) for word in wanted)]
    if given.json:
        for found in findings:
            output.write(encode(to_wire(found)) + b"\n")
    else:
        output.text(explained(findings))
    for diagnostic in (*loaded.diagnostics, *models.diagnostics):
        output.warning(diagnostic.message)
    for layer in loaded.settings.layers:
        for name in layer.unknown:
            near = difflib.get_close_matches(name, keys(), n=1)
            output.warning(f"{layer.path}: nobody reads {name}" + (f"; did you mean {near[0]}?" if near else ""))
    return 0


def _files(where: Places) -> list[Finding]:
    """`models.json`, if there is one."""
    if not where.models.exists():
        return []
    return [
        Finding(
            kind="models", name="models.json", state="used", reason="laid over the catalogue", path=str(where.models)
        )
    ]


def _words(found: Finding) -> str:
    return f"{found.kind} {found.name} {found.state} {found.reason} {found.path}".lower()


def explained(findings: Sequence[Finding]) -> str:
    """The findings as tables, one for each kind."""
    parts: list[str] = []
    for kind, title in _TITLES.items():
        rows = [("  " + f.name, f.state, f.reason, f.path) for f in findings if f.kind == kind]
        if kind == "setting":
            rows = [(name, reason, path) for name, _, reason, path in rows]  # type: ignore[misc]  # rows of one length
        if rows:
            parts.append(f"{title}\n{table(rows)}")
    return "\n".join(parts)


def _set(where: Places, given: argparse.Namespace, output: Output) -> int:
    path = where.project_settings if given.project else where.global_settings
    change_settings(path, {given.key: UNSET if given.value is None else _value(given.value)})
    output.text(f"{path}\n")
    return 0


def _value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigurationError("the value is nested too deeply") from None


def _schema(_where: Places, _given: argparse.Namespace, output: Output) -> int:
    output.text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
    return 0

"""Pages about the program: command line, settings, errors, public names."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from docs.writing.markdown import code, fence, paragraphs, sentence, table

import antiphon
from antiphon import errors as tree


def command_line() -> str:
    """What `antiphon --help` says."""
    from antiphon.modes.options import help_text

    return "\n".join(
        [
            "# The command line\n",
            "What `antiphon --help` says. How to use it: [how-to pages](../index.md#how-to).\n",
            fence(help_text()),
        ]
    )


def settings() -> str:
    """Every key of a settings file."""
    from antiphon.resources.settings_keys import table as keys

    return "\n".join(
        [
            "# Settings\n",
            "`settings.json` in the folder of the program is for every project, `.antiphon/settings.json` in a project"
            " for that one (if the project is trusted). The closer one wins, key by key. `antiphon config explain KEY`"
            " says where a value came from, `antiphon config set KEY VALUE` writes one.\n",
            keys(),
        ]
    )


def errors() -> str:
    """The tree of exceptions, and what each of them means."""
    kinds = [v for v in vars(tree).values() if inspect.isclass(v) and issubclass(v, tree.AntiphonError)]
    drawing = (tree.__doc__ or "").split("\n\n")[1]
    rows = [(code(k.__name__), code(k.__mro__[1].__name__), sentence(k.__doc__)) for k in kinds]
    return "\n".join(
        [
            "# Errors\n",
            "Named for what a caller can do about them; all are in `antiphon.errors`. What a model can repair is never"
            " an exception: it becomes the result of a call. What fails in a run is in its outcome"
            " ([abort and faults](../explanation/abort-and-faults.md)).\n",
            fence(inspect.cleandoc(drawing)),
            table(("error", "is a", "meaning"), rows),
        ]
    )


def public_names() -> str:
    """The names that are promised, and where they live."""
    rows: list[tuple[str, str, str]] = []
    for name in antiphon.__all__:
        value = getattr(antiphon, name)
        if name.startswith("__"):
            continue
        room = antiphon._ROOM_OF[name]
        rows.append((code(name), code(room), _about(name, value, room)))
    return "\n".join(
        [
            "# Public names\n",
            "`from antiphon import ...` gives these. They are promised; everything else may change. Each is loaded when"
            " it is first used.\n",
            table(("name", "lives in", "what it is"), rows),
            "## For tests\n",
            "`from antiphon.testing import ...`: see [testing your agent](../how-to/test-your-agent.md).\n",
            table(("name", "what it is"), _testing()),
        ]
    )


ABOUT_VALUES = {
    "AgentEvent": "Any event of a run: see [events](events.md).",
    "DEFAULT": "The profile that is used unless another is given: see [profiles](policy.md).",
    "Message": "Any message of a transcript: see [messages](messages.md).",
    "PI": "The profile of the reference.",
    "STRICT": "The profile of the course.",
}


def _about(name: str, value: Any, room: str) -> str:
    if name in ABOUT_VALUES:
        return ABOUT_VALUES[name]
    own = value.__doc__ if inspect.isclass(value) or inspect.isfunction(value) else ""
    if inspect.isclass(value) and own == value.__mro__[1].__doc__:
        own = ""
    return sentence(own) or sentence(importlib.import_module(room).__doc__)


def _testing() -> list[tuple[str, str]]:
    from antiphon import testing

    rows: list[tuple[str, str]] = []
    for name in testing.__all__:
        value: Any = getattr(testing, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            rows.append((code(name), paragraphs(value.__doc__).split("\n\n")[0]))
    return rows

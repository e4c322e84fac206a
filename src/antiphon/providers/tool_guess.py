"""Which tools a request may be about, judged by its words alone (pure).

A model of a few hundred million parameters cannot tell: given "call a tool, or answer" it calls the first tool
whatever was asked. Words do better, and above all they find the requests that are about no tool. Nothing here
understands anything: shared words count, rare ones more, and so does what a tool cannot do without (a path, numbers).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.wire import JsonObject

_NAME_WEIGHT: Final = 3.0
_NEEDED_WEIGHT: Final = 3.0
_FIRST_SENTENCE_WEIGHT: Final = 1.0
_DETAIL_WEIGHT: Final = 0.5
_THRESHOLD: Final = 1.0

_WORD = re.compile(r"[a-z]+")
_ADDRESS = re.compile(r"(?<!\w)\w+://\S*")
_FILE = re.compile(
    r"(?<![\w./~-])(?:[\w~.-]*/[\w./-]*\w/?|\.[A-Za-z]\w+|\.?[\w-]{2,}(?:\.[\w-]+)*\.[A-Za-z]\w{0,7})(?![\w/])",
    re.ASCII,
)
_NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?![\w])")
_PARTS_OF_NAME = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\W]")
_SENTENCE = re.compile(r"(?<=[.!?:])\s")

_WORDS_OF_NO_WEIGHT = """
a about all an and any are as at be been but by can could did do does for from get give had has have he her here
his how i if in into is it its like me more most my no not of on one only or our out please same she should so
some than that the their them then there these they this those to up us was we were what when where which who
whom whose why will with would you your
"""
_LITTLE_WORDS: Final = frozenset(_WORDS_OF_NO_WEIGHT.split())
_SAME_MEANING: Final = (
    ("make", "create", "write", "save"),
    ("change", "edit", "fix", "modify", "rename", "replace", "update"),
    ("look", "open", "print", "read", "show", "summarize", "view"),
    ("execute", "launch", "run", "start"),
    ("find", "search"),
)


def file_names(text: str) -> list[str]:
    """What looks like a file or folder in a text: with a slash or an extension. Each one once, in order."""
    return list(dict.fromkeys(_FILE.findall(_ADDRESS.sub(" ", text))))


def numbers(text: str) -> list[float | int]:
    """The numbers in a text, each one once, in order."""
    found = [float(item) if "." in item else int(item) for item in _NUMBER.findall(text)]
    return list(dict.fromkeys(found))


def is_path(name: str) -> bool:
    """Does an argument of this name take a file or folder?"""
    return "path" in name.lower() or "file" in name.lower()


def is_number(schema: Any) -> bool:
    """Does an argument of this schema take a number?"""
    return isinstance(schema, dict) and cast("JsonObject", schema).get("type") in ("number", "integer")


def guess(request: str, tools: Sequence[ToolDeclaration]) -> tuple[ToolDeclaration, ...]:
    """The tools that fit best, usually one; none if the request seems to be about no tool."""
    vocabularies = [_vocabulary(tool) for tool in tools]
    known_by = Counter(word for vocabulary in vocabularies for word in vocabulary)
    asked = _words(_FILE.sub(" ", request))
    scores = [
        _needs(tool, request) + sum(words[word] / known_by[word] for word in asked if word in words)
        for tool, words in zip(tools, vocabularies, strict=True)
    ]
    best = max(scores, default=0)
    if best < _THRESHOLD:
        return ()
    top = [tool for tool, score in zip(tools, scores, strict=True) if score > best - 0.01]
    fewest = min(len(required_names(tool)) for tool in top)
    return tuple(tool for tool in top if len(required_names(tool)) == fewest)


def _needs(tool: ToolDeclaration, request: str) -> float:
    """For what a call cannot do without: is it in the request?"""
    required = required_names(tool)
    given = properties_of(tool)
    score = 0.0
    if counted := sum(is_number(given.get(name)) for name in required):
        score += _NEEDED_WEIGHT if len(_NUMBER.findall(request)) >= counted else -_NEEDED_WEIGHT
    if any(is_path(name) for name in required):
        score += _NEEDED_WEIGHT if file_names(request) else -_NEEDED_WEIGHT
    return score


def required_names(tool: ToolDeclaration) -> list[str]:
    """Arguments that a call must have."""
    required = tool.parameters.get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def properties_of(tool: ToolDeclaration) -> JsonObject:
    """Arguments and their schemas."""
    properties = tool.parameters.get("properties")
    return cast("JsonObject", properties) if isinstance(properties, dict) else {}


def _vocabulary(tool: ToolDeclaration) -> Mapping[str, float]:
    """Words of a tool with their weight."""
    head, *details = _SENTENCE.split(tool.description, maxsplit=1)
    return {
        **dict.fromkeys(_words(" ".join(details)), _DETAIL_WEIGHT),
        **dict.fromkeys(_words(_PARTS_OF_NAME.sub(" ", " ".join(properties_of(tool)))), _DETAIL_WEIGHT),
        **dict.fromkeys(_words(head), _FIRST_SENTENCE_WEIGHT),
        **dict.fromkeys(_words(_PARTS_OF_NAME.sub(" ", tool.name)), _NAME_WEIGHT),
    }


def _words(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text.lower()) if word not in _LITTLE_WORDS}


def _stem(word: str) -> str:
    """The word without endings of number and time, or the word that stands for its meaning."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return _MEANINGS.get(word, word)


def _meanings() -> dict[str, str]:
    plain = {word: (word[:-1] if word.endswith("e") and len(word) > 3 else word) for g in _SAME_MEANING for word in g}
    return {plain[word]: plain[group[0]] for group in _SAME_MEANING for word in group}


_MEANINGS: Final = _meanings()

"""Finding tools by words: a ranking over names, namespaces, descriptions and schemas, and the tool that uses it.

More words of the query found beat any score; the score is BM25 with names counted heavily. Words are split at case and
punctuation, simple plurals are folded, very common words do not count; writing without spaces is cut into pairs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

from antiphon.core.calls import ToolResult, text_result
from antiphon.core.ports import AbortSignal, OnUpdate, Tool
from antiphon.core.wire import JsonObject, JsonValue

K1, B = 1.2, 0.75
NAME_WEIGHT, NAMESPACE_WEIGHT = 3.0, 0.5
WHOLE_NAME_BONUS = 5.0
USUAL_LIMIT, MOST_LIMIT = 8, 50

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]+")
_STOP = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "get", "has", "i", "in", "is"),
        *("it", "me", "my", "of", "on", "or", "that", "the", "this", "to", "use", "want", "which", "with", "you"),
    }
)


def terms(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    found: list[str] = []
    for word in _WORD.findall(text):
        if _UNSPACED.fullmatch(word):
            found += [word] if len(word) < 3 else [word[i : i + 2] for i in range(len(word) - 1)]
            continue
        lower = word.lower()
        if lower not in _STOP:
            found.append(_singular(lower))
    return found


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True, slots=True)
class _Page:
    """A tool as a bag of weighted words."""

    tool: Tool
    local_name: str
    weights: dict[str, float]
    length: float


def search(query: str, tools: Sequence[Tool], limit: int = USUAL_LIMIT) -> list[Tool]:
    """The tools that fit best, best first; only those in which a word of the query occurs."""
    pages = [_page(tool) for tool in tools]
    wanted = list(dict.fromkeys(terms(query)))
    if not pages or not wanted:
        return []
    usual = sum(page.length for page in pages) / len(pages)
    occurs = Counter(term for page in pages for term in page.weights)
    squeezed = _squeezed(query)
    ranked: list[tuple[bool, int, float, int, Tool]] = []
    for place, page in enumerate(pages):
        covered = [term for term in wanted if term in page.weights]
        exact = query.strip().lower() in (page.tool.name.lower(), page.local_name.lower())
        if not covered and not exact:
            continue
        score = sum(_score(page, term, occurs[term], len(pages), usual) for term in covered)
        if _squeezed(page.local_name) in squeezed:
            score += WHOLE_NAME_BONUS
        ranked.append((exact, len(covered), score, -place, page.tool))
    ranked.sort(key=lambda row: row[:4], reverse=True)
    return [row[4] for row in ranked[:limit]]


def _score(page: _Page, term: str, occurs: int, count: int, usual: float) -> float:
    rarity = math.log(1 + (count - occurs + 0.5) / (occurs + 0.5))
    weight = page.weights[term]
    return rarity * weight * (K1 + 1) / (weight + K1 * (1 - B + B * page.length / (usual or 1)))


def _page(tool: Tool) -> _Page:
    namespace, local = _parts(tool)
    weights: Counter[str] = Counter()
    for text, weight in ((local, NAME_WEIGHT), (namespace, NAMESPACE_WEIGHT), (tool.description, 1.0)):
        for term in terms(text):
            weights[term] += weight  # type: ignore[assignment]  # weights are fractions
    for text in _schema_texts(tool.parameters):
        weights.update(terms(text))
    return _Page(tool, local, dict(weights), float(sum(weights.values())))


def _parts(tool: Tool) -> tuple[str, str]:
    """Namespace and local name: `mcp__server__name` is in `server`."""
    parts = tool.name.split("__")
    return (" ".join(parts[1:-1]), parts[-1]) if len(parts) > 2 else ("", tool.name)


def _schema_texts(schema: JsonValue) -> Iterable[str]:
    if isinstance(schema, dict):
        for key, value in cast("JsonObject", schema).items():
            if key == "properties" and isinstance(value, dict):
                yield from value
            if key == "description" and isinstance(value, str):
                yield value
            else:
                yield from _schema_texts(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _schema_texts(item)


def _squeezed(text: str) -> str:
    return re.sub(r"[^\w]|_", "", text).lower()


@final
class ToolSearch:
    """The tool `tool_search`: finds tools that are not declared, and declares them from the next request on."""

    name = "tool_search"
    exposure = "model-only"
    default_active = False
    prompt_snippet = "Find further tools by what they do"
    description = (
        "Find tools that are not listed yet by what they do. The tools found can be called from your next turn on."
    )

    def __init__(
        self, tools: Callable[[], Sequence[Tool]] | None = None, activate: Callable[[Iterable[str]], Any] | None = None
    ) -> None:
        self._tools = tools
        self._activate = activate

    @property
    def parameters(self) -> JsonObject:
        return {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in a few words"},
                "limit": {"type": "integer", "description": f"At most so many (default {USUAL_LIMIT})", "minimum": 1},
            },
            "required": ["query"],
            "additionalProperties": False,
        }

    def using_registry(self, tools: Callable[[], Sequence[Tool]], activate: Callable[[Iterable[str]], Any]) -> Tool:
        """The same tool over the tools of a session."""
        return cast("Tool", ToolSearch(tools, activate))

    async def execute(
        self, _call_id: str, arguments: JsonObject, _signal: AbortSignal, _update: OnUpdate
    ) -> ToolResult:
        """Search and activate."""
        if self._tools is None or self._activate is None:
            return text_result("There are no further tools.")
        limit = min(int(arguments.get("limit", USUAL_LIMIT)), MOST_LIMIT)
        found = search(arguments["query"], self._tools(), limit)
        if not found:
            return text_result("No tool fits. Try other words, or fewer.")
        self._activate([tool.name for tool in found])
        lines = [f"- {tool.name}: {tool.description.strip().split(chr(10))[0]}" for tool in found]
        text = "These tools can be called from your next turn on:\n" + "\n".join(lines)
        return text_result(text, details={"tools": [tool.name for tool in found]})

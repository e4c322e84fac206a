#!/usr/bin/env python3
"""What it costs to make the request of a further turn, in all four families, beside the bare work in it.

    python bench/requests.py [--messages 10000] [--turns 1000]

A turn adds an answer with a call, and its result. `copy` is one copy of the body, `new` the JSON of the new items
written by the bare JSON library; nobody can do with less. `turn` is our whole encoder (and the decoder that waits for
the answer), `again` the same request once more, with nothing new. The last column is the same turn on a short
conversation: what it has over that is the price of the length.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import msgspec

from antiphon.core.content import Text, ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, user
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.transcript import Transcript
from antiphon.core.usage import Usage
from antiphon.loop.abort import never_aborted
from antiphon.providers.options import read_options
from antiphon.providers.registry import new_adapter

MODELS = {
    "openai-completions": ("openai", "gpt-x", "https://api.openai.com/v1"),
    "openai-responses": ("openai", "gpt-x", "https://api.openai.com/v1"),
    "anthropic-messages": ("anthropic", "claude-x", "https://claude.example.com"),
    "google-generative-ai": ("google", "gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta"),
}
ITEMS = {"openai-completions": "messages", "openai-responses": "input", "anthropic-messages": "messages"}
TOOL = ToolDeclaration(
    name="read",
    description="Read a file",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def model_of(api: str) -> Model:
    provider, name, url = MODELS[api]
    return Model(
        id=name, provider=provider, api=api, base_url=url, context_window=10_000_000, max_tokens=8000, name=name
    )


def turn(model: Model, number: int) -> list[Message]:
    id_ = f"call_{number}|fc_{number}" if model.api == "openai-responses" else f"call_{number}"
    call = ToolCall(id=id_, name="read", arguments={"path": f"src/{number}.py"})
    answer = AssistantMessage(
        content=(Text(text="Let me look at that file."), call),
        stop_reason="toolUse",
        provider=model.provider,
        api=model.api,
        model=model.id,
        usage=Usage(input=10, output=5, total_tokens=1500),
    )
    text = (Text(text=f"line {number}"),)
    return [answer, ToolResultMessage(tool_call_id=id_, tool_name="read", content=text, is_error=False)]


class Asking:
    """A conversation that is asked about turn after turn."""

    def __init__(self, api: str, messages: int) -> None:
        self.model = model_of(api)
        self._adapter: Any = new_adapter(api)
        said: list[Message] = [SystemMessage(content="You are of help. " * 100, tools_added=(TOOL,)), user("Go on.")]
        for number in range(messages // 2 - 1):
            said += turn(self.model, number)
        self._transcript = Transcript(said)
        assert self._transcript.system.tools
        self._number = messages
        self.body: bytes = self.further()()

    def further(self) -> Callable[[], bytes]:
        """The request of a further turn, ready to be made."""
        self._number += 1
        self._transcript = self._transcript.extend(turn(self.model, self._number))
        request = ModelRequest(
            model=self.model,
            messages=self._transcript,
            thinking_level="off",
            signal=never_aborted(),
            api_key="k",
            session_id="s",
        )
        options = read_options(request)
        return lambda: self._adapter.prepare(request, options).request.body


def microseconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e6


def measure(api: str, messages: int, turns: int) -> dict[str, float]:
    """Medians of so many turns, all in one loop. `copy` is that of the first body, which is hardly shorter."""
    asking = Asking(api, messages)
    items = msgspec.json.decode(asking.body)[ITEMS.get(api, "contents")][-3 if api == "openai-responses" else -2 :]
    encode = msgspec.json.Encoder().encode
    times: dict[str, list[float]] = {"copy": [], "new": [], "turn": [], "again": []}
    for _ in range(turns):
        further = asking.further()
        times["turn"].append(microseconds(further))
        times["copy"].append(microseconds(lambda: b"".join((memoryview(asking.body), b"}"))))
        times["again"].append(microseconds(further))
        times["new"].append(microseconds(lambda: [encode(item) for item in items]))
    return {"size": len(asking.body) / 1e6, **{name: statistics.median(all_) for name, all_ in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=1000)
    asked = parser.parse_args()
    print(f"requests of {asked.messages:,} messages; medians of {asked.turns} turns, microseconds\n")
    print("| family | body | copy | new | turn | turn - copy | again - copy | a turn at the start |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for api in MODELS:
        long, short = measure(api, asked.messages, asked.turns), measure(api, 20, 20)
        over, again = long["turn"] - long["copy"], long["again"] - long["copy"]
        first = f"| {api} | {long['size']:.1f} MB | {long['copy']:.1f} | {long['new']:.1f} | {long['turn']:.1f} |"
        print(f"{first} {over:.1f} | {again:.1f} | {short['turn']:.1f} |")


if __name__ == "__main__":
    main()

"""What a session adds to a run: turns of a persistent session, and the road of a prompt in a long one.

    python bench/session.py [turns] [messages]

Prints milliseconds. `turns`: one prompt with so many tool turns, scripted model, empty tool, real file; the cost of
a turn should not grow. `messages`: a reopened session with so many messages; what passes between `prompt` and the
request, the first time and later; then the same with the body of the request made, as a provider would send it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from msgspec import structs  # noqa: E402

from antiphon.core.content import Text, ToolCall  # noqa: E402
from antiphon.core.messages import AssistantMessage, user  # noqa: E402
from antiphon.core.model import Model  # noqa: E402
from antiphon.core.ports import ModelRequest  # noqa: E402
from antiphon.core.response_events import Done, ResponseEvent, Start  # noqa: E402
from antiphon.core.usage import Usage  # noqa: E402
from antiphon.providers.options import read_options  # noqa: E402
from antiphon.providers.registry import new_adapter  # noqa: E402
from antiphon.session.agent_session import AgentSession  # noqa: E402
from antiphon.session.create import Services, create_agent_session  # noqa: E402
from antiphon.session.ports import GivenModels  # noqa: E402
from antiphon.session_log import SessionLog, SessionStore  # noqa: E402

MODEL = Model(id="faux-1", provider="faux", api="faux", context_window=10_000_000, max_tokens=4096)


class Nothing:
    """A tool that does nothing."""

    name = "nothing"
    description = "Do nothing"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, _id: str, _args: Any, _signal: Any, _update: Any) -> str:
        return "done"


class Model2000:
    """Calls the tool so many times, then says that it is done. Remembers when it was asked."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.asked: list[float] = []

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        self.asked.append(time.perf_counter())
        return self._answer(request, len(self.asked))

    async def _answer(self, request: ModelRequest, number: int) -> AsyncIterator[ResponseEvent]:
        more = number <= self.turns
        content: Any = (ToolCall(id=f"c{number}", name="nothing", arguments={}),) if more else (Text(text="done"),)
        message = AssistantMessage(
            content=content,
            api="faux",
            provider="faux",
            model="faux-1",
            usage=Usage(input=10, output=5, total_tokens=15),
            stop_reason="toolUse" if more else "stop",
            timestamp=time.time_ns() // 1_000_000,
        )
        yield Start(message=AssistantMessage(content=(), stop_reason="pending"))
        yield Done(reason=message.stop_reason, message=message)


class Encoded(Model2000):
    """The same behind a real encoder: the request counts as asked when its body is made."""

    def __init__(self, api: str) -> None:
        super().__init__(0)
        self._api = api
        self._adapter: Any = new_adapter(api)
        self.body_bytes = 0

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        model = structs.replace(request.model, api=self._api, base_url="https://example.com/v1")
        to_send = structs.replace(request, model=model, api_key="k")
        self.body_bytes = len(self._adapter.prepare(to_send, read_options(to_send)).request.body)
        return await super().__call__(request)


def session_over(log: SessionLog, model: Model2000, folder: Path) -> AgentSession:
    services = Services(cwd=str(folder), models=GivenModels(model, (MODEL,)))
    return create_agent_session(services, log, model=MODEL, custom_tools=(Nothing(),)).session


async def turns(count: int, folder: Path) -> None:
    model = Model2000(count)
    session = session_over(SessionStore(folder / "turns", cwd=str(folder)).create(), model, folder)
    began = time.perf_counter()
    await session.prompt("go")
    whole = time.perf_counter() - began
    tenth = max(1, count // 10)
    gaps = [b - a for a, b in zip(model.asked, model.asked[1:], strict=False)]
    print(f"{count} turns: {whole * 1000:.0f} ms, {whole / count * 1000:.3f} ms a turn")
    print(f"  first tenth {sum(gaps[:tenth]) / tenth * 1000:.3f}, last tenth {sum(gaps[-tenth:]) / tenth * 1000:.3f}")
    await session.dispose()


async def long_session(count: int, folder: Path) -> None:
    store = SessionStore(folder / "long", cwd=str(folder))
    log = store.create()
    for number in range(count // 2):
        log.append_message(user(f"question {number}", number))
        answer = AssistantMessage(
            content=(Text(text=f"answer {number}"),),
            api="faux",
            provider="faux",
            model="faux-1",
            usage=Usage(input=10, output=5, total_tokens=15),
            stop_reason="stop",
            timestamp=number,
        )
        log.append_message(answer)
    path = log.path
    assert path is not None
    log.close()
    await asked_again(store, path, Model2000(0), folder, f"{count} messages")
    for api in ("openai-completions", "anthropic-messages"):
        await asked_again(store, path, Encoded(api), folder, f"{count} messages, {api}")


async def asked_again(store: SessionStore, path: Path, model: Model2000, folder: Path, what: str) -> None:
    """Reopen it and say something a few times."""
    began = time.perf_counter()
    session = session_over(store.open(path), model, folder)
    print(f"{what}: opened in {(time.perf_counter() - began) * 1000:.1f} ms")
    for number in range(4):
        began = time.perf_counter()
        await session.prompt("next")
        left, settled = model.asked[-1] - began, time.perf_counter() - began
        print(f"  prompt {number + 1}: request left after {left * 1000:.2f} ms, settled after {settled * 1000:.2f} ms")
    if isinstance(model, Encoded):
        print(f"  a body of {model.body_bytes / 1e6:.1f} MB")
    await session.dispose()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(turns(count, Path(scratch)))
        asyncio.run(long_session(messages, Path(scratch)))


if __name__ == "__main__":
    main()

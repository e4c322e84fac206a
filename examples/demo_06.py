"""Demo 06: the loop returns new messages, the host stores them. A torn line and an unpaired call do no harm.

python examples/demo_06.py
"""

import asyncio
import tempfile
from pathlib import Path

from jsonl_store import JsonlSessionStore

from antiphon import Context, LoopConfig, ToolCall, run_agent_loop
from antiphon.core.messages import AssistantMessage, user
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider


async def ask(store: JsonlSessionStore, text: str, model: ScriptedProvider) -> str:
    """One run: history from the store, new messages into the store. The loop in between knows nothing of files."""
    history = store.load("demo")
    outcome = await run_agent_loop(
        [user(text)], Context(messages=history), LoopConfig(model=SCRIPTED), lambda event: None, None, model
    )
    store.append("demo", outcome.new_messages)
    return outcome.final_text


def crash(store: JsonlSessionStore) -> None:
    """An answer with a call was written, its result was not, and the next line only in part."""
    call = ToolCall(id="c1", name="dig", arguments={})
    store.append("demo", [AssistantMessage(content=(call,), stop_reason="toolUse")])
    with Path(store.folder, "demo.jsonl").open("ab") as file:
        file.write(b'{"role":"toolResult","toolCallId":"c1","conte')


async def main() -> None:
    model = ScriptedProvider(["Nice to meet you, Ada.", "You are Ada."])
    with tempfile.TemporaryDirectory() as folder:
        store = JsonlSessionStore(Path(folder))
        print(await ask(store, "I am Ada.", model))
        print(await ask(JsonlSessionStore(Path(folder)), "Who am I?", model))
        print(f"{len(model.requests[1].messages)} messages in the second request")

        crash(store)
        loaded = store.load("demo")
        print(f"{len(loaded)} messages after a crash; the last: {loaded[-1].role}, error: {loaded[-1].is_error}")

        store.append("demo", loaded[-1:])
        print(f"{len(store.load('demo'))} messages after the repair")


if __name__ == "__main__":
    asyncio.run(main())

"""Demo 01: context, model, events, final message. No tools, no files, no key.

python examples/demo_01.py
"""

import asyncio

from antiphon import Context, LoopConfig, agent_loop
from antiphon.core.messages import user
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

# The model is a script. A real one goes in the same place: `stream_for(model)` of `antiphon.providers.registry`.
model = ScriptedProvider(["An agent is a model, tools, and a loop between them."], tokens_per_delta=5)


async def main() -> None:
    context = Context(messages=())
    events = agent_loop([user("What is an agent?")], context, LoopConfig(model=SCRIPTED), None, model)

    async for event in events:
        if event.type == "message_update":
            print(f"{event.type}: {event.assistant_message_event.type}")
        elif event.type in ("message_start", "message_end"):
            print(f"{event.type}: {event.message.role}")
        else:
            print(event.type)

    outcome = await events.result()
    print()
    print(outcome.final_text)


if __name__ == "__main__":
    asyncio.run(main())

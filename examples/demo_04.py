"""Demo 04: steering changes the direction of a run, a follow-up gives it more to do when it would end.

python examples/demo_04.py
"""

import asyncio

from antiphon import Agent, ToolCall, tool
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

model = ScriptedProvider(
    [
        [ToolCall(id="c1", name="search", arguments={"word": "cats"})],
        "Dogs it is. Here is a page about dogs.",
        "In short: dogs are loyal.",
    ]
)


async def main() -> None:
    @tool
    async def search(word: str) -> str:
        """Search for a word."""
        agent.steer("No, dogs.")  # somebody types while the tool runs
        agent.follow_up("Now in one sentence.")
        return f"a page about {word}"

    agent = Agent(model=SCRIPTED, stream=model, tools=[search])
    await agent.prompt("Tell me about cats.")

    for message in agent.messages:
        if message.role == "system":
            continue
        text = message.content if isinstance(message.content, str) else None
        words = text or " ".join(getattr(block, "text", f"[call {block.type}]") for block in message.content)
        print(f"{message.role:<10} {words}")


if __name__ == "__main__":
    asyncio.run(main())

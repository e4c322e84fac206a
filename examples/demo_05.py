"""Demo 05: an abort. What was started hears of it, every call still has its result, and the agent goes on working.

python examples/demo_05.py
"""

import asyncio

from antiphon import Agent, ToolCall, tool
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider
from antiphon.tools import ToolContext

model = ScriptedProvider(
    [
        [ToolCall(id="A", name="dig", arguments={}), ToolCall(id="B", name="dig", arguments={})],
        "What shall I do instead?",
    ]
)


async def main() -> None:
    digging: list[str] = []

    @tool
    async def dig(*, ctx: ToolContext) -> str:
        """Dig until somebody says stop."""
        digging.append(ctx.call_id)
        if len(digging) == 2:
            agent.abort("that is deep enough")
        await ctx.signal.wait()
        return f"stopped: {ctx.signal.reason}"

    agent = Agent(model=SCRIPTED, stream=model, tools=[dig])

    outcome = await agent.prompt("Dig a hole.")
    print(f"{outcome.reason}, because: {outcome.abort_reason}; {len(model.requests)} request")
    for message in outcome.new_messages:
        if message.role == "toolResult":
            print(f"result of {message.tool_call_id}: {message.content[0].text}")

    outcome = await agent.prompt("Never mind.")
    print(f"{outcome.reason}: {outcome.final_text}")


if __name__ == "__main__":
    asyncio.run(main())

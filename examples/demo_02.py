"""Demo 02: one tool. A call needs two requests: the model asks, the tool answers, the model is asked again.

python examples/demo_02.py
"""

import asyncio

from antiphon import Agent, ToolCall, tool
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

model = ScriptedProvider(
    [
        [ToolCall(id="call_1", name="calculate", arguments={"a": 123, "b": 456})],
        lambda request: f"123 x 456 = {request.messages[-1].content[0].text}",  # what the tool said is in the request
    ]
)


@tool
async def calculate(a: int, b: int) -> str:
    """Multiply two numbers."""
    return str(a * b)


async def main() -> None:
    agent = Agent(model=SCRIPTED, stream=model, tools=[calculate])

    async for event in agent.run("What is 123 x 456?"):
        if event.type == "tool_execution_start":
            print(f"{event.type}: {event.tool_name} {event.args}, pending: {sorted(agent.pending_tool_calls)}")
        elif event.type == "tool_execution_end":
            print(f"{event.type}: {event.tool_name}, pending: {sorted(agent.pending_tool_calls)}")
        elif event.type == "turn_end":
            print(event.type)

    print()
    for message in agent.messages:
        if message.role != "system":
            print(f"{message.role}: {''.join(getattr(block, 'text', '[call]') for block in message.content)}")
    print(f"{len(model.requests)} requests")


if __name__ == "__main__":
    asyncio.run(main())

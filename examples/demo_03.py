"""Demo 03: parallel tools, and three orders: calls start in call order, end as they end, stand in call order.

python examples/demo_03.py
"""

import asyncio

from antiphon import Agent, ToolCall, tool
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

PLACES = ("Oslo", "Lima", "Rome")
model = ScriptedProvider(
    [
        [ToolCall(id=place, name="weather", arguments={"place": place}) for place in PLACES],
        "Take an umbrella to Lima.",
    ]
)
gates = {place: asyncio.Event() for place in PLACES}


@tool
async def weather(place: str) -> str:
    """How is the weather there?"""
    await gates[place].wait()  # a gate that is opened by hand, so that the order below is not chance
    return f"{place}: rain"


async def main() -> None:
    agent = Agent(model=SCRIPTED, stream=model, tools=[weather])
    opened = iter(("Rome", "Oslo", "Lima"))

    async for event in agent.run("Where does it rain?"):
        if event.type == "tool_execution_start":
            print(f"starts   {event.tool_call_id}")
        if event.type == "tool_execution_end":
            print(f"ends     {event.tool_call_id}")
        if event.type == "tool_execution_end" or (event.type == "tool_execution_start" and event.position == 2):
            gates[next(opened, "Oslo")].set()
        if event.type == "turn_end" and event.tool_results:
            print("stand as", ", ".join(result.tool_call_id for result in event.tool_results))


if __name__ == "__main__":
    asyncio.run(main())

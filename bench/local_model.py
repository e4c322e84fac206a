"""How many short tasks does the embedded model get right, through the whole loop?

    python bench/local_model.py            20 tasks: question, tool call, answer
    python bench/local_model.py --plain    20 questions that need no tool
    python bench/local_model.py --verbose  with what it said

The model is asked at temperature 0, so the figures repeat. See docs/decisions/0007-emulated-tools.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from antiphon.agent import Agent
from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, final_text
from antiphon.core.wire import JsonObject
from antiphon.providers import stream_for
from antiphon.providers.local.model import EMBEDDED
from antiphon.tools import tool

WEATHER = {
    "paris": "18 degrees, light rain",
    "tokyo": "25 degrees and sunny",
    "cairo": "38 degrees, clear sky",
    "oslo": "3 degrees, snow",
    "lima": "20 degrees, cloudy",
}
PHONES = {"alice": "555-0101", "bob": "555-0199", "maria": "555-0142", "smith": "555-0177", "anna": "555-0188"}
FILES = {
    "README.md": "# Teapot\n\nTeapot is a program that boils water. It was written by Ada in 2019.\n",
    "setup.cfg": "[metadata]\nname = kettle\nversion = 4.2.1\nlicense = MIT\n",
    "notes.txt": "Buy milk.\nCall Bob at 555-0199.\nFix the roof.\n",
    "config.ini": "[db]\nhost = db.example.com\nengine = postgres\nport = 5432\n",
}


@tool
async def get_weather(city: str) -> str:
    """Get the current weather in a city."""
    return next((text for name, text in WEATHER.items() if name in city.lower()), f"no weather known for {city}")


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
async def find_phone(person: str) -> str:
    """Find the phone number of a person."""
    return next((text for name, text in PHONES.items() if name in person.lower()), f"nobody is called {person}")


@tool
async def read(path: str) -> str:
    """Read a file."""
    return FILES.get(path, f"there is no file {path}")


@dataclass(frozen=True)
class Task:
    """A question, the tool it needs with what its arguments must hold, and what the answer must hold."""

    question: str
    tool: str
    arguments: tuple[str | int, ...]
    answer: str


TASKS = (
    Task("What is the weather in Paris?", "get_weather", ("paris",), "18"),
    Task("How is the weather in Tokyo today?", "get_weather", ("tokyo",), "25"),
    Task("Tell me the weather in Cairo.", "get_weather", ("cairo",), "38"),
    Task("What's the weather like outside in Oslo?", "get_weather", ("oslo",), "3"),
    Task("weather lima", "get_weather", ("lima",), "20"),
    Task("What is 17 plus 25?", "add", (17, 25), "42"),
    Task("Add 3 and 4.", "add", (3, 4), "7"),
    Task("How much is 120 + 45?", "add", (45, 120), "165"),
    Task("I have 12 apples and buy 30 more. How many do I have?", "add", (12, 30), "42"),
    Task("What do you get when you add 7 to 1000?", "add", (7, 1000), "1007"),
    Task("What is the phone number of Alice?", "find_phone", ("alice",), "555-0101"),
    Task("How can I call Bob?", "find_phone", ("bob",), "555-0199"),
    Task("Find Maria's number.", "find_phone", ("maria",), "555-0142"),
    Task("I need to phone Dr. Smith.", "find_phone", ("smith",), "555-0177"),
    Task("Do you have Anna's telephone number?", "find_phone", ("anna",), "555-0188"),
    Task("What is in README.md?", "read", ("README.md",), "water"),
    Task("Who wrote the program in README.md?", "read", ("README.md",), "Ada"),
    Task("Which version is in setup.cfg?", "read", ("setup.cfg",), "4.2.1"),
    Task("Show me the file notes.txt", "read", ("notes.txt",), "milk"),
    Task("Which database does config.ini use?", "read", ("config.ini",), "postgres"),
)

PLAIN = (
    "Hello!", "Who are you?", "What is the capital of France?", "Write a short poem about the sea.", "Thank you!",
    "Tell me a joke.", "What is a prime number?", "Good morning", "Explain recursion in one sentence.",
    "What can you do?", "Say hello to Bob.", "Name three colors.", "How are you?",
    "Translate 'good day' into French.", "Who wrote Hamlet?", "What is the opposite of hot?",
    "Give me a name for a cat.", "Is water wet?", "Count from one to five.", "bye",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of a task."""

    called: bool
    right_tool: bool
    right_arguments: bool
    answered: bool
    said: str

    @property
    def right(self) -> bool:
        return self.right_arguments and self.answered


async def ask(question: str) -> tuple[ToolCall | None, str]:
    """The first call and the last words."""
    agent = Agent(stream=stream_for(EMBEDDED), model=EMBEDDED, tools=[get_weather, add, find_phone, read])
    await agent.prompt(question)
    answers = [message for message in agent.messages if isinstance(message, AssistantMessage)]
    call = next((block for answer in answers for block in answer.content if isinstance(block, ToolCall)), None)
    return call, final_text(agent.messages)


async def attempt(task: Task) -> Outcome:
    call, said = await ask(task.question)
    right_tool = call is not None and call.name == task.tool
    right_arguments = right_tool and call is not None and fits(call.arguments, task.arguments)
    return Outcome(call is not None, right_tool, right_arguments, task.answer.lower() in said.lower(), said)


def fits(given: JsonObject, wanted: tuple[str | int, ...]) -> bool:
    """Numbers in any order; names wherever they stand."""
    if isinstance(wanted[0], int):
        return sorted(given.values()) == list(wanted)
    return all(any(str(item).lower() in str(value).lower() for value in given.values()) for item in wanted)


async def run_tasks(verbose: bool) -> None:
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for task in TASKS:
        outcome = await attempt(task)
        outcomes.append(outcome)
        if verbose:
            print(f"{'right' if outcome.right else 'WRONG'}  {task.question}  ->  {outcome.said!r}")
    for name in ("called", "right_tool", "right_arguments", "answered", "right"):
        print(f"{name.replace('_', ' '):16} {sum(getattr(outcome, name) for outcome in outcomes)} of {len(TASKS)}")
    print(f"{'seconds a loop':16} {(time.perf_counter() - started) / len(TASKS):.2f}")


async def run_plain(verbose: bool) -> None:
    calls = 0
    for question in PLAIN:
        call, said = await ask(question)
        calls += call is not None
        if verbose:
            print(f"{'CALL' if call else 'words'}  {question}  ->  {said!r}")
    print(f"answered in words {len(PLAIN) - calls} of {len(PLAIN)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Short tasks for the embedded model.")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    asyncio.run(run_plain(given.verbose) if given.plain else run_tasks(given.verbose))


if __name__ == "__main__":
    main()

"""antiphon in the peer benchmark: the stateful Agent with one listener, through public names only."""

import asyncio
import os
import platform
import sys
from pathlib import Path

from _contract import Counters

sys.path.insert(0, str(Path(os.environ.get("ANTIPHON_SRC", Path(__file__).resolve().parents[1])) / "src"))

IMPORT = "from antiphon import Agent, tool"
PACKAGES = ["antiphon"]
LACKS = {}
EXTRAS = {"W3r"}


def versions():
    import antiphon

    return {"antiphon": antiphon.__version__, "python": platform.python_version()}


def make_tools(c, delay, yields):
    from antiphon import tool

    @tool
    async def echo(text: str) -> str:
        """Say it again."""
        c.tool_calls += 1
        if yields:
            await asyncio.sleep(0)
        if delay:
            await asyncio.sleep(delay)
        return "ok"

    @tool
    async def write(path: str, content: str) -> str:
        """Write a file."""
        c.tool_calls += 1
        c.tool_chars += len(content)
        return "ok"

    return [echo, write]


def make_model(script, yields, c):
    """A model that plays the script, built from the same events as a real provider's."""
    from antiphon import (
        AssistantMessage,
        Done,
        Start,
        Text,
        TextDelta,
        TextEnd,
        TextStart,
        ToolCall,
        ToolCallDelta,
        ToolCallEnd,
        ToolCallStart,
        read_arguments,
    )

    responses = iter(script)

    async def stream(request):
        c.responses += 1
        response = next(responses)
        if yields:
            await asyncio.sleep(0)
        model = request.model
        who = {"api": model.api, "provider": model.provider, "model": model.id}
        yield Start(message=AssistantMessage(content=(), stop_reason="pending", **who))
        blocks = []
        if "text" in response:
            yield TextStart(content_index=0)
            for delta in response["text"]:
                yield TextDelta(content_index=0, delta=delta)
            text = "".join(response["text"])
            blocks.append(Text(text=text))
            yield TextEnd(content_index=0, content=text)
            reason = "stop"
        else:
            for index, call in enumerate(response["calls"]):
                yield ToolCallStart(content_index=index, id=call["id"], name=call["name"])
                for fragment in call["frags"]:
                    yield ToolCallDelta(content_index=index, delta=fragment)
                arguments, _ = read_arguments("".join(call["frags"]))
                block = ToolCall(id=call["id"], name=call["name"], arguments=arguments)
                blocks.append(block)
                yield ToolCallEnd(content_index=index, tool_call=block)
            reason = "toolUse"
        yield Done(reason=reason, message=AssistantMessage(content=tuple(blocks), stop_reason=reason, **who))

    return stream


def convert_history(history):
    from antiphon import AssistantMessage, Text, ToolCall, ToolResultMessage, UserMessage

    out = []
    for kind, *rest in history:
        if kind == "user":
            out.append(UserMessage(content=rest[0]))
        elif kind == "call":
            block = ToolCall(id=rest[0], name="echo", arguments=rest[1])
            out.append(AssistantMessage(content=(block,), stop_reason="toolUse"))
        elif kind == "result":
            result = (Text(text=rest[1]),)
            out.append(ToolResultMessage(tool_call_id=rest[0], tool_name="echo", content=result, is_error=False))
        else:
            out.append(AssistantMessage(content=(Text(text=rest[0]),), stop_reason="stop"))
    return out


class Conv:
    def __init__(self, script, history=None, delay=0.0, yields=False, reads=False):
        from antiphon import Agent

        c = self.c = Counters()
        self.reads = reads
        self.agent = Agent(
            stream=make_model(script, yields, c),
            tools=make_tools(c, delay, yields),
            messages=() if history is None else convert_history(history),
        )
        self.agent.subscribe(self.on_event)

    def on_event(self, event, _signal):
        c = self.c
        c.events += 1
        if event.type == "message_update":
            inner = event.assistant_message_event
            if inner.type == "text_delta":
                c.text_deltas += 1
                c.text_chars += len(inner.delta)
            elif inner.type == "toolcall_delta":
                c.arg_deltas += 1
                c.arg_chars += len(inner.delta)
                if self.reads:
                    arguments = event.message.content[inner.content_index].arguments
                    c.partial_chars = len(arguments.get("content", ""))

    async def run(self):
        outcome = await self.agent.prompt("go")
        self.c.final = outcome.final_text
        return self.c.dict()

    async def run_plain(self):
        return await self.run()

"""The smallest loop that keeps its promises: context and config in, new messages and events out.

It touches no file, prints nothing and reads no clock of its own, so a test needs none of these either. What the loop of
the library has besides: parallel tools, steering, hooks, abort, limits. `src/antiphon/course/reference_loop.py` has the
next few of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from antiphon import Context, Model, ModelRequest, run_tool_call
from antiphon.core.calls import result_message, skipped
from antiphon.core.events import AgentEnd, AgentEvent, AgentStart, MessageEnd, ToolExecutionEnd, ToolExecutionStart
from antiphon.core.messages import AssistantMessage, Message, calls_of
from antiphon.core.ports import ModelStream, Tool
from antiphon.core.response_events import Done, Failed
from antiphon.loop.abort import never_aborted


@dataclass(frozen=True)
class Config:
    """How the loop behaves: whom it asks, what it may run, who hears of it, and what time it is."""

    model: Model
    stream: ModelStream
    tools: Sequence[Tool] = ()
    emit: Callable[[AgentEvent], None] = lambda event: None
    now_ms: Callable[[], int] = lambda: 0


@dataclass
class Finished:
    """What one run has brought."""

    new_messages: list[Message] = field(default_factory=list[Message])
    events: list[AgentEvent] = field(default_factory=list[AgentEvent])


async def run_agent_loop(context: Context, config: Config) -> Finished:
    """Ask, run the tools that were asked for, append their results, ask again, until nothing is asked for."""
    run = Finished()

    def tell(event: AgentEvent) -> None:
        run.events.append(event)
        config.emit(event)

    def keep(message: Message) -> None:
        run.new_messages.append(message)
        tell(MessageEnd(message=message))

    tell(AgentStart())
    while True:
        messages = [*context.messages, *run.new_messages]
        answer = await ask(config, messages)
        keep(answer)
        for call in calls_of(answer):
            tell(ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments))
            if answer.stop_reason == "toolUse":
                outcome = await run_tool_call(call, tools=config.tools, assistant_message=answer, context=context)
            else:  # cut off or failed: the arguments may be half of what was meant
                outcome = skipped(call, "length" if answer.stop_reason == "length" else "error", typed=True)
            failed, result = outcome.is_error, outcome.result
            tell(ToolExecutionEnd(tool_call_id=call.id, tool_name=call.name, result=result, is_error=failed))
            keep(result_message(call, outcome, config.now_ms()))
        if answer.stop_reason != "toolUse" or not calls_of(answer):
            tell(AgentEnd(messages=tuple(run.new_messages)))
            return run


async def ask(config: Config, messages: Sequence[Message]) -> AssistantMessage:
    """One request; the final message of its answer. A provider says that it failed in a message, it does not raise."""
    stream: Any = config.stream(ModelRequest(config.model, messages, "off", never_aborted()))
    async for event in stream if hasattr(stream, "__aiter__") else await stream:
        if isinstance(event, Done | Failed):
            return event.message if isinstance(event, Done) else event.error
    raise RuntimeError("the model stream ended without a final message")

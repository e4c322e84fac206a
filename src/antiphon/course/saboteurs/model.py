"""Chapter 04: scripted models that break one promise each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from antiphon.core.messages import user
from antiphon.core.response_events import Done, Failed, Start
from antiphon.course.ports import ModelRequest
from antiphon.course.saboteurs.registry import Saboteur

Make = Callable[[list[Any]], Any]


def _saboteur(name: str, caught_by: str, promise: str, promise_zh: str, around: Callable[[Make], Make]) -> Saboteur:
    def change(module: Any) -> Mapping[str, Any]:
        make = around(module.ScriptedModel)
        return {"ScriptedModel": lambda responses=(): make(list(responses))}

    return Saboteur(name, f"test_{caught_by}", promise, promise_zh, change)


class Wrapped:
    """A model around the one under test, with its streams changed."""

    def __init__(self, model: Any, changed: Callable[[Any], Any]) -> None:
        self.model = model
        self.requests = model.requests
        self.changed = changed

    def stream(self, request: Any) -> Any:
        return self.changed(self.model.stream(request))


class Changed:
    """A stream around another one."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self.answer:
            yield event

    async def result(self) -> Any:
        return await self.answer.result()


class OnlyTheEnd(Changed):
    """Start and final message, and nothing of how it came about."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self.answer:
            if isinstance(event, Start | Done | Failed):
                yield event


class NeverOver(Changed):
    """A result that does not come is waited for."""

    async def result(self) -> Any:
        try:
            return await self.answer.result()
        except Exception:  # noqa: BLE001 - this is the mistake
            await asyncio.Event().wait()


def keeps_references(make: Make) -> Make:
    class Keeping(Wrapped):
        def stream(self, request: Any) -> Any:
            answer = super().stream(request)
            self.requests[-1] = request
            return answer

    return lambda responses: Keeping(make(responses), lambda answer: answer)


def records_nothing(make: Make) -> Make:
    class Forgetting(Wrapped):
        def stream(self, request: Any) -> Any:
            answer = super().stream(request)
            self.requests = []
            return answer

    return lambda responses: Forgetting(make(responses), lambda answer: answer)


def asks_functions_too_early(make: Make) -> Make:
    """Before there is a request that could tell them anything."""
    nobody = ModelRequest("", (user("nothing"),), ())
    return lambda responses: make([response(nobody) if callable(response) else response for response in responses])


MODEL_SABOTEURS: tuple[Saboteur, ...] = (
    _saboteur(
        "only-the-end",
        "final_message_of_a_text",
        "an answer is told piece by piece",
        "回答要一块一块地给出",
        lambda make: lambda responses: Wrapped(make(responses), OnlyTheEnd),
    ),
    _saboteur(
        "always-the-first",
        "script_order_is_kept",
        "the k-th request gets the k-th response",
        "第 k 个请求得到第 k 个回应",
        lambda make: lambda responses: make(responses[:1] * 10),
    ),
    _saboteur(
        "records-nothing",
        "recorded_requests_stand_in_order",
        "every request is recorded",
        "每个请求都要记录",
        records_nothing,
    ),
    _saboteur(
        "keeps-references",
        "recorded_requests_do_not_change_later",
        "what is recorded does not change later",
        "记录下来的内容以后不会改变",
        keeps_references,
    ),
    _saboteur(
        "never-over",
        "other_responses_without_a_final_event_do_not_hang",
        "a stream without a final event raises instead of waiting",
        "没有最终事件的流要抛出异常，而不是等待",
        lambda make: lambda responses: Wrapped(make(responses), NeverOver),
    ),
    _saboteur(
        "asks-functions-too-early",
        "other_responses_function_sees_the_request",
        "a function in the script sees the request that it answers",
        "脚本里的函数能看到它所回答的请求",
        asks_functions_too_early,
    ),
    _saboteur(
        "repeats-the-last",
        "other_responses_used_up_script_says_so",
        "a script that is used up says so",
        "脚本用完了要说出来",
        lambda make: lambda responses: make([*responses, *responses[-1:] * 10]),
    ),
)

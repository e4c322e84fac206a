"""Everything that a caller may set about one run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from msgspec import Struct, field

from antiphon.core.hooks import (
    AfterHook,
    BeforeHook,
    ConvertToLlm,
    FinishTurn,
    GetApiKey,
    PollMessages,
    PrepareNextTurn,
    PrepareRequest,
    TransformContext,
)
from antiphon.core.limits import Budget
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.policy import DEFAULT, Policy, RunLimits
from antiphon.core.ports import Clock, ExecutionMode
from antiphon.loop.outcome import FaultRecord


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


@final
class LoopConfig(Struct, kw_only=True, eq=False):
    """Model, policy, limits and hooks of a run. `limits` None: those of the policy. Times are seconds.

    `budget`: what earlier runs have used counts too, and what this run uses is added to it.
    `stream_idle_timeout`: longest silence of a model stream. `close_timeout`: longest time that listeners may take
    while a cancelled run is closed. `options` are handed to the stream function with each request.
    """

    model: Model
    thinking_level: ThinkingLevel = "off"
    tool_execution: ExecutionMode = "parallel"
    policy: Policy = DEFAULT
    limits: RunLimits | None = None
    budget: Budget | None = None
    api_key: str | None = None
    session_id: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    convert_to_llm: ConvertToLlm | None = None
    transform_context: TransformContext | None = None
    get_api_key: GetApiKey | None = None
    prepare_request: PrepareRequest | None = None
    prepare_next_turn: PrepareNextTurn | None = None
    finish_turn: FinishTurn | None = None
    before_tool_call: BeforeHook | None = None
    after_tool_call: AfterHook | None = None
    get_steering_messages: PollMessages | None = None
    get_follow_up_messages: PollMessages | None = None
    on_fault: Callable[[FaultRecord], None] | None = None
    stream_idle_timeout: float | None = None
    close_timeout: float = 5.0
    clock: Clock = SYSTEM_CLOCK

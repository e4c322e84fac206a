"""Demo 07: retry and settle. A run may fail and be repeated; a conversation is settled when nothing is left to do.

python examples/demo_07.py
"""

import asyncio
from typing import Any

from antiphon import AssistantMessage, Model
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider
from antiphon.session.create import Services, create_agent_session
from antiphon.session.retry import RetrySettings
from antiphon.session.settings import SessionSettings
from antiphon.session_log import SessionStore
from antiphon.testing import VirtualClock

OVERLOADED = AssistantMessage(content=(), stop_reason="error", error_message="529 overloaded_error: try again later")


class OneModel:
    """Which models there are, and how they are asked."""

    def __init__(self, stream: ScriptedProvider) -> None:
        self.stream = stream

    def available(self) -> list[Model]:
        return [SCRIPTED]

    def find(self, provider: str, model_id: str) -> Model | None:
        return SCRIPTED if (provider, model_id) == (SCRIPTED.provider, SCRIPTED.id) else None

    def has_credentials(self, model: Model) -> bool:
        return True

    def api_key(self, provider: str) -> str | None:
        return None


def tell(event: Any) -> None:
    if event.type == "auto_retry_start":
        print(f"{event.type}: attempt {event.attempt} of {event.max_attempts} in {event.delay_ms / 1000:g} s")
    elif event.type in ("agent_start", "agent_end", "auto_retry_end", "agent_settled"):
        print(event.type)


async def main() -> None:
    model = ScriptedProvider([OVERLOADED, OVERLOADED, "Here I am."])
    clock = VirtualClock()  # nobody waits: time is moved on by hand
    settings = SessionSettings(retry=RetrySettings(max_retries=3, base_delay_ms=2_000))
    services = Services(cwd="/", models=OneModel(model), settings=settings)
    log = SessionStore("/", cwd="/").in_memory()
    session = create_agent_session(services, log, model=SCRIPTED, clock=clock).session
    session.subscribe(tell)

    prompting = asyncio.create_task(session.prompt("Are you there?"))
    while not prompting.done():
        await asyncio.sleep(0)
        if clock.sleeping:
            await clock.advance_to_next()

    settlement = await prompting
    print(f"{settlement.reason}: {settlement.final_text}")
    print(f"{len(model.requests)} requests; in the context:", *(message.role for message in session.messages))
    await session.dispose()


if __name__ == "__main__":
    asyncio.run(main())

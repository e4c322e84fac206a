"""A program of somebody who serves our RPC mode with what the command has not: approvals, dialogs, commands of its own.

python -m tests.modes.rpc.host FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from antiphon.modes.output import take_over
from antiphon.modes.rpc.dialogs import Dialogs
from antiphon.modes.rpc.stdio import run_rpc
from antiphon.session.agent_session import AgentSession
from antiphon.session.approvals import Need
from antiphon.session.create import Services, create_agent_session
from antiphon.session.hooks import Command, InputGiven, SessionHooks
from antiphon.session.ports import GivenModels
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session_log import SessionLog, SessionStore
from antiphon.testing import SCRIPTED_MODEL, CallScript, ScriptedModel, ScriptedTool, calls, says


class Host:
    """Answers `A`, `B` and a text to every three requests; asks about every call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dialogs: Dialogs | None = None
        self.model = ScriptedModel([calls("A", "B"), says("done")] * 20)

    def make(self, log: SessionLog) -> AgentSession:
        services = Services(cwd=str(self.folder), models=GivenModels(self.model, (SCRIPTED_MODEL,)))
        tools = tuple(ScriptedTool(name, CallScript()) for name in "AB")
        session = create_agent_session(
            services, log, model=SCRIPTED_MODEL, custom_tools=tools, approve=self.need
        ).session
        session.hooks = replace(SessionHooks(), commands={"hello": Command(self.hello), "fail": Command(self.fail)})
        session.hooks = replace(session.hooks, input=self.input)
        return session

    def need(self, call: Any) -> Need:
        return f"May {call.tool_call.name} run?"

    async def hello(self, rest: str) -> None:
        assert self.dialogs is not None
        ui = self.dialogs
        ui.notify(f"hello {rest}")
        ui.set_status("s", "busy")
        ui.set_widget("w", ["one"], "aboveEditor")
        ui.set_title("t")
        ui.set_editor_text("e")
        answers = [
            await ui.select("Which?", ["a", "b"]),
            await ui.confirm("Sure?", "really"),
            await ui.input("Name?"),
            await ui.editor("Text"),
        ]
        ui.notify(repr(answers))

    def fail(self, _rest: str) -> None:
        raise RuntimeError("no such thing")

    async def input(self, given: InputGiven) -> Any:
        assert self.dialogs is not None
        if given.text != "ask me":
            return None
        return None if await self.dialogs.confirm("Really?", given.text) else None

    def commands(self) -> list[Any]:
        return [{"name": "hello", "source": "extension", "sourceInfo": {"path": "host"}}]

    def export(self, path: str | None) -> str:
        raise ValueError(path)

    def bind(self, dialogs: Dialogs) -> None:
        self.dialogs = dialogs


async def main(folder: Path) -> int:
    host = Host(folder)
    store = SessionStore(folder, cwd=str(folder))
    runtime = AgentSessionRuntime(host.make(store.create()), host.make, store)
    return await run_rpc(runtime, take_over(), host, stopped=asyncio.Event(), bind=host.bind)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))

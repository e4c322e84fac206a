"""A conversation with a real child over its standard streams: commands out, records in as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.modes.children import Child, Place, served, started
from tests.providers.fake_server import Answer, Break, FakeServer, Step

PATIENCE_SECONDS = 90.0  # a machine may stand still for a while
Record = dict[str, Any]
SLOW = Break(Answer(text="never finished"), events=3, silent=True)
"""An answer that begins and does not go on."""


class Talk:
    """One conversation. `records`: every line so far; what is asked for is looked for from `since` on."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.since = 0
        self._read: list[Record] = []
        self._bytes_read = 0

    @property
    def records(self) -> list[Record]:
        told = self.child._out
        end = told.rfind(b"\n") + 1
        if end > self._bytes_read:
            self._read += [json.loads(line) for line in bytes(told[self._bytes_read : end]).split(b"\n")[:-1]]
            self._bytes_read = end
        return self._read

    async def until(self, wanted: Callable[[Record], bool]) -> Record:
        """The first record that fits, waiting for it."""
        at = self.since
        while True:
            self.child._news.clear()
            records = self.records
            for number in range(at, len(records)):
                if wanted(records[number]):
                    return records[number]
            at = max(at, len(records))
            assert self.child.process.returncode is None, records[-5:]
            await asyncio.wait_for(self.child._news.wait(), PATIENCE_SECONDS)

    async def answer(self, id_: Any) -> Record:
        return await self.until(lambda r: r["type"] == "response" and r.get("id") == id_)

    async def event(self, type_: str) -> Record:
        return await self.until(lambda r: r["type"] == type_)

    async def send(self, *commands: Record | bytes) -> None:
        """Commands in one burst."""
        lines = [c if isinstance(c, bytes) else json.dumps(c).encode() + b"\n" for c in commands]
        await self.child.write(b"".join(lines))

    async def ask(self, type_: str, **fields: Any) -> Any:
        """Send a command and give the data of its answer."""
        id_ = f"{type_}-{len(self.records)}"
        await self.send({"id": id_, "type": type_, **fields})
        answer = await self.answer(id_)
        assert answer["success"], answer
        return answer.get("data")

    def types(self) -> list[str]:
        return [r["type"] for r in self.records if r["type"] != "message_update"]

    async def end(self) -> list[Record]:
        """Close the line; all records."""
        self.child.close_stdin()
        done = await self.child.done()
        assert (done.code, done.err) == (0, ""), done.err
        return done.records


@asynccontextmanager
async def talking(
    place: Place, *script: Step, arguments: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Talk, FakeServer]]:
    async with served(place, *script) as server, started(place, "--mode", "rpc", *arguments) as child:
        yield Talk(child), server


def user_texts(records: list[Record]) -> list[str]:
    said = [r["message"] for r in records if r["type"] == "message_end" and r["message"]["role"] == "user"]
    return ["".join(block.get("text", "") for block in m["content"]) for m in said]

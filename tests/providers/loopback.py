"""A real HTTP server on the loopback interface whose every reply a test writes by hand.

    async with Server(handler) as server: ...

`handler(exchange)` is called for each request; it sends what it likes, piece by piece, and can wait for the client to
hang up. Nothing here knows the product.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Exchange:
    """One request, and the connection to answer on."""

    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    chunked: bool = field(default=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def head(self, status: int = 200, content_type: str = "text/event-stream", **headers: str) -> None:
        """Status line and headers of a chunked reply."""
        lines = [f"HTTP/1.1 {status} X", f"content-type: {content_type}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self.writer.drain()
        self.chunked = True

    async def piece(self, data: bytes | str) -> None:
        raw = data.encode() if isinstance(data, str) else data
        self.writer.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        await self.writer.drain()

    async def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def reply(
        self, status: int, body: bytes | str, content_type: str = "application/json", **headers: str
    ) -> None:
        """A whole reply."""
        await self.head(status, content_type, **headers)
        if body:
            await self.piece(body)
        await self.end()

    async def stream(self, *pieces: bytes | str) -> None:
        """A whole event stream."""
        await self.head()
        for piece in pieces:
            await self.piece(piece)
        await self.end()

    def reset(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()

    async def until_hung_up(self) -> None:
        """Returns when the client has closed its side."""
        while await self.reader.read(65536):
            pass


Handler = Callable[[Exchange], Awaitable[None]]


class Server:
    """Runs while its `async with` block does; `exchanges` are the requests so far."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[Any]] = set()
        self.exchanges: list[Exchange] = []
        self.connections = 0

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        exchange = Exchange(first.split(" ")[1], headers, body, reader, writer, len(self.exchanges))
        self.exchanges.append(exchange)
        await self._handler(exchange)
        return not writer.is_closing()


def sse(*chunks: Any) -> str:
    """Chunks as server-sent events; a text stands as it is."""
    return "".join(f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks)

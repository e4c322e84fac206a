#!/usr/bin/env python3
"""Many answers at once: memory and processor time of a stream, ours beside the official `openai` client.

    python bench/streams.py [--streams 1000] [--pieces 20] [--rounds 3]

One server (a process of its own) serves Chat Completions to each client in turn (each a fresh process). It opens all
streams, holds them until the client has measured its memory, then sends a piece to each every 0.2 s. The first
row reads the same bytes through the HTTP library that both clients use, parses the JSON of each event, and does nothing
else. The `openai` package comes with `requirements/dev.lock`; without it the other rows are measured alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORDS = "some words of it "
PIECE_SECONDS = 0.2  # so far apart that each piece is a read of its own, and a slow client saves nothing


# -- the server --------------------------------------------------------------------------------------------------------


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    """One chunk of an answer as a chunk of the body."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return framed(b"data: " + json.dumps(value).encode() + b"\n\n")


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Hall:
    """Streams that wait for each other: all are open before one goes on."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces
        self._open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: an answer that is held, or `POST /v1/go`, which sends what is held to its end."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
                await reader.readexactly(int(length.split(b":")[1]))
                if head.startswith(b"POST /v1/go"):
                    await self._go()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                else:
                    writer.write(HEAD + event({"role": "assistant", "content": "so"}))
                    self._open.append(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _go(self) -> None:
        writers, self._open = self._open, []
        piece = event({"content": WORDS})
        for _ in range(self._pieces):
            pause = asyncio.create_task(asyncio.sleep(PIECE_SECONDS))
            for writer in writers:
                writer.write(piece)
            await pause
        end = event({}, "stop") + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        for writer in writers:
            writer.write(end)


async def serve(pieces: int) -> None:
    hall = Hall(pieces)
    server = await asyncio.start_server(hall.serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# -- the clients -------------------------------------------------------------------------------------------------------


class Bare:
    """The HTTP library and a JSON reader."""

    def __init__(self, url: str) -> None:
        import httpx2
        import msgspec

        self._client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None))
        self._url = f"{url}/chat/completions"
        self._read = msgspec.json.decode

    async def ask(self, begun: Begun) -> int:
        size = 0
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True})
        async with self._client.stream("POST", self._url, content=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    size += len(self._read(line[6:])["choices"][0]["delta"].get("content") or "")
                    begun.tell()
        return size


class Antiphon:
    def __init__(self, url: str) -> None:
        from antiphon.core.messages import user
        from antiphon.core.model import Model
        from antiphon.core.ports import ModelRequest
        from antiphon.core.response_events import Done, TextDelta
        from antiphon.loop.abort import AbortController
        from antiphon.providers.registry import stream_for

        model = Model(
            id="m",
            provider="bench",
            api="openai-completions",
            base_url=url,
            context_window=100_000,
            max_tokens=4096,
        )
        self._stream = stream_for(model)
        self._text, self._done = TextDelta, Done
        self._request = lambda: ModelRequest(
            model=model, messages=(user("Hi"),), thinking_level="off", signal=AbortController().signal, api_key="k"
        )

    async def ask(self, begun: Begun) -> int:
        size = 0
        last = None
        async for last in self._stream(self._request()):  # type: ignore[union-attr]
            if type(last) is self._text:
                size += len(last.delta)
                begun.tell()
        assert type(last) is self._done, last
        return size


class OpenAI:
    def __init__(self, url: str) -> None:
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(base_url=url, api_key="k", max_retries=0)

    async def ask(self, begun: Begun) -> int:
        size = 0
        stream = await self._client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        async for chunk in stream:
            size += len(chunk.choices[0].delta.content or "")
            begun.tell()
        return size


CLIENTS = {"bare httpx2": Bare, "antiphon": Antiphon, "openai": OpenAI}


class Begun:
    """The first words of one stream; `open` is set with those of the last."""

    left = 0

    def __init__(self, all_open: asyncio.Event) -> None:
        self._open = all_open
        self._told = False

    def tell(self) -> None:
        if not self._told:
            self._told = True
            Begun.left -= 1
            if not Begun.left:
                self._open.set()


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def all_at_once(client: Bare | Antiphon | OpenAI, port: int, streams: int) -> tuple[list[int], int]:
    """The lengths of so many answers, and the memory in use while all of them were open."""
    is_open = asyncio.Event()
    Begun.left = streams
    asking = [asyncio.create_task(client.ask(Begun(is_open))) for _ in range(streams)]
    await is_open.wait()
    memory = resident()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/go HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    await reader.readuntil(b"ok")
    writer.close()
    return await asyncio.gather(*asking), memory


async def measure(name: str, port: int, streams: int) -> None:
    client = CLIENTS[name](f"http://127.0.0.1:{port}/v1")
    await all_at_once(client, port, 2)  # what is loaded and built once
    before, cpu, wall = resident(), time.process_time(), time.perf_counter()
    sizes, memory = await all_at_once(client, port, streams)
    took = {"cpu_us": (time.process_time() - cpu) / streams * 1e6, "wall_s": time.perf_counter() - wall}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert len(set(sizes)) == 1, "the answers differ"
    took |= {"open_kb": (memory - before) / streams / 1024, "peak_kb": (peak - before) / streams / 1024}
    print(json.dumps({**took, "size": sizes[0]}))


# -- the run -----------------------------------------------------------------------------------------------------------


def child(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)


def run(asked: argparse.Namespace) -> int:
    names = [name for name in CLIENTS if name != "openai" or find_spec("openai")]
    if "openai" not in names:
        print("the openai client is not installed (pip install openai): measured without it", file=sys.stderr)
    server = child("--serve", "--pieces", str(asked.pieces))
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        for _ in range(asked.rounds):
            for name in names:
                client = child("--client", name, "--port", port, "--streams", str(asked.streams))
                told, _ = client.communicate(timeout=120)
                if client.returncode:
                    return client.returncode
                rows[name].append(json.loads(told))
    finally:
        server.terminate()
        server.wait()
    report(rows, asked.streams, asked.pieces)
    return 0


def report(rows: dict[str, list[dict[str, float]]], streams: int, pieces: int) -> None:
    print(
        f"{streams:,} streams at once, {pieces + 2} events each; medians of {len(next(iter(rows.values())))} rounds\n"
    )
    print("| client | memory of an open stream | at the peak | CPU of a stream | of an event | wall |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, rounds in rows.items():
        of = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
        memory = f"{of['open_kb']:.1f} kB | {of['peak_kb']:.1f} kB"
        cpu = f"{of['cpu_us'] / 1000:.2f} ms | {of['cpu_us'] / (pieces + 2):.1f} µs"
        print(f"| {name} | {memory} | {cpu} | {of['wall_s']:.2f} s |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--pieces", type=int, default=20, help="text deltas of each answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if asked.serve:
        asyncio.run(serve(asked.pieces))
    elif asked.client:
        asyncio.run(measure(asked.client, asked.port, asked.streams))
    else:
        return run(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What it takes to begin: an empty Python, a question, the first request of a conversation.

    python bench/start.py [rounds]

Each round is a process of its own with an empty home. `CPU` is user and system time of the process: until it ended, or
until its request had arrived. Prints medians in milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANSWER = (
    b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def environment(home: Path, url: str) -> dict[str, str]:
    """An empty home, a key, and a server in place of the provider."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(home),
        "ANTIPHON_AGENT_DIR": str(home / "agent"),
        "OPENAI_API_KEY": "sk-bench",
        "OPENAI_BASE_URL": url,
    }


def cpu_ms(pid: int) -> float:
    """What all threads of a living process have used so far."""
    files = Path("/proc", str(pid), "task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e6


def ended(words: list[str], home: Path) -> tuple[float, float]:
    """Wall and CPU time of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment(home, ""), stdout=subprocess.DEVNULL, check=True)
    wall = (time.perf_counter() - began) * 1000
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


class Server:
    """Takes one request at a time, tells when it had come, answers `hi`."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.watched = 0
        self.cpu_ms = 0.0
        self.came = 0.0
        self.body: dict[str, object] = {}
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            line, _ = self._socket.accept()
            data = b""
            while b"\r\n\r\n" not in data:
                data += line.recv(1 << 16)
            head, _, body = data.partition(b"\r\n\r\n")
            size = next(int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length"))
            while len(body) < size:
                body += line.recv(1 << 16)
            self.came, self.cpu_ms = time.perf_counter(), cpu_ms(self.watched)
            self.body = json.loads(body)
            line.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + ANSWER)
            line.close()


def first_request(server: Server, home: Path) -> tuple[float, float]:
    """Wall and CPU time from the start of the process to its request."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "antiphon", "-p", "Hello"],
        env=environment(home, server.url),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    server.watched = child.pid
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, b"hi\n")
    return (server.came - began) * 1000, server.cpu_ms


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    server = Server()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        measured = {
            "empty Python": lambda: ended(["-c", "pass"], home),
            "--version": lambda: ended(["-m", "antiphon", "--version"], home),
            "--help": lambda: ended(["-m", "antiphon", "--help"], home),
            "first request": lambda: first_request(server, home),
        }
        for name, measure in measured.items():
            measure()
            found = [measure() for _ in range(rounds)]
            wall, cpu = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"{name:14} wall {wall:6.1f}   CPU {cpu:6.1f}   least CPU {min(c for _, c in found):6.1f}")


if __name__ == "__main__":
    main()

"""The loopback server: over real sockets, with a store on disk and with one in memory; the loop is the same."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.examples.stage import example

from antiphon import ToolCall, tool
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

server = example("server")
JSON = {"Content-Type": "application/json"}


class MemoryStore:
    """The same as the store on disk, without a disk."""

    def __init__(self) -> None:
        self.sessions: defaultdict[str, list[Any]] = defaultdict(list)

    def load(self, session_id: str) -> list[Any]:
        return list(self.sessions[session_id])

    def append(self, session_id: str, messages: Any) -> None:
        self.sessions[session_id] += messages


@contextmanager
def serving(store: Any, *responses: Any, tools: Any = ()) -> Iterator[int]:
    """The port of a running server."""
    config = server.Config(SCRIPTED, ScriptedProvider(responses), tools)
    with server.make_server(store, config) as running:
        running.RequestHandlerClass.log_message = lambda *_: None
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running.server_address[1]
        finally:
            running.shutdown()
            thread.join()


def ask(port: int, method: str, path: str, body: Any = None, headers: Any = JSON) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def events(data: bytes) -> list[dict[str, Any]]:
    blocks = [block for block in data.decode().split("\n\n") if block]
    return [json.loads(block.split("\n")[1].removeprefix("data: ")) for block in blocks]


@pytest.mark.requirement("S1-19")
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_conversation_over_the_wire(tmp_path: Path, kind: str) -> None:
    store = server.JsonlSessionStore(tmp_path) if kind == "disk" else MemoryStore()

    @tool
    async def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    call = ToolCall(id="c1", name="add", arguments={"a": 17, "b": 25})
    with serving(store, [call], "42.", "You asked for a sum.", tools=(add,)) as port:
        status, stream = ask(port, "POST", "/sessions/one/prompt", {"text": "17 + 25?"})
        told = [event["type"] for event in events(stream)]
        ask(port, "POST", "/sessions/one/prompt", {"text": "What did I ask?"})
        _, messages = ask(port, "GET", "/sessions/one/messages")
        _, others = ask(port, "GET", "/sessions/two/messages")

    assert status == 200
    assert told == [
        "agent_start",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_end",
        "message_end",
        "agent_end",
    ]
    roles = [message["role"] for message in json.loads(messages)]
    assert roles == ["user", "assistant", "toolResult", "assistant", "user", "assistant"]
    assert json.loads(others) == []
    assert [path.name for path in tmp_path.iterdir()] == (["one.jsonl"] if kind == "disk" else [])


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/sessions/../etc/messages", None, {}, 404),
        ("GET", "/sessions/a%2Fb/messages", None, {}, 404),
        ("GET", "/", None, {}, 404),
        ("POST", "/sessions/one/messages", {"text": "x"}, JSON, 404),
        ("POST", "/sessions/one/prompt", {"text": "x"}, {"Content-Type": "text/plain"}, 415),
        ("POST", "/sessions/one/prompt", {"words": "x"}, JSON, 400),
        ("POST", "/sessions/one/prompt", ["x"], JSON, 400),
        ("POST", "/sessions/one/prompt", None, {**JSON, "Content-Length": "many"}, 400),
    ],
)
def test_what_is_not_asked_rightly_is_refused(
    tmp_path: Path, method: str, path: str, body: Any, headers: Any, status: int
) -> None:
    with serving(server.JsonlSessionStore(tmp_path)) as port:
        assert ask(port, method, path, body, headers)[0] == status
    assert list(tmp_path.iterdir()) == []


def test_a_session_does_one_thing_at_a_time() -> None:
    """While a run waits at a gate, a second prompt for the same session is refused; another session is free."""
    begun, gate = threading.Event(), threading.Event()

    def slow(_request: Any) -> str:
        begun.set()
        gate.wait(10)
        return "Done."

    with serving(MemoryStore(), slow, "Other.") as port:
        first = threading.Thread(target=ask, args=(port, "POST", "/sessions/one/prompt", {"text": "x"}))
        first.start()
        begun.wait(10)
        busy, _ = ask(port, "POST", "/sessions/one/prompt", {"text": "y"})
        free, _ = ask(port, "POST", "/sessions/two/prompt", {"text": "z"})
        gate.set()
        first.join()

    assert (busy, free) == (409, 200)


def test_it_listens_on_this_machine_only() -> None:
    with server.make_server(MemoryStore(), server.Config(SCRIPTED, ScriptedProvider())) as made:
        assert made.server_address[0] == "127.0.0.1"

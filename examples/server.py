"""A small loopback server: POST a prompt, hear the events, GET the messages. It stores them; the loop does not.

python examples/server.py FOLDER          # then, in another terminal:
curl -N -H 'Content-Type: application/json' -d '{"text": "Hello"}' http://127.0.0.1:8071/sessions/one/prompt
curl http://127.0.0.1:8071/sessions/one/messages
"""

import asyncio
import json
import re
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonl_store import JsonlSessionStore
from mini_loop import Config, run_agent_loop

from antiphon import Context
from antiphon.core.messages import user
from antiphon.core.wire import encode
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

ROUTE = re.compile(r"/sessions/([A-Za-z0-9_-]{1,64})/(prompt|messages)")


def make_server(store: Any, config: Config, port: int = 0) -> ThreadingHTTPServer:
    """A server on this machine only. `store` needs `load(id)` and `append(id, messages)`, and may be any kind."""
    busy: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            route = ROUTE.fullmatch(self.path)
            if route is None or route[2] != "messages":
                return self.send_error(404)
            return self.answer("application/json", encode(store.load(route[1])))

        def do_POST(self) -> None:
            route = ROUTE.fullmatch(self.path)
            if route is None or route[2] != "prompt":
                return self.send_error(404)
            if self.headers.get_content_type() != "application/json":  # a page of a browser cannot send this unasked
                return self.send_error(415)
            try:
                text = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), 1_000_000)))["text"]
            except (TypeError, ValueError, KeyError):
                return self.send_error(400, 'send {"text": "..."}')
            if not busy[route[1]].acquire(blocking=False):
                return self.send_error(409, "this session is busy")
            try:
                return self.run(route[1], str(text))
            finally:
                busy[route[1]].release()

        def run(self, session_id: str, text: str) -> None:
            """Store the prompt, run the loop, store what is new. A reader that goes away ends nothing."""

            def emit(event: Any) -> None:
                with suppress(OSError):
                    self.wfile.write(b"event: %s\ndata: %s\n\n" % (event.type.encode(), encode(event)))

            self.answer("text/event-stream", b"")
            store.append(session_id, [user(text)])
            listened = Config(config.model, config.stream, config.tools, emit, config.now_ms)
            store.append(
                session_id, asyncio.run(run_agent_loop(Context(store.load(session_id)), listened)).new_messages
            )

        def answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    echo = ScriptedProvider([lambda request: f"You said: {request.messages[-1].content}"] * 1000)
    make_server(JsonlSessionStore(Path(sys.argv[1])), Config(SCRIPTED, echo), 8071).serve_forever()

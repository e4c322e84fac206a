"""A session with everything that a page can show: branches, calls, diffs, code, thinking, usage, cost, pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from antiphon.core.messages import message_from_wire, user
from antiphon.core.usage import Cost, Usage
from antiphon.session_log import SessionLog

ANSWER = """\
I looked at the parser. **The loop never ends** when a line is `""`, because `read_line` gives the same text twice.

## What I would change

1. stop at the first empty line,
2. keep the rest for the next call.

```python
def read_line(stream: Stream, limit: int = 1_000) -> str:
    \"\"\"The next line, without its newline.\"\"\"
    line = stream.read(limit)  # at most so many bytes
    if not line:
        raise EndOfStream(f"nothing after {stream.position}")
    return line.rstrip("\\n")
```

| case | before | after |
|---|---:|---:|
| empty line | endless | 0.2 ms |
| 10,000 lines | 41 ms | 12 ms |
"""
DIFF = """\
   11 def read_line(stream):
-  12     line = stream.read()
+  12     line = stream.read(limit)  # at most so many bytes
   13     return line
      ..."""
SOURCE = """\
import { readFile } from "node:fs";

// the whole file
export async function main(path: string): Promise<void> {
  const n = 42;
}
"""
FAILED = "\x1b[31mFAILED\x1b[0m tests/test_parser.py::test_empty - assert 1 == 2\n1 failed in 0.12s"


def picture(width: int = 240, height: int = 60) -> str:
    """A PNG with a gradient, as base64."""
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in (x, 40 + 2 * y, 200)) for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()


def answer(*blocks: dict[str, Any], **more: Any) -> Any:
    usage = {
        "input": 1234,
        "output": 321,
        "cacheRead": 20480,
        "totalTokens": 22035,
        "cost": {"input": 0.0037, "output": 0.0048, "cacheRead": 0.0061, "total": 0.0146},
    }
    wire = {
        "role": "assistant",
        "content": list(blocks),
        "provider": "anthropic",
        "model": "claude-sonnet-4",
        "stopReason": "toolUse" if any(block["type"] == "toolCall" for block in blocks) else "stop",
        "usage": usage,
        **more,
    }
    return message_from_wire(wire)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, name: str, *blocks: dict[str, Any], is_error: bool = False, **more: Any) -> Any:
    wire = {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": list(blocks), "isError": is_error}
    return message_from_wire({**wire, **more})


def fill(log: SessionLog) -> SessionLog:
    """Append all of it."""
    log.set_name("Why does the parser hang?")
    log.append_model_change("anthropic", "claude-sonnet-4")
    log.append_thinking_level_change("high")
    log.append_message(
        message_from_wire({"role": "system", "content": "Be brief.", "sections": {"files": "AGENTS.md: be kind"}})
    )
    first = log.append_message(
        user("The parser hangs on an empty line. Why?\n\n```sh\npython -m parser < empty.txt\n```")
    )
    log.set_label(first, "start")
    thought = {"type": "thinking", "thinking": "Empty lines...\nLook at read_line first."}
    log.append_message(
        answer(
            thought,
            text("Let me look."),
            call("c1", "read", path="src/parser.ts"),
            call("c2", "bash", command="cd src && pytest -q tests | tail -2  # only the end", timeout=30),
        )
    )
    log.append_message(result("c1", "read", text(SOURCE), durationMs=12))
    log.append_message(result("c2", "bash", text(FAILED), is_error=True, durationMs=12500))
    explained = log.append_message(answer(text(ANSWER), durationMs=8200))
    log.append_message(user("Try it."))
    log.append_message(
        answer(
            call("c3", "edit", path="src/parser.py", edits=[{"oldText": "read()", "newText": "read(limit)"}]),
            call("c4", "edit", path="src/other.py", oldText="a = 1\nb = 2", newText="a = 2"),
            call("c5", "write", path="notes/todo.md", content="# To do\n- tests"),
            call("c6", "search", query="empty line", depth={"max": 3, "hidden": False}),
        )
    )
    edited = log.append_message(result("c3", "edit", text("Replaced 1 block."), details={"diff": DIFF}, durationMs=4))
    log.append_message(result("c5", "write", text("Wrote 15 bytes.")))
    image = {"type": "image", "data": picture(), "mimeType": "image/png"}
    nested = {
        "calls": [{"name": "read", "arguments": {"path": "a.py"}}, {"name": "grep", "arguments": {"pattern": "x"}}]
    }
    log.append_message(result("c6", "search", text("Found a picture:"), image, nestedCalls=nested))
    log.append_context_edit(edited, None)
    log.append_message(answer(stopReason="error", errorMessage="overloaded_error: try again later", usage={}))
    log.branch(explained)
    log.append_message(user("Is there a simpler way?"))
    fork = log.append_message(answer(text("Yes: use `splitlines`.")))
    log.append_message(user("Show me."))
    log.append_message(answer(text("```diff\n--- a/p.py\n+++ b/p.py\n@@ -1 +1 @@\n-old\n+new\n```")))
    log.branch(fork)
    log.append_message(user("No, go back."))
    log.branch_with_summary(explained, "Tried **splitlines**; it splits at too many characters.", usage=Usage(output=9))
    log.append_message(
        message_from_wire(
            {"role": "bashExecution", "command": "git diff --stat", "output": " parser.py | 2 +-", "exitCode": 0}
        )
    )
    log.append_usage("cache_warm", "anthropic", "claude-sonnet-4", Usage(input=500, cost=Cost(total=0.0005)))
    kept = log.append_message(message_from_wire({"role": "user", "content": [text("This is how it looks:"), image]}))
    log.append_compaction(
        "## Goal\nMake the parser stop at an empty line.", kept, 45_000, usage=Usage(input=45_000, output=400)
    )
    log.append_custom_message("reminder", "The user prefers short answers.", display=True)
    log.append_message(answer(text("I see a gradient. Done.")))
    return log

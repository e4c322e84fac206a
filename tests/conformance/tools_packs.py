"""Run the recorded packs of the built-in tools: each case in a fresh folder, through the pipeline of a model's call.

`run(folder)` gives (id, first difference or None) for every case of every pack. Cases that record a flaw of the
reference, and those that need a user without special rights when there is none, are passed over.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.tools_values import arguments, as_bytes, difference, told

from antiphon.core.calls import Outcome
from antiphon.core.content import ToolCall
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import Tool
from antiphon.core.wire import to_wire
from antiphon.loop.abort import AbortController
from antiphon.loop.tool_call import run_tool_call
from antiphon.tools.accumulate import Output
from antiphon.tools.image_resize import can_resize
from antiphon.tools.output import Limits, cut_line, format_size, head_units, tail_units, truncate_head, truncate_tail
from antiphon.tools.spill_files import SpillFiles
from antiphon.tools.workspace import LocalWorkspace

Json = Any
MakeTool = Callable[[LocalWorkspace, dict[str, Any]], Tool]

LOOP_WORDING = "Validation failed for tool"
SYSTEM_ERROR = re.compile(r"\b(E[A-Z]{2,}): ")


def run(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Every case of every pack of a folder, as (pack/id, difference)."""
    for path in sorted(folder.glob("*.json")):
        pack = json.loads(path.read_text("utf-8"))
        for case in pack["cases"]:
            if passed_over(case):
                continue
            try:
                found = run_case(pack["group"], case)
            except Exception as error:  # noqa: BLE001 - a crash is a difference, the other cases still count
                found = f"raised {type(error).__name__}: {error}"
            yield f"{path.stem}/{case['id']}", found


def passed_over(case: Json) -> bool:
    """Records a flaw, or needs what this machine has not."""
    needs_resizing = case.get("imageBytes") == "any" and "resized" not in case and _too_wide(case)
    return bool(
        case.get("flaw")
        or (case.get("nonRoot") and hasattr(os, "geteuid") and os.geteuid() == 0)
        or (needs_resizing and not can_resize())
    )


def _too_wide(case: Json) -> bool:
    return "Multiply coordinates" in json.dumps(case.get("expect", {}))


def run_case(group: str, case: Json) -> str | None:
    """The first difference of one case."""
    if group == "truncate":
        return truncation_difference(case)
    if group == "accumulate":
        return accumulation_difference(case)
    return asyncio.run(tool_difference({"tool": group} | case))


def tool_makers() -> dict[str, MakeTool]:
    """How to make each built-in tool with the options of a case."""
    from antiphon.tools.edit import edit_tool
    from antiphon.tools.ls import ls_tool
    from antiphon.tools.read import read_tool
    from antiphon.tools.write import write_tool

    makers: dict[str, MakeTool] = {
        "read": lambda ws, options: read_tool(ws, resize_images=options.get("autoResizeImages", True)),
        "write": lambda ws, options: write_tool(ws),
        # the reference shows no candidates; everything before them is the same
        "edit": lambda ws, options: edit_tool(ws, nearest=False),
        "ls": lambda ws, options: ls_tool(ws),
    }
    try:
        from tests.conformance.tools_packs_commands import makers as commands
    except ModuleNotFoundError:
        return makers
    return makers | commands()


@dataclass
class Ran:
    """What a call left behind."""

    outcome: Outcome
    updates: list[Json]
    before: dict[str, Json]
    after: dict[str, Json]
    spills: SpillFiles
    places: dict[str, str] = field(default_factory=dict)


async def tool_difference(case: Json) -> str | None:
    """Lay out the files, run the tool once, compare."""
    makers = tool_makers()
    if case["tool"] not in makers:
        return f"no tool {case['tool']} here"
    with tempfile.TemporaryDirectory(prefix="antiphon-case-") as scratch:
        root = os.path.realpath(scratch)
        cwd, home, spill = (os.path.join(root, name) for name in ("cwd", "home", "tmp"))
        for folder in (cwd, home, spill):
            os.mkdir(folder)
        lay_files(cwd, case.get("files", {}))
        lay_files(home, case.get("home", {}))
        if "chmod" in case:
            # recorded as another user than the owner, so what counts is what the owner alone may do
            os.chmod(os.path.join(cwd, case["chmod"][0]), int(case["chmod"][1], 8) & 0o077)
        spills = SpillFiles(spill)
        workspace = LocalWorkspace(os.path.join(cwd, case.get("cwd", "")), home=home, spills=spills)
        before = snapshot(cwd, "") | snapshot(home, "${HOME}/")
        outcome, updates = await call(makers[case["tool"]](workspace, case.get("options", {})), case, cwd)
        after = snapshot(cwd, "") | snapshot(home, "${HOME}/")
        if "chmod" in case:  # so that it can be removed
            os.chmod(os.path.join(cwd, case["chmod"][0]), 0o700)
        places = {cwd: "${CWD}", home: "${HOME}"} | dict.fromkeys(spills.paths, "${TMP}/${OUTPUT_FILE}")
        return compare(case, Ran(outcome, updates, before, after, spills, places), cwd)


def lay_files(root: str, files: Json) -> None:
    """Files, folders and links of a case."""
    for name, given in files.items():
        if name == "$recipe":
            _lay_recipe(root, given)
            continue
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(given, dict) and given.get("dir"):
            os.makedirs(path, exist_ok=True)
        elif isinstance(given, dict) and "symlink" in given:
            os.symlink(given["symlink"], path)
        else:
            mode = given.get("mode") if isinstance(given, dict) else None
            content = given["content"] if isinstance(given, dict) and "content" in given else given
            Path(path).write_bytes(as_bytes(content))
            if mode:
                os.chmod(path, int(mode, 8))


def _lay_recipe(root: str, given: Json) -> None:
    for number in range(given.get("from", 0), given.get("from", 0) + given["count"]):
        name = f"{given['prefix']}{number:0{given.get('pad', 0)}d}{given.get('suffix', '')}"
        Path(os.path.join(root, name)).touch()


def snapshot(root: str, prefix: str) -> dict[str, Json]:
    """Every path below a folder and what it is, in the form of `after`."""
    found: dict[str, Json] = {}
    for folder, names, files in os.walk(root):
        below = os.path.relpath(folder, root)
        start = prefix + ("" if below == "." else below + "/")
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[start + name] = f"link:{os.readlink(path)}"
            elif name in names:
                found[f"{start}{name}/"] = "dir"
            else:
                found[start + name] = _content(path)
    return found


def _content(path: str) -> Json:
    try:
        data = Path(path).read_bytes()
    except PermissionError:
        return "(unreadable)"
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


async def call(tool: Tool, case: Json, cwd: str) -> tuple[Outcome, list[Json]]:
    """One call through the loop's pipeline."""
    aborting = AbortController()
    if case.get("aborted"):
        aborting.abort()
    if "abortAfterMs" in case:
        asyncio.get_running_loop().call_later(case["abortAfterMs"] / 1000, aborting.abort)
    request = ToolCall(id="call-1", name=tool.name, arguments=arguments(case["args"], cwd))
    updates: list[Json] = []
    outcome = await run_tool_call(
        request,
        tools=[tool],
        assistant_message=AssistantMessage(content=(request,), stop_reason="toolUse"),
        context=Context(),
        signal=aborting.signal,
        on_update=lambda partial: updates.append(to_wire(partial)),
    )
    return outcome, updates


def compare(case: Json, ran: Ran, cwd: str) -> str | None:
    """The first difference between what is recorded and what happened."""
    expected, result = case["expect"], to_wire(ran.outcome.result)
    actual = placed({"content": result.get("content", []), "details": result.get("details")}, ran.places)
    checks = [
        difference(expected["isError"], ran.outcome.is_error, "isError"),
        content_difference(case, expected, actual["content"]),
        details_difference(case, expected, ran, actual),
        structured_difference(expected, ran),
        files_difference(case, expected, ran, cwd),
        spill_difference(expected, ran),
        updates_difference(expected, ran),
    ]
    return next(filter(None, checks), None)


def placed(value: Json, places: dict[str, str]) -> Json:
    """The value with folders and spilled files under their recorded names."""
    text = json.dumps(value, ensure_ascii=False)
    for path, name in sorted(places.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(json.dumps(path, ensure_ascii=False)[1:-1], name)
    return json.loads(text)


def content_difference(case: Json, expected: Json, actual: Json) -> str | None:
    wanted = expected["content"]
    first = wanted[0].get("text", "") if wanted else ""
    if case.get("toolWording") or case.get("shellWording"):
        return None
    if isinstance(first, str) and first.startswith(LOOP_WORDING):
        return None  # the loop's own words, free
    if expected["isError"] and isinstance(first, str) and (code := SYSTEM_ERROR.search(first)):
        text = actual[0]["text"]
        return None if code[1] in text else told("content", first, text)
    if case.get("countOnly"):
        return _counts_difference(wanted, actual)
    if case.get("unordered") or case.get("collation"):
        return _lines_difference(first, actual[0]["text"])
    if case.get("imageBytes") == "any":
        return _image_content_difference(wanted, actual)
    return difference(wanted, actual, "content")


def _image_content_difference(wanted: Json, actual: Json) -> str | None:
    """The choice between PNG and JPEG is free, so the text may name either."""
    kinds = re.compile(r"image/(png|jpeg)\]")
    said, got = (kinds.sub("image/*]", blocks[0]["text"]) for blocks in (wanted, actual))
    return difference(said, got, "content[0].text") or difference(wanted[1:], actual[1:], "content[1:]")


def _parts(text: str) -> tuple[list[str], str]:
    body, mark, rest = text.rpartition("\n\n[")
    return (sorted(body.split("\n")), "[" + rest) if mark else (sorted(text.split("\n")), "")


def _lines_difference(wanted: str, actual: str) -> str | None:
    return difference(list(_parts(wanted)), list(_parts(actual)), "content[0].text (sorted)")


def _counts_difference(wanted: Json, actual: Json) -> str | None:
    lines, notice = _parts(actual[0]["text"])
    block = wanted[0]
    recorded = block.get("text") if isinstance(block.get("text"), dict) else block
    return difference(recorded.get("$lines"), len(lines), "$lines") or (
        None if recorded.get("$notice", "") in notice or notice in (recorded.get("$notice") or "")
        else told("$notice", recorded.get("$notice"), notice)
    )  # fmt: skip


def details_difference(case: Json, expected: Json, ran: Ran, actual: Json) -> str | None:
    """Ours leave the shown text out, and a raised error of the loop may say more than nothing."""
    wanted, got = json.loads(json.dumps(expected["details"])), actual["details"]
    if isinstance(wanted, dict) and isinstance(wanted.get("truncation"), dict):
        wanted["truncation"].pop("content", None)
    if case.get("countOnly") and isinstance(wanted, dict):
        return None
    if wanted == {} and ran.outcome.is_error and isinstance(got, dict):
        return None
    return difference(wanted, got, "details")


def structured_difference(expected: Json, ran: Ran) -> str | None:
    if "structured" not in expected:
        return None
    wanted = expected["structured"]
    got = placed(to_wire(ran.outcome.result).get("structuredContent"), ran.places)
    if isinstance(got, dict):
        got.pop("wall_time_seconds", None)
        if got.get("type") == "image" and isinstance(wanted, dict):
            got.pop("data", None)
            for one in (got, wanted) if wanted["mimeType"] != got["mimeType"] else ():
                one.update(mimeType="*", note=re.sub(r"image/(png|jpeg)\]", "image/*]", one["note"]))
    return difference(wanted, got, "structured")


def files_difference(case: Json, expected: Json, ran: Ran, cwd: str) -> str | None:
    changed = {
        path: ran.after.get(path)
        for path in ran.before.keys() | ran.after.keys()
        if ran.before.get(path) != ran.after.get(path)
    }
    found = difference(expected.get("after", {}), changed, "after")
    if found is None and "mode" in expected:
        mode = format(stat.S_IMODE(os.stat(os.path.join(cwd, case["mode"])).st_mode), "o")
        found = difference(expected["mode"], mode, "mode")
    return found


def spill_difference(expected: Json, ran: Ran) -> str | None:
    if "outputFile" not in expected:
        return None
    data = Path(ran.spills.paths[0]).read_bytes() if ran.spills.paths else b""
    got = {
        "count": len(ran.spills.paths),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "mode": format(stat.S_IMODE(os.stat(ran.spills.paths[0]).st_mode), "o") if ran.spills.paths else None,
    }
    return difference(expected["outputFile"], got, "outputFile")


def updates_difference(expected: Json, ran: Ran) -> str | None:
    if "updates" not in expected:
        return None
    wanted = expected["updates"]
    if not ran.updates:
        return told("updates", wanted, [])
    return difference(wanted.get("first"), ran.updates[0], "updates.first") or difference(
        wanted.get("last"), ran.updates[-1], "updates.last"
    )


def limits_of(options: Json) -> Limits:
    defaults = Limits()
    return Limits(options.get("maxLines", defaults.max_lines), options.get("maxBytes", defaults.max_bytes))


def truncation_difference(case: Json) -> str | None:
    kind = case["fn"]
    if kind in ("head", "tail"):
        text = as_bytes(case["input"]).decode("utf-8", "surrogatepass")
        cut = (truncate_head if kind == "head" else truncate_tail)(text, limits_of(case["options"]))
        return difference(case["expect"], {"content": cut.content, **cut.details()})
    if kind == "formatSize":
        found = (difference(text, format_size(size), f"formatSize({size})") for size, text in case["items"])
    elif kind == "truncateLine":
        found = (_line_difference(item) for item in case["items"])
    else:
        found = (_slice_difference(item) for item in case["items"])
    return next(filter(None, found), None)


def _line_difference(item: Json) -> str | None:
    text, cut = cut_line(item["input"], item["max"])
    return difference(item["result"], {"text": text, "wasTruncated": cut}, f"truncateLine({item['input']!r})")


def _slice_difference(item: Json) -> str | None:
    got = {"head": head_units(item["input"], item["n"]), "tail": tail_units(item["input"], item["n"])}
    return difference({"head": item["head"], "tail": item["tail"]}, got, f"slices({item['input']!r}, {item['n']})")


def accumulation_difference(case: Json) -> str | None:
    with tempfile.TemporaryDirectory(prefix="antiphon-case-") as folder:
        spills = SpillFiles(folder)
        options = case["options"]
        extra = {"full_max_bytes": options["fullMax"]} if "fullMax" in options else {}
        output = Output(spills, limits_of(options), **extra)
        after: list[Json] = []
        for chunk in case["chunks"]:
            output.feed(as_bytes(chunk))
            after.append(
                {
                    "totalLines": output.total_lines,
                    "totalBytes": output.total_bytes,
                    "truncated": output.truncated,
                    "file": output.spilled,
                }
            )
        output.finish()
        return difference(case["expect"], _accumulated(output, spills, after))


def _accumulated(output: Output, spills: SpillFiles, after: list[Json]) -> Json:
    cut = output.truncation()
    full, shortened = output.full()
    file = None
    if spills.paths:
        data = Path(spills.paths[0]).read_bytes()
        file = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {
        "content": cut.content,
        "truncation": cut.details(),
        "lastLineBytes": output.last_line_bytes,
        "after": after,
        "file": file,
        "full": {"content": full, "truncated": shortened},
    }

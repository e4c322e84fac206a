"""`edit`: replace texts that stand exactly once in a file; all of them or none.

Source: tools specification, 4; pinned by conformance/tools/edit.json. Argument forms besides the list of the schema are
accepted, because models send them: the list as JSON text, a single edit, old and new text at the top level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.wire import JsonObject, decode
from antiphon.tools import paths
from antiphon.tools.define import FunctionTool, ToolContext, tool
from antiphon.tools.edit_details import describe
from antiphon.tools.edit_match import Edit, EditRefused, Original, plan, unify
from antiphon.tools.faults import OperationAborted, PathRefused, ToolFault, fault_code, refuse
from antiphon.tools.port import Commit, Files, Workspace
from antiphon.tools.read_log import ReadLog, digest
from antiphon.tools.workspace import READ_BYTES

DESCRIPTION = (
    "Change parts of a file. Each edit replaces one piece of text, which must stand exactly once in the file, blanks "
    "and line breaks included. All edits look for their text in the file as it was; they must not overlap. Keep old "
    "texts short, yet long enough to be unique. Put several changes of one file into one call."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file: relative to the working folder, or absolute"},
        "edits": {
            "type": "array",
            "description": "The replacements",
            "items": {
                "type": "object",
                "properties": {
                    "oldText": {"type": "string", "description": "The text to replace; must be unique in the file"},
                    "newText": {"type": "string", "description": "What to put in its place"},
                },
                "required": ["oldText", "newText"],
            },
        },
    },
    "required": ["path", "edits"],
}


def edit_tool(
    workspace: Workspace, *, log: ReadLog | None = None, nearest: bool = True, unchanged_since_read: bool = True
) -> FunctionTool[..., Any]:
    """The tool `edit`.

    `nearest`: a refusal because a text is not there shows the places that come nearest. `unchanged_since_read`: a file
    whose content is not what this conversation (`log`) last read or wrote is refused, until it has been read again.
    """

    @tool(
        name="edit",
        label="edit",
        description=DESCRIPTION,
        parameters=SCHEMA,
        prepare=prepare_edit_arguments,
        strict=True,
        workspace=workspace,
    )
    async def edit(path: str, edits: list[JsonObject], *, ctx: ToolContext) -> ToolResult:
        if not edits:
            raise ToolFault("Edit tool input is invalid. edits must contain at least one replacement.")
        wanted = [Edit(_clean(one["oldText"]), _clean(one["newText"])) for one in edits]
        async with workspace.writing(path, ctx.signal) as turn:

            def work(commit: Commit) -> Edited:
                known = log.known(turn.path) if log is not None and unchanged_since_read else None
                edited = edit_file(workspace.files, turn.path, path, wanted, known, commit, nearest=nearest)
                if log is not None:
                    log.note(turn.path, edited.digest)
                return edited

            edited = await turn.change(work)
        return ToolResult(
            content=(Text(text=f"Successfully replaced {len(edits)} block(s) in {path}."),), details=edited.details
        )

    return edit


def prepare_edit_arguments(raw: JsonObject) -> JsonObject:
    """The argument forms of models as the one of the schema. What fits no form is left for the check to refuse."""
    given = dict(raw)
    edits: Any = given.get("edits")
    if isinstance(edits, str):
        try:
            edits = decode(edits)
        except msgspec.DecodeError:
            return given
    if isinstance(edits, dict):
        edits = [edits]
    if isinstance(given.get("oldText"), str) and isinstance(given.get("newText"), str):
        single = {"oldText": given.pop("oldText"), "newText": given.pop("newText")}
        edits = [*edits, single] if isinstance(edits, list) else [single]
    if isinstance(edits, list):
        given["edits"] = edits
    return given


def _clean(text: str) -> str:
    """Without lone surrogates: they stand for bytes of the file that are no UTF-8, and no model can mean those."""
    return paths.to_utf8(text).decode()


class Edited(Struct, frozen=True):
    """A change that was made."""

    digest: bytes
    details: JsonObject


def edit_file(
    files: Files,
    real_path: str,
    shown_path: str,
    edits: Sequence[Edit],
    known: bytes | None,
    commit: Commit,
    *,
    nearest: bool,
) -> Edited:
    """Make the edits. `known`: digest of the content that the model has seen, if the file must still be that.

    Raises:
        ToolFault: anything that keeps the edits from being made; the file is then as it was.
    """
    before = _read(files, real_path, shown_path)
    seen = digest((before,))
    if known is not None and known != seen:
        raise ToolFault(
            f"{shown_path} has changed since it was last read here, so the edit was not made. "
            "Read the file again, then repeat the edit if it still applies."
        )
    original = Original(before)
    try:
        replacements = plan(original, edits, shown_path)
    except EditRefused as refusal:
        raise ToolFault(_refusal_text(refusal, original, nearest)) from refusal
    after = original.replaced(replacements)
    if after == before:
        raise ToolFault(
            f"No changes made to {shown_path}. The replacement produced identical content. This might indicate an "
            "issue with special characters or the text not existing as expected."
        )
    details = describe(original.text, replacements, shown_path)

    def still_the_same() -> bool:
        if digest(_chunks(files, real_path)) != seen:
            raise ToolFault(f"{shown_path} was changed by somebody else during the edit, which was not made.")
        return commit()

    try:
        made = files.replace(real_path, (after,), commit=still_the_same)
    except OSError as error:
        refuse(error, "open", real_path)
    if not made:
        raise OperationAborted
    return Edited(digest((after,)), details)


def _read(files: Files, real_path: str, shown_path: str) -> bytes:
    try:
        files.check_access(real_path, write=True)
        if files.stat(real_path).kind not in ("file", "folder"):
            raise ToolFault(f"Could not edit file: {shown_path}. It is a pipe or a device.")
        return b"".join(_chunks(files, real_path))
    except OSError as error:
        reason = f" ({error.reason})" if isinstance(error, PathRefused) else ""
        raise ToolFault(f"Could not edit file: {shown_path}. Error code: {fault_code(error)}{reason}.") from error


def _chunks(files: Files, path: str) -> Iterator[bytes]:
    with files.open(path) as reader:
        while chunk := reader.read(READ_BYTES):
            yield chunk


def _refusal_text(refusal: EditRefused, original: Original, nearest: bool) -> str:
    if refusal.missing is None or not nearest:
        return str(refusal)
    from antiphon.tools.edit_nearest import explain_missing  # with difflib, for a text that is not there

    return f"{refusal}\n\n{explain_missing(original.text, unify(refusal.missing.old))}"

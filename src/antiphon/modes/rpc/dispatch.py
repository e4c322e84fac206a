"""Commands carried out in the order in which they came, each up to the point where it is accepted.

`prompt`, `steer`, `follow_up`: the session is reserved, or the message is in its queue. Another session: it is there.
Model and level: they hold. What takes long (runs, commands of the user, compactions, waiting for an abort to settle)
goes on beside, and its answer comes when it is over. So a second prompt meets a run in progress, a prompt behind
`new_session` belongs to the new one, and an abort behind a prompt aborts it. Source: modes specification 8.10.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast, final

from msgspec import UNSET

from antiphon.core.content import text_of
from antiphon.core.wire import JsonObject, to_wire
from antiphon.errors import AntiphonError, ConfigurationError
from antiphon.modes.rpc import protocol as p
from antiphon.modes.rpc.dialogs import Dialogs
from antiphon.session.agent_session import AgentSession
from antiphon.session.runtime import AgentSessionRuntime, Replacement
from antiphon.session_log.entries import MessageEntry, entry_to_wire
from antiphon.session_log.refusals import NoSuchEntry
from antiphon.session_log.tree import TreeNode

Tell = Callable[[bytes], None]


class Desk(Protocol):
    """What a program may ask that the session does not know."""

    def commands(self) -> list[JsonObject]:
        """Names that a prompt may begin with, with where they come from."""
        ...

    def export(self, path: str | None) -> str:
        """Write the session as a page; the absolute path.

        Raises:
            AntiphonError: there is nothing to write, or it cannot be written.
        """
        ...


@final
class Dispatcher:
    """Carries out commands. `tell` takes the line of an answer."""

    def __init__(self, runtime: AgentSessionRuntime, desk: Desk, dialogs: Dialogs, tell: Tell) -> None:
        self._runtime = runtime
        self._desk = desk
        self._dialogs = dialogs
        self._tell = tell
        self._beside: set[asyncio.Task[None]] = set()

    @property
    def session(self) -> AgentSession:
        return self._runtime.session

    async def perform(self, asked: p.Asked) -> None:
        """Carry out a command up to its acceptance."""
        command = asked.command
        kind = type(command)
        if kind in (p.Prompt, p.Steer, p.FollowUp):
            self._say(asked)
        elif kind is p.Abort:
            self._abort(asked)
        elif kind is p.Bash:
            self._begin(asked, self._shell(asked.id))
            await asyncio.sleep(0)
        elif kind in _LONG:
            self._begin(asked, _LONG[kind])
            await asyncio.sleep(0)  # its first step comes before the next command
        else:
            await self._answer(asked, _QUICK[kind])

    def refuse(self, refused: p.Refused) -> None:
        """Answer a line that is no command."""
        self._tell(p.failure(refused, refused.error))

    async def finish(self, seconds: float) -> None:
        """Wait for what goes on beside; what takes longer is given up."""
        if self._beside:
            _, left = await asyncio.wait(self._beside, timeout=seconds)
            for task in left:
                task.cancel()

    # -- saying something

    def _say(self, asked: p.Asked) -> None:
        command: p.Prompt | p.Steer | p.FollowUp = asked.command
        behaviour: p.Behaviour | None = "steer" if isinstance(command, p.Steer) else "followUp"
        if isinstance(command, p.Prompt):
            behaviour = None if command.streaming_behavior is UNSET else command.streaming_behavior
        submission = self.session.submit(
            command.message,
            p.images_of(command),
            streaming_behavior=behaviour,
            when_idle="start" if isinstance(command, p.Prompt) else "queue",
            source="rpc",
            commands=isinstance(command, p.Prompt),
        )
        submission.on_accepted(lambda accepted: self._accepted(asked, accepted))

    def _accepted(self, asked: p.Asked, accepted: str | BaseException) -> None:
        if isinstance(accepted, BaseException):
            self._tell(p.failure(asked, reason_of(accepted)))
        else:
            self._tell(p.success(asked, {"disposition": accepted}))

    def _abort(self, asked: p.Asked) -> None:
        """The wish is heard at once; the answer comes when everything has settled."""
        cleared = self.session.clear_queue() if asked.command.queue == "clear" else None
        self.session.request_abort("aborted by the client")

        async def settled(dispatcher: Dispatcher, _command: Any) -> Any:
            await dispatcher.session.abort("aborted by the client")
            return UNSET if cleared is None else _queues(cleared)

        self._begin(asked, settled)

    def _shell(self, id_: Any) -> Handler:
        """A command of the user; its output carries the id of the command that asked for it."""

        async def work(dispatcher: Dispatcher, command: p.Bash) -> Any:
            result = await dispatcher.session.execute_bash(
                command.command, exclude_from_context=command.exclude_from_context, id=id_
            )
            return to_wire(result)

        return work

    # -- answering

    def _begin(self, asked: p.Asked, work: Handler) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(asked, work), name=f"rpc {asked.name}")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _answer(self, asked: p.Asked, work: Handler) -> None:
        try:
            data = work(self, asked.command)
            data = await data if inspect.isawaitable(data) else data
        except asyncio.CancelledError:
            self._tell(p.failure(asked, "the program is ending"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            self._tell(p.failure(asked, reason_of(error)))
        else:
            self._tell(p.success(asked, data))

    @property
    def runtime(self) -> AgentSessionRuntime:
        return self._runtime

    @property
    def desk(self) -> Desk:
        return self._desk


Handler = Callable[[Dispatcher, Any], "Any | Awaitable[Any]"]


def reason_of(error: BaseException) -> str:
    """What a client is told of an error: our own words, or that it is a fault of ours."""
    if isinstance(error, AntiphonError | OSError):
        return str(error)
    return f"internal error: {type(error).__name__}: {error}"


# ---- what each command does -----------------------------------------------------------------------------------------


def _queues(cleared: Any) -> JsonObject:
    return {"steering": list(cleared.steering), "followUp": list(cleared.follow_up)}


def _state(d: Dispatcher, _c: p.GetState) -> JsonObject:
    session = d.session
    found: JsonObject = {
        "model": None if session.model is None else to_wire(session.model),
        "thinkingLevel": session.thinking_level,
        "isStreaming": session.is_streaming,
        "isCompacting": session.is_compacting,
        "steeringMode": session.steering_mode,
        "followUpMode": session.follow_up_mode,
        "sessionFile": session.session_file,
        "sessionId": session.session_id,
        "sessionName": session.session_name,
        "autoCompactionEnabled": session.auto_compaction_enabled,
        "messageCount": len(session.messages),
        "pendingMessageCount": session.pending_message_count,
    }
    return {name: value for name, value in found.items() if value is not None}


def _set_model(d: Dispatcher, c: p.SetModel) -> Any:
    available = d.session.get_available_models()
    model = next((m for m in available if (m.provider, m.id) == (c.provider, c.model_id)), None)
    if model is None:
        raise ConfigurationError(f"Model not found: {c.provider}/{c.model_id}")
    d.session.set_model(model, persist=c.persist)
    return to_wire(model)


def _cycle_model(d: Dispatcher, c: p.CycleModel) -> Any:
    found = d.session.cycle_model(c.direction)
    if found is None:
        return None
    return {"model": to_wire(found.model), "thinkingLevel": found.thinking_level, "isScoped": found.is_scoped}


def _cycle_level(d: Dispatcher, _c: p.CycleThinkingLevel) -> Any:
    level = d.session.cycle_thinking_level()
    return None if level is None else {"level": level}


def _nothing(work: Callable[[Dispatcher, Any], Any]) -> Handler:
    """The same work, answered without data."""

    async def handler(d: Dispatcher, command: Any) -> Any:
        done = work(d, command)
        if inspect.isawaitable(done):
            await done
        return UNSET

    return handler


def _entries(d: Dispatcher, c: p.GetEntries) -> JsonObject:
    log = d.session.log
    if c.since is not UNSET and not log.has(c.since):
        raise EntryNotFound(c.since)
    entries = [entry_to_wire(entry) for entry in log.entries()]
    if c.since is not UNSET:
        at = next(number for number, entry in enumerate(entries) if entry.get("id") == c.since)
        entries = entries[at + 1 :]
    return {"entries": entries, "leafId": log.leaf_id}


class EntryNotFound(NoSuchEntry):
    """The words of the reference for it."""

    def __str__(self) -> str:
        return f"Entry not found: {self.entry_id}"

    def __init__(self, entry_id: str) -> None:
        super().__init__(entry_id)
        self.entry_id = entry_id


def _tree(d: Dispatcher, _c: p.GetTree) -> JsonObject:
    """The tree as nested records; made without recursion, for a conversation is a deep tree."""
    log = d.session.log
    roots = log.tree()
    made: dict[int, JsonObject] = {}
    waiting = list(roots)
    order: list[TreeNode] = []
    while waiting:
        node = waiting.pop()
        if id(node) not in made:
            made[id(node)] = _node(log.entry(node.id), node)
            order.append(node)
            waiting += node.children
    for node in order:
        made[id(node)]["children"] = [made[id(child)] for child in node.children]
    return {"tree": [made[id(root)] for root in roots], "leafId": log.leaf_id}


def _node(entry: Any, node: TreeNode) -> JsonObject:
    found: JsonObject = {"entry": entry_to_wire(entry), "children": []}
    if node.label is not None:
        found["label"] = node.label
        if node.label_time is not None:
            found["labelTimestamp"] = node.label_time
    return found


async def _navigate(d: Dispatcher, c: p.NavigateTree) -> JsonObject:
    found = await d.session.navigate_tree(
        c.target_id,
        summarize=c.summarize,
        custom_instructions=_or_none(c.custom_instructions),
        replace_instructions=c.replace_instructions,
        label=_or_none(c.label),
    )
    out: JsonObject = {"cancelled": found.cancelled}
    if found.editor_text is not None:
        out["editorText"] = found.editor_text
    if found.summary_entry is not None:
        out["summaryEntry"] = entry_to_wire(found.summary_entry)
    return out


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value


async def _replaced(d: Dispatcher, replacing: Awaitable[Replacement]) -> JsonObject:
    """Another session is the current one. What was queued in the old one goes with it, and is handed back."""
    old = d.session
    steering, follow_up = old.get_steering_messages(), old.get_follow_up_messages()
    done = await replacing
    out: JsonObject = {"cancelled": done.cancelled}
    if done.text is not None and not done.cancelled:
        out["text"] = done.text
    if d.session is not old and (steering or follow_up):
        out["dropped"] = {"steering": list(steering), "followUp": list(follow_up)}
    return out


def _fork_messages(d: Dispatcher, c: p.GetForkMessages) -> JsonObject:
    """Messages of the user on the active branch, or on every one."""
    if c.all:
        said = (e for e in d.session.log.entries() if isinstance(e, MessageEntry) and e.message.role == "user")
        return {"messages": [{"entryId": e.id, "text": text_of(cast("Any", e.message).content)} for e in said]}
    points = d.session.get_user_messages_for_forking()
    return {"messages": [{"entryId": point.entry_id, "text": point.text} for point in points]}


def _approvals(d: Dispatcher, _c: p.GetApprovals) -> JsonObject:
    return {"approvals": [to_wire(found) for found in d.session.pending_approvals]}


def _answer_approval(d: Dispatcher, c: p.AnswerApproval) -> Any:
    return d.session.answer_approval(c.approval_id, c.approved, args=_or_none(c.args), reason=_or_none(c.reason))


async def _compact(d: Dispatcher, c: p.Compact) -> Any:
    return to_wire(await d.session.compact(_or_none(c.custom_instructions)))


_QUICK: Mapping[type, Handler] = {
    p.ClearQueue: lambda d, c: _queues(d.session.clear_queue()),
    p.NewSession: lambda d, c: _replaced(d, d.runtime.new_session(parent=_or_none(c.parent_session))),
    p.GetState: _state,
    p.GetMessages: lambda d, c: {"messages": [to_wire(message) for message in d.session.messages]},
    p.SetModel: _set_model,
    p.CycleModel: _cycle_model,
    p.GetAvailableModels: lambda d, c: {"models": [to_wire(model) for model in d.session.get_available_models()]},
    p.SetThinkingLevel: _nothing(lambda d, c: d.session.set_thinking_level(c.level, persist=c.persist)),
    p.CycleThinkingLevel: _cycle_level,
    p.GetAvailableThinkingLevels: lambda d, c: {"levels": list(d.session.get_available_thinking_levels())},
    p.SetSteeringMode: _nothing(lambda d, c: d.session.set_steering_mode(c.mode, persist=c.persist)),
    p.SetFollowUpMode: _nothing(lambda d, c: d.session.set_follow_up_mode(c.mode, persist=c.persist)),
    p.SetAutoCompaction: _nothing(lambda d, c: d.session.set_auto_compaction_enabled(c.enabled, persist=c.persist)),
    p.SetAutoRetry: _nothing(lambda d, c: d.session.set_auto_retry_enabled(c.enabled, persist=c.persist)),
    p.AbortRetry: _nothing(lambda d, c: d.session.abort_retry()),
    p.AbortCompaction: _nothing(lambda d, c: d.session.abort_compaction()),
    p.AbortBranchSummary: _nothing(lambda d, c: d.session.abort_branch_summary()),
    p.AbortBash: _nothing(lambda d, c: d.session.abort_bash()),
    p.GetSessionStats: lambda d, c: to_wire(d.session.get_session_stats()),
    p.ExportHtml: lambda d, c: {"path": d.desk.export(_or_none(c.output_path))},
    p.SwitchSession: lambda d, c: _replaced(d, d.runtime.switch_session(c.session_path)),
    p.Fork: lambda d, c: _replaced(d, d.runtime.fork(c.entry_id)),
    p.Clone: lambda d, c: _replaced(d, d.runtime.clone()),
    p.GetForkMessages: _fork_messages,
    p.GetEntries: _entries,
    p.GetTree: _tree,
    p.GetLastAssistantText: lambda d, c: {"text": d.session.get_last_assistant_text()},
    p.SetSessionName: _nothing(lambda d, c: d.session.set_session_name(c.name)),
    p.GetCommands: lambda d, c: {"commands": d.desk.commands()},
    p.GetApprovals: _approvals,
    p.AnswerApproval: _nothing(_answer_approval),
}
_LONG: Mapping[type, Handler] = {
    p.Compact: _compact,
    p.NavigateTree: _navigate,
}

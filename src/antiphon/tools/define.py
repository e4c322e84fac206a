"""`@tool`: a typed function is the whole definition of a tool.

Name, description, argument schema and argument conversion are worked out once, at decoration. A call then costs about
a microsecond above the function. Arguments arrive checked against the schema: the loop does that for every tool.

A sync function becomes a plain `execute`, which the loop runs in a thread of its own; an async one becomes a coroutine
function and runs in the event loop. `inspect.iscoroutinefunction(tool.execute)` is how the loop tells them apart.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast, final, get_args, overload

from msgspec import Struct

from antiphon.core.calls import ToolResult
from antiphon.core.ports import AbortSignal, ExecutionMode, OnUpdate, ReplayPolicy
from antiphon.core.wire import JsonObject
from antiphon.errors import MisuseError, WrongArgument

if TYPE_CHECKING:
    from antiphon.tools.port import Workspace
    from antiphon.tools.signature import Signature

P = ParamSpec("P")
R = TypeVar("R")

Execute = Callable[[str, JsonObject, AbortSignal, OnUpdate], Any]
Prepare = Callable[[JsonObject], JsonObject]


class ToolContext:
    """What a tool is given besides its arguments, in a keyword argument of this type."""

    __slots__ = ("_update", "_workspace", "call_id", "signal")

    def __init__(self, call_id: str, signal: AbortSignal, update: OnUpdate, workspace: Workspace | None = None) -> None:
        self.call_id = call_id
        self.signal = signal
        self._update = update
        self._workspace = workspace

    def update(self, progress: ToolResult | str) -> None:
        """Show a partial result. May be called from any thread; after the call has ended it does nothing."""
        self._update(progress)

    @property
    def workspace(self) -> Workspace:
        """The files and processes that the tool may touch.

        Raises:
            MisuseError: the tool was not bound to a workspace.
        """
        if self._workspace is None:
            raise MisuseError("this tool has no workspace; bind it with tool.using(workspace)")
        return self._workspace


@final
class Traits(Struct, frozen=True, kw_only=True):
    """How a tool wants to be run. `timeout` and `abort_grace` in seconds."""

    label: str | None = None
    execution_mode: ExecutionMode = "parallel"
    replay: ReplayPolicy = "never"
    timeout: float | None = None
    abort_grace: float | None = None
    prepare_arguments: Prepare | None = None
    constrained_sampling: Literal[False] | JsonObject | None = None

    def __post_init__(self) -> None:
        _must_fit(self.execution_mode in get_args(ExecutionMode), "execution", self.execution_mode, ExecutionMode)
        _must_fit(self.replay in get_args(ReplayPolicy), "replay", self.replay, ReplayPolicy)
        _must_fit(_is_seconds(self.timeout) and self.timeout != 0, "timeout", self.timeout, "seconds above 0, or None")
        _must_fit(_is_seconds(self.abort_grace), "abort_grace", self.abort_grace, "seconds, 0 or more, or None")
        prepare = self.prepare_arguments
        _must_fit(prepare is None or callable(prepare), "prepare", prepare, "a function of the raw arguments, or None")


def _is_seconds(given: Any) -> bool:
    """Nothing, or a number from 0 on (which NaN is not)."""
    return given is None or (isinstance(given, int | float) and not isinstance(given, bool) and given >= 0)


def _must_fit(fits: bool, name: str, given: object, wanted: Any) -> None:
    if not fits:
        choices = wanted if isinstance(wanted, str) else f"one of {', '.join(get_args(wanted))}"
        raise WrongArgument(f"@tool({name}=...) cannot be {given!r}; give {choices}")


class FunctionTool(Generic[P, R]):
    """A tool made of a function; satisfies `core.ports.Tool`. Calling it calls the function itself."""

    def __init__(
        self,
        function: Callable[P, R],
        signature: Signature,
        *,
        name: str,
        description: str,
        parameters: JsonObject,
        output_schema: JsonObject | None,
        traits: Traits,
        workspace: Workspace | None,
    ) -> None:
        self.function = function
        self.name = name
        self.description = description
        self.parameters = parameters
        self.output_schema = output_schema
        self.label = traits.label if traits.label is not None else name
        self.execution_mode: ExecutionMode = traits.execution_mode
        self.replay: ReplayPolicy = traits.replay
        self.timeout = traits.timeout
        self.abort_grace = traits.abort_grace
        self.prepare_arguments = traits.prepare_arguments
        self.constrained_sampling = traits.constrained_sampling
        self.workspace = workspace
        self.execute: Execute = _execute(function, signature, workspace)
        self._signature = signature
        self._traits = traits
        self.__doc__ = description

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def using(self, workspace: Workspace) -> FunctionTool[P, R]:
        """The same tool with this workspace in its context."""
        return FunctionTool(
            self.function,
            self._signature,
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            output_schema=self.output_schema,
            traits=self._traits,
            workspace=workspace,
        )

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    parameters: JsonObject | None = None,
    names: Mapping[str, str] | None = None,
    execution: ExecutionMode = "parallel",
    replay: ReplayPolicy = "never",
    timeout: float | None = None,
    abort_grace: float | None = None,
    prepare: Prepare | None = None,
    output_schema: JsonObject | None = None,
    workspace: Workspace | None = None,
    strict: bool | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    parameters: JsonObject | None = None,
    names: Mapping[str, str] | None = None,
    execution: ExecutionMode = "parallel",
    replay: ReplayPolicy = "never",
    timeout: float | None = None,
    abort_grace: float | None = None,
    prepare: Prepare | None = None,
    output_schema: JsonObject | None = None,
    workspace: Workspace | None = None,
    strict: bool | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function, as `@tool` or `@tool(...)`.

    The function returns a text, blocks, a `ToolResult`, or any value with a JSON form (which goes to programs as
    structured content and to the model as JSON text). It raises to report failure. A keyword argument of type
    `ToolContext` is filled in and hidden from the model.

    Args:
        name: the name for the model; by default that of the function.
        description: by default the docstring without its sections.
        parameters: a JSON schema instead of the one from the signature; arguments are then passed as they are.
        names: wire names of parameters, where they differ (`{"ignore_case": "ignoreCase"}`).
        execution: `sequential` makes every batch with this tool run call by call.
        replay: whether a call that a crash interrupted may be made again: `never`, `safe`, or `ask`.
        timeout: seconds for one call; then its signal is aborted.
        abort_grace: seconds that an aborted call has to end.
        prepare: brings raw arguments of a model into the shape that the schema asks for.
        strict: ask providers to sample only arguments that fit (true), or never to (false).

    Raises:
        TypeError: the function cannot be a tool; the text says why.
    """
    known = dict(sys._getframe(1).f_locals)  # types that are defined beside the function
    sampling: Literal[False] | JsonObject | None = None
    if strict is not None:
        sampling = {"type": "json_schema", "strict": "prefer"} if strict else False
    traits = Traits(
        label=label,
        execution_mode=execution,
        replay=replay,
        timeout=timeout,
        abort_grace=abort_grace,
        prepare_arguments=prepare,
        constrained_sampling=sampling,
    )

    def define(given: Callable[P, R]) -> FunctionTool[P, R]:
        signature = _signature(given, parameters, names or {}, known)
        called = name or getattr(given, "__name__", None) or type(given).__name__
        return FunctionTool(
            given,
            signature,
            name=called,
            description=description if description is not None else signature.description,
            parameters=signature.schema,
            output_schema=output_schema if output_schema is not None else signature.output_schema,
            traits=traits,
            workspace=workspace,
        )

    return define(function) if function is not None else define


def _signature(
    function: Callable[..., Any], schema: JsonObject | None, names: Mapping[str, str], known: Mapping[str, Any]
) -> Signature:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function.__qualname__} yields; a tool returns its result and reports progress by ctx.update")
    from antiphon.tools.signature import read_signature  # loaded with the first tool

    if schema is not None:
        return _raw_signature(function, schema, names)
    key = None if names else _key(function)
    if key is None:
        return read_signature(function, ToolContext, names, known)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= KNOWN_SIGNATURES:
            _KNOWN.clear()
        found = _KNOWN[key] = read_signature(function, ToolContext, names, known)
    return found


KNOWN_SIGNATURES = 1024
"""How many signatures are remembered: a program that makes the same tool for each of its agents reads it once."""

_KNOWN: dict[Any, Signature] = {}
_SAME_EVERYWHERE = frozenset({"str", "int", "float", "bool", "None", "list[str]", "dict[str, str]"})


def _key(function: Callable[..., Any]) -> Any:
    """What decides how a function reads, if that can be said without reading it; else nothing."""
    code = getattr(function, "__code__", None)
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    if code is None or any(isinstance(a, str) and a not in _SAME_EVERYWHERE for a in annotations.values()):
        return None
    defaults = (function.__defaults__, tuple((function.__kwdefaults__ or {}).items()))
    kinds = tuple(map(type, (*(defaults[0] or ()), *(value for _, value in defaults[1]))))  # 1 equals True
    key = (code, function.__doc__, tuple(annotations.items()), defaults, kinds, inspect.unwrap(function) is function)
    try:
        hash(key)
    except TypeError:
        return None
    return key if key[-1] else None


def _raw_signature(function: Callable[..., Any], schema: JsonObject, names: Mapping[str, str]) -> Signature:
    """A schema was given: types in the signature say nothing, only the names count."""
    from antiphon.tools.docstring import split_docstring
    from antiphon.tools.signature import Parameter, Signature

    found: list[Parameter] = []
    context: str | None = None
    takes_rest = False
    required = schema.get("required", ())
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_rest = True
        elif parameter.annotation in (ToolContext, "ToolContext") or parameter.name == "ctx":
            context = parameter.name
        else:
            wire = names.get(parameter.name, parameter.name)
            found.append(Parameter(parameter.name, wire, {}, wire in required, None))
    return Signature(
        parameters=tuple(found),
        context=context,
        takes_rest=takes_rest,
        schema=schema,
        description=split_docstring(inspect.getdoc(function) or "")[0],
        output_schema=None,
    )


def _execute(function: Callable[..., Any], signature: Signature, workspace: Workspace | None) -> Execute:
    """The four forms of `execute`, each with nothing in it that is not needed."""
    from antiphon.tools.results import tool_return

    fill = _filler(signature)
    context = signature.context
    call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        work = cast("Callable[..., Coroutine[Any, Any, Any]]", function)
        return _async_execute(work, fill, context, workspace, tool_return)
    return _sync_execute(function, fill, context, workspace, tool_return)


def _async_execute(
    function: Callable[..., Coroutine[Any, Any, Any]],
    fill: Callable[[JsonObject], JsonObject],
    context: str | None,
    workspace: Workspace | None,
    tool_return: Callable[[Any], Any],
) -> Execute:
    if context is None:

        async def execute(call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> Any:
            result = await function(**fill(args))
            return result if type(result) is str else tool_return(result)

        return execute

    async def execute_with_context(call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> Any:
        given = fill(args)
        given = {**given, context: ToolContext(call_id, signal, on_update, workspace)}
        result = await function(**given)
        return result if type(result) is str else tool_return(result)

    return execute_with_context


def _sync_execute(
    function: Callable[..., Any],
    fill: Callable[[JsonObject], JsonObject],
    context: str | None,
    workspace: Workspace | None,
    tool_return: Callable[[Any], Any],
) -> Execute:
    if context is None:

        def execute(call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> Any:
            return tool_return(function(**fill(args)))

        return execute

    def execute_with_context(call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> Any:
        given = {**fill(args), context: ToolContext(call_id, signal, on_update, workspace)}
        return tool_return(function(**given))

    return execute_with_context


def _filler(signature: Signature) -> Callable[[JsonObject], JsonObject]:
    """From checked arguments to keyword arguments. Arguments that the function does not know are dropped."""
    known = frozenset(parameter.wire for parameter in signature.parameters)
    plain = all(one.convert is None and one.name == one.wire for one in signature.parameters)
    if plain and signature.takes_rest:
        return lambda args: args
    if plain:
        return lambda args: args if known.issuperset(args) else {key: args[key] for key in args if key in known}
    table = {one.wire: (one.name, one.convert) for one in signature.parameters}

    def fill(args: JsonObject) -> JsonObject:
        given: JsonObject = {}
        for key, value in args.items():
            found = table.get(key)
            if found is not None:
                name, convert = found
                given[name] = value if convert is None else convert(value)
            elif signature.takes_rest:
                given[key] = value
        return given

    return fill

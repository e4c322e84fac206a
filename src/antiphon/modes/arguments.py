"""The command line as a plan of what to do. Pure: nothing is opened, nothing is decided that needs the machine.

Errors are collected, so that a person sees all of them. Options of extensions are known only after these are loaded, so
a line is read twice: the first time unknown long options are noted, the second time with the extensions' own
(`flags`). Only a flag that takes a text consumes a word; a word that is not consumed is a message.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

from antiphon.modes.options import BY_NAME, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, TypeAlias

    FlagKind: TypeAlias = Literal["boolean", "string"]


class Plan(Struct):
    """What the command line asks for. `messages` are prompts in order, `files` the paths of `@file` arguments.

    `unknown`: long options that may belong to extensions; `flags`: values of those that do. `approve` None: nobody
    said. `errors` and `warnings`: one line each.
    """

    print: bool = False
    mode: str = "text"
    json_outcome: bool = False
    keep_going: bool = False
    model: str | None = None
    provider: str | None = None
    models: str | None = None
    thinking: str | None = None
    api_key: str | None = None
    list_models: str | None = None
    continue_: bool = False
    resume: bool = False
    session: str | None = None
    session_id: str | None = None
    fork: str | None = None
    session_dir: str | None = None
    no_session: bool = False
    name: str | None = None
    export: str | None = None
    tools: str | None = None
    exclude_tools: str | None = None
    no_builtin_tools: bool = False
    no_tools: bool = False
    sandbox: str = "off"
    system_prompt: str | None = None
    append_system_prompt: list[str] = field(default_factory=list[str])
    no_context_files: bool = False
    skill: list[str] = field(default_factory=list[str])
    no_skills: bool = False
    prompt_template: list[str] = field(default_factory=list[str])
    no_prompt_templates: bool = False
    extension: list[str] = field(default_factory=list[str])
    no_extensions: bool = False
    no_mcp: bool = False
    approve: bool | None = None
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    no_progress: int | None = None
    offline: bool = False
    verbose: bool = False
    help: bool = False
    version: bool = False
    messages: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    flags: dict[str, str | bool] = field(default_factory=dict[str, "str | bool"])
    unknown: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def __repr__(self) -> str:
        """Without the key."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "api_key")
        return f"Plan({', '.join(shown)})"


def parse(arguments: Sequence[str], flags: Mapping[str, FlagKind] | None = None) -> Plan:
    """The plan of a command line. What is wrong with it stands in `errors`, one line each."""
    plan = Plan()
    words = _Words(arguments)
    while (word := words.take()) is not None:
        if word == "--":
            plan.messages += words.rest()
        elif word.startswith("-") and word != "-" and not word.startswith("---"):
            _option(plan, word, words, flags or {})
        elif word.startswith("@") and len(word) > 1:
            plan.files.append(word[1:])
        else:
            plan.messages.append(word)
    _check(plan)
    return plan


class _Words:
    """The words of the line, one after the other."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._at = 0

    def take(self) -> str | None:
        if self._at >= len(self._words):
            return None
        self._at += 1
        return self._words[self._at - 1]

    def peek(self) -> str | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def rest(self) -> list[str]:
        rest = list(self._words[self._at :])
        self._at = len(self._words)
        return rest


def _option(plan: Plan, word: str, words: _Words, flags: Mapping[str, FlagKind]) -> None:
    name, equals, attached = word.partition("=") if word.startswith("--") else (word, "", "")
    option = BY_NAME.get(name)
    if option is None:
        _flag(plan, name, attached if equals else None, words, flags)
    elif option.takes == "nothing":
        if equals:
            plan.errors.append(f"{name} takes no value")
        _switch(plan, option)
    elif option.takes == "maybe":
        _maybe(plan, option, attached if equals else None, words)
    elif equals:
        _value(plan, option, attached)
    elif (following := words.peek()) is not None and _is_value(following):
        words.take()
        _value(plan, option, following)
    else:
        plan.errors.append(f"{name} needs a value: {name} {option.value}")


def _is_value(word: str) -> bool:
    """May this word be the value of the option before it?"""
    return not word.startswith("-") or word == "-" or word.startswith("---") or " " in word or _is_tool_edit(word)


def _is_tool_edit(word: str) -> bool:
    """`-bash`, `-bash,+grep`: a list of tools that only takes away begins with a hyphen too."""
    return "," in word or (word.startswith("-") and not word.startswith("--") and word not in BY_NAME and len(word) > 3)


def unknown_option(name: str) -> str:
    """What to say of an option that nobody knows."""
    from difflib import get_close_matches

    near = get_close_matches(name, BY_NAME, n=1, cutoff=0.75)
    return f"unknown option {name}; " + (f"did you mean {near[0]}?" if near else "--help lists all")


def _flag(plan: Plan, name: str, attached: str | None, words: _Words, flags: Mapping[str, FlagKind]) -> None:
    """An option that is not ours: of an extension, or a mistake."""
    if not name.startswith("--"):
        plan.errors.append(unknown_option(name))
        return
    kind = flags.get(name[2:])
    if kind is None:
        plan.unknown.append(name)
    elif kind == "boolean":
        if attached is not None and attached not in ("true", "false"):
            plan.errors.append(f"{name} takes no value")
        plan.flags[name[2:]] = attached != "false"
    else:
        following = words.peek()
        if attached is None and following is not None and _is_value(following):
            attached = words.take()
        if attached is None:
            plan.errors.append(f"{name} needs a value")
        else:
            plan.flags[name[2:]] = attached


def _switch(plan: Plan, option: Option) -> None:
    if option.field in ("approve", "no_approve"):
        plan.approve = option.field == "approve"
    else:
        setattr(plan, option.field, True)


def _maybe(plan: Plan, option: Option, attached: str | None, words: _Words) -> None:
    """An option whose next word belongs to it unless that is an option or a file."""
    following = words.peek()
    if attached is None and following is not None and (following[:1] not in ("-", "@") or following.startswith("---")):
        attached = words.take()
    if option.field == "print":
        plan.print = True
        if attached is not None:
            plan.messages.append(attached)
    else:
        setattr(plan, option.field, attached or "")


def _value(plan: Plan, option: Option, text: str) -> None:
    if option.choices and text not in option.choices:
        plan.errors.append(f"{option.name} {text!r}: choose one of {', '.join(option.choices)}")
    elif option.takes == "count":
        if text.isascii() and text.isdigit() and 0 < len(text) < 16 and int(text) > 0:
            setattr(plan, option.field, int(text))
        else:
            plan.errors.append(f"{option.name} {text!r}: give a whole number above 0")
    elif option.takes == "number":
        number = _number(text)
        if number is None:
            plan.errors.append(f"{option.name} {text!r}: give a number above 0")
        else:
            setattr(plan, option.field, number)
    elif option.many:
        getattr(plan, option.field).append(text)
    else:
        setattr(plan, option.field, text)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def _check(plan: Plan) -> None:
    """What no single option can say."""
    add = plan.errors.append
    if plan.provider is not None and plan.model is None and plan.list_models is None:
        add("--provider needs --model")
    chosen = [name for name, given in _sessions(plan) if given]
    if len(chosen) > 1:
        add(f"{' and '.join(chosen)} each choose a session; give one of them")
    if plan.no_session and [name for name in chosen if name != "--session-id"]:
        add(f"--no-session does not go with {chosen[0]}")
    if plan.session_id is not None and not is_session_id(plan.session_id):
        add(
            f"--session-id {plan.session_id!r}: use letters, digits, dot, hyphen and underscore, "
            "with a letter or digit at both ends"
        )
    if plan.name is not None and not plan.name.strip():
        add("--name must not be blank")
    if plan.tools is not None:
        _check_tools(plan, plan.tools)
    if plan.mode == "rpc" and plan.files:
        add("@file does not go with --mode rpc; send the file in a prompt")
    if plan.mode == "rpc" and plan.messages:
        add("a message does not go with --mode rpc; send it as a prompt command")
    if plan.json_outcome and plan.mode != "json":
        add("--json-outcome needs --mode json")


def _sessions(plan: Plan) -> list[tuple[str, bool]]:
    """Options that choose a session. With `--fork`, `--session-id` only names the copy."""
    return [
        ("--continue", plan.continue_),
        ("--resume", plan.resume),
        ("--session", plan.session is not None),
        ("--fork", plan.fork is not None),
        ("--session-id", plan.session_id is not None and plan.fork is None),
    ]


def _check_tools(plan: Plan, text: str) -> None:
    names = tool_names(text)
    edits = [name for name in names if name[:1] in ("+", "-")]
    if edits and len(edits) != len(names):
        plan.errors.append(f"--tools {text!r}: give names, or +NAME and -NAME, but not both")
    if any("*" in name for name in edits):
        plan.errors.append(f"--tools {text!r}: +NAME and -NAME need exact names, without *")


def tool_names(text: str | None) -> tuple[str, ...]:
    """The names in a list of tools."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def is_session_id(text: str) -> bool:
    """May this be the id of a session, and so a part of a file name?"""
    allowed = all(c.isascii() and (c.isalnum() or c in "._-") for c in text)
    return bool(text) and len(text) <= 128 and allowed and text[0].isalnum() and text[-1].isalnum()

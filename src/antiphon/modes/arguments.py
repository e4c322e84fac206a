"""The command line as a plan of what to do. Pure: nothing is opened, nothing is decided that needs the machine.

Options are rows of a table, from which the help is written too. Errors are collected, so that a person sees all of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Takes: TypeAlias = Literal["nothing", "value", "maybe"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its names, what it takes, the field of the plan it sets, and its line of help."""

    name: str
    short: str | None
    takes: Takes
    field: str
    help: str
    value: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False


OPTIONS: tuple[Option, ...] = (
    Option("--print", "-p", "maybe", "print", "answer once and exit", "TEXT"),
    Option("--mode", None, "value", "mode", "output: text, or one JSON record a line", "MODE", ("text", "json")),
    Option("--model", None, "value", "model", "provider/id, an id, or a part of one; :LEVEL behind it", "MODEL"),
    Option("--provider", None, "value", "provider", "look for the model there only", "NAME"),
    Option("--thinking", None, "value", "thinking", "off minimal low medium high xhigh max", "LEVEL"),
    Option("--api-key", None, "value", "api_key", "key for this run; better: the provider's variable", "KEY"),
    Option("--list-models", None, "maybe", "list_models", "list known models, all or those that match", "SEARCH"),
    Option("--system-prompt", None, "value", "system_prompt", "replace the base prompt: a text or a file", "TEXT"),
    Option(
        "--append-system-prompt",
        None,
        "value",
        "append_system_prompt",
        "add to the prompt; may repeat",
        "TEXT",
        (),
        True,
    ),
    Option("--tools", "-t", "value", "tools", "only these tools: read,bash,edit,write,grep,find,ls", "LIST"),
    Option("--no-tools", "-nt", "nothing", "no_tools", "no tools at all"),
    Option("--continue", "-c", "nothing", "continue_", "go on with the last session of this folder"),
    Option("--session", None, "value", "session", "go on with this session file, or session id", "PATH"),
    Option("--no-session", None, "nothing", "no_session", "keep nothing on disk"),
    Option("--session-dir", None, "value", "session_dir", "keep sessions in this folder", "DIR"),
    Option("--name", "-n", "value", "name", "name of the session", "TEXT"),
    Option("--max-turns", None, "value", "max_turns", "stop after this many requests", "N"),
    Option("--help", "-h", "nothing", "help", "show this text"),
    Option("--version", "-v", "nothing", "version", "show the version"),
)

_BY_NAME = {name: option for option in OPTIONS for name in (option.name, option.short) if name is not None}


@dataclass(slots=True)
class Plan:
    """What the command line asks for. `messages` are prompts in order, `files` the paths of `@file` arguments."""

    print: bool = False
    mode: str = "text"
    model: str | None = None
    provider: str | None = None
    thinking: str | None = None
    api_key: str | None = None
    list_models: str | None = None
    system_prompt: str | None = None
    append_system_prompt: list[str] = field(default_factory=list[str])
    tools: str | None = None
    no_tools: bool = False
    continue_: bool = False
    session: str | None = None
    no_session: bool = False
    session_dir: str | None = None
    name: str | None = None
    max_turns: int | None = None
    help: bool = False
    version: bool = False
    messages: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])


def parse(arguments: Sequence[str]) -> Plan:
    """The plan of a command line. What is wrong with it stands in `errors`, one line each."""
    plan = Plan()
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            plan.messages += waiting
            break
        if word.startswith("-") and word != "-" and not word.startswith("---"):
            _option(plan, word, waiting)
        elif word.startswith("@") and len(word) > 1:
            plan.files.append(word[1:])
        else:
            plan.messages.append(word)
    _check(plan)
    return plan


def _option(plan: Plan, word: str, waiting: list[str]) -> None:
    name, equals, attached = word.partition("=") if word.startswith("--") else (word, "", "")
    option = _BY_NAME.get(name)
    if option is None:
        plan.errors.append(f"unknown option {name}; --help lists all")
        return
    if option.takes == "nothing":
        if equals:
            plan.errors.append(f"{name} takes no value")
        setattr(plan, option.field, True)
    elif option.takes == "maybe":
        _maybe(plan, option, attached if equals else None, waiting)
    elif equals:
        _value(plan, option, attached)
    elif waiting and (not waiting[0].startswith("-") or waiting[0] == "-" or " " in waiting[0]):
        _value(plan, option, waiting.pop(0))
    else:
        plan.errors.append(f"{name} needs a value: {name} {option.value}")


def _maybe(plan: Plan, option: Option, attached: str | None, waiting: list[str]) -> None:
    """An option whose next word belongs to it unless that is an option or a file."""
    if attached is None and waiting and (waiting[0][:1] not in ("-", "@") or waiting[0].startswith("---")):
        attached = waiting.pop(0)
    if option.field == "print":
        plan.print = True
        if attached is not None:
            plan.messages.append(attached)
    else:
        plan.list_models = attached or ""


def _value(plan: Plan, option: Option, text: str) -> None:
    if option.choices and text not in option.choices:
        plan.errors.append(f"{option.name} {text!r}: choose one of {', '.join(option.choices)}")
    elif option.field == "max_turns":
        if text.isascii() and text.isdigit() and int(text) > 0:
            plan.max_turns = int(text)
        else:
            plan.errors.append(f"--max-turns {text!r}: give a whole number above 0")
    elif option.many:
        getattr(plan, option.field).append(text)
    else:
        setattr(plan, option.field, text)


def _check(plan: Plan) -> None:
    """What no single option can say."""
    if plan.provider is not None and plan.model is None and plan.list_models is None:
        plan.errors.append("--provider needs --model")
    if plan.no_session and (plan.continue_ or plan.session is not None):
        plan.errors.append("--no-session does not go with --continue or --session")
    if plan.continue_ and plan.session is not None:
        plan.errors.append("--continue and --session name two sessions; give one")
    if plan.name is not None and not plan.name.strip():
        plan.errors.append("--name must not be blank")


def help_text() -> str:
    """What `--help` shows."""
    rows: list[tuple[str, str]] = []
    for option in OPTIONS:
        names = option.name if option.short is None else f"{option.short}, {option.name}"
        value = f" [{option.value}]" if option.takes == "maybe" else f" {option.value}" if option.value else ""
        rows.append((names + value, option.help))
    width = max(len(left) for left, _ in rows)
    lines = [f"  {left:<{width}}  {right}" for left, right in rows]
    return "\n".join([*_HEAD, *lines, *_TAIL]) + "\n"


_HEAD = (
    "antiphon: a coding agent in which every call is answered",
    "",
    "  antiphon [options] [@file ...] [message ...]",
    "",
    "Text on standard input is put in front of the first message, files after it.",
    "",
    "Options:",
)
_TAIL = (
    "",
    "Keys come from the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ... Without any key a small",
    "model inside this program answers, if it is installed (extra `local`): good for trying the loop, not for work.",
    "",
    "Exit codes: 0 answered; 1 failed, aborted or cut off; 130 stopped by Ctrl-C.",
)

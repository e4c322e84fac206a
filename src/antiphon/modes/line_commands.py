"""Commands that a person types at the prompt: `/name rest`. Each is a function; the help is written from the table."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

from antiphon.core.model import THINKING_LEVELS
from antiphon.errors import AntiphonError, ConfigurationError
from antiphon.modes.output import one_line
from antiphon.modes.start import House
from antiphon.modes.tables import cut, table
from antiphon.session.runtime import AgentSessionRuntime

_MOST_SHOWN = 20


class Leave(Exception):
    """The person wants to go."""


@final
@dataclass(frozen=True, slots=True)
class Place:
    """What commands work on, and where their words go."""

    house: House
    runtime: AgentSessionRuntime
    say: Callable[[str], None]


Work: TypeAlias = Callable[[Place, str], "Awaitable[None] | None"]


async def carry_out(place: Place, text: str) -> bool:
    """Carry out a command; False if the text is none of ours. What goes wrong is one line.

    Raises:
        Leave: the person wants to go.
    """
    name, _, rest = text[1:].partition(" ")
    known = COMMANDS.get(name)
    if known is None:
        return False
    try:
        done = known[2](place, rest.strip())
        if inspect.isawaitable(done):
            await done
    except (AntiphonError, OSError) as error:
        place.say(f"Error: {one_line(str(error))}\n")
    return True


def is_known(place: Place, text: str) -> bool:
    """Is `/name` a command, a template or a skill?"""
    name = text[1:].split(" ", 1)[0]
    offered = {str(command["name"]) for command in place.house.commands()}
    return name in COMMANDS or name in offered


def _help(place: Place, _rest: str) -> None:
    rows = [(f"/{name} {takes}".rstrip(), about) for name, (takes, about, _) in COMMANDS.items()]
    rows += [(f"/{c['name']}", cut(one_line(str(c["description"])), 70)) for c in place.house.commands()]
    rows += [("!command", "run it in the shell; the model is told"), ("!!command", "run it; the model is not told")]
    place.say(table(rows))
    place.say("While the model works, what you type is said before its next step; Ctrl-C stops it.\n")


def _quit(_place: Place, _rest: str) -> None:
    raise Leave


async def _new(place: Place, _rest: str) -> None:
    await place.runtime.new_session()
    place.say("a new session\n")


async def _resume(place: Place, rest: str) -> None:
    rows = place.house.places.rows_here()[:_MOST_SHOWN]
    if rest.isascii() and rest.isdigit() and 0 < int(rest) <= len(rows):
        await place.runtime.switch_session(str(rows[int(rest) - 1].path))
        place.say(f"{place.runtime.session.session_id}, {len(place.runtime.session.messages)} messages\n")
        return
    for number, row in enumerate(rows, start=1):
        about = cut(one_line(row.facts.name or row.facts.first_message), 70)
        place.say(f"{number:>3}  {row.facts.modified[:16].replace('T', ' ')}  {about}\n")
    place.say("/resume NUMBER goes on with one\n" if rows else "no sessions of this folder yet\n")


def _session(place: Place, _rest: str) -> None:
    session = place.runtime.session
    stats = session.get_session_stats()
    usage = session.get_context_usage()
    model = "none" if session.model is None else f"{session.model.provider}/{session.model.id}"
    rows = [
        ("session", session.session_id),
        ("file", session.session_file or "in memory"),
        ("name", session.session_name or ""),
        ("model", f"{model}, thinking {session.thinking_level}"),
        ("messages", str(stats.total_messages)),
        ("tokens", f"{stats.tokens.input} in, {stats.tokens.output} out, ${stats.cost:.4f}"),
        ("context", "unknown" if usage is None or usage.percent is None else f"{usage.percent:.0f} %"),
    ]
    place.say(table(rows))


async def _compact(place: Place, rest: str) -> None:
    done = await place.runtime.session.compact(rest or None)
    place.say(f"{done.tokens_before} tokens became {done.estimated_tokens_after}\n")


def _name(place: Place, rest: str) -> None:
    place.runtime.session.set_session_name(rest)


def _model(place: Place, rest: str) -> None:
    session, models = place.runtime.session, place.house.models
    if not rest:
        usable = [f"{model.provider}/{model.id}" for model in session.get_available_models()]
        place.say("\n".join(usable) + "\n")
        return
    found = models.catalog.find(rest, usable=models.usable)
    session.set_model(models.placed(found.model))
    if found.level is not None:
        session.set_thinking_level(found.level)
    place.say(f"{found.model.provider}/{found.model.id}, thinking {session.thinking_level}\n")


def _thinking(place: Place, rest: str) -> None:
    session = place.runtime.session
    if rest and rest not in THINKING_LEVELS:
        raise ConfigurationError(f"there is no level {rest!r}; there are {' '.join(THINKING_LEVELS)}")
    if rest:
        session.set_thinking_level(rest)
    place.say(f"{session.thinking_level} (of {' '.join(session.get_available_thinking_levels())})\n")


def _tools(place: Place, _rest: str) -> None:
    rows = [(info.name, "on" if info.active else "off") for info in place.runtime.session.get_all_tools()]
    place.say(table(rows))


def _reload(place: Place, _rest: str) -> None:
    place.house.reload(place.runtime.session)
    place.say("settings and resources are read again\n")


COMMANDS: Mapping[str, tuple[str, str, Work]] = {
    "help": ("", "this list", _help),
    "new": ("", "begin a new session", _new),
    "resume": ("[NUMBER]", "sessions of this folder; go on with one", _resume),
    "session": ("", "what this session is and has cost", _session),
    "name": ("TEXT", "name this session", _name),
    "model": ("[MODEL]", "models; ask another one", _model),
    "thinking": ("[LEVEL]", "how hard the model thinks", _thinking),
    "tools": ("", "tools that are on", _tools),
    "compact": ("[WORDS]", "put a summary in place of what was said", _compact),
    "reload": ("", "read settings, skills and templates again", _reload),
    "quit": ("", "end; so does Ctrl-D", _quit),
}
"""Name → what it takes, what it does in words, and the work."""

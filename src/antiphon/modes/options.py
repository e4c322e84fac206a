"""Every option of the command line as a row: its names, what it takes, what it sets, its line of help. Pure data."""

from __future__ import annotations

TYPE_CHECKING = False  # spelled out, so that the help can be shown without loading `typing`
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Takes: TypeAlias = Literal["nothing", "value", "maybe", "count", "number"]
    Group: TypeAlias = Literal["mode", "model", "session", "tools", "resources", "limits", "other"]


class Option:
    """One option. `value`: what stands for its value in the help. `many`: may be given several times.

    `takes`: nothing, a value, maybe one (the next word, unless it is an option or a file), a whole number above 0, or
    a number above 0.
    """

    __slots__ = ("choices", "field", "group", "help", "many", "name", "short", "takes", "value")

    def __init__(
        self,
        group: Group,
        name: str,
        short: str | None,
        takes: Takes,
        help: str,  # noqa: A002 - it is the help
        value: str = "",
        *,
        field: str | None = None,
        choices: tuple[str, ...] = (),
        many: bool = False,
    ) -> None:
        self.group = group
        self.name = name
        self.short = short
        self.takes = takes
        self.help = help
        self.value = value
        self.field = name[2:].replace("-", "_") if field is None else field
        self.choices = choices
        self.many = many


_MODES = ("text", "json", "rpc")

OPTIONS: tuple[Option, ...] = (
    Option("mode", "--print", "-p", "maybe", "answer once and exit", "TEXT"),
    Option(
        "mode", "--mode", None, "value", "text, json (a record a line) or rpc", "MODE", choices=("text", "json", "rpc")
    ),
    Option(
        "mode", "--json-outcome", None, "nothing", "json: a last record says how it went, and so does the exit code"
    ),
    Option("mode", "--keep-going", None, "nothing", "go on with the next prompt when one has failed"),
    Option("model", "--model", None, "value", "provider/id, an id, or a part of one; :LEVEL behind it", "MODEL"),
    Option("model", "--provider", None, "value", "look for the model there only", "NAME"),
    Option("model", "--models", None, "value", "models to cycle through: ids, parts, globs, :LEVEL", "LIST"),
    Option("model", "--thinking", None, "value", "off minimal low medium high xhigh max", "LEVEL"),
    Option("model", "--api-key", None, "value", "key for this run; better: the provider's variable", "KEY"),
    Option("model", "--list-models", None, "maybe", "list known models, all or those that match", "SEARCH"),
    Option("session", "--continue", "-c", "nothing", "go on with the last session of this folder", field="continue_"),
    Option("session", "--resume", "-r", "nothing", "choose a session of this folder to go on with"),
    Option("session", "--session", None, "value", "go on with this file, id, or beginning of an id", "PATH"),
    Option("session", "--session-id", None, "value", "open the session with this id here, or make it", "ID"),
    Option("session", "--fork", None, "value", "go on with a copy of a session", "PATH"),
    Option("session", "--session-dir", None, "value", "keep sessions in this folder", "DIR"),
    Option("session", "--no-session", None, "nothing", "keep nothing on disk"),
    Option("session", "--name", "-n", "value", "name of the session", "TEXT"),
    Option("session", "--export", None, "value", "a session file as a page: HTML, or Markdown for *.md", "FILE"),
    Option("tools", "--tools", "-t", "value", "only these tools, or +NAME and -NAME to edit the usual list", "LIST"),
    Option("tools", "--exclude-tools", "-xt", "value", "without these tools; * stands for anything", "LIST"),
    Option("tools", "--no-builtin-tools", "-nbt", "nothing", "without the built-in tools"),
    Option("tools", "--no-tools", "-nt", "nothing", "no tools at all"),
    Option(
        "tools",
        "--sandbox",
        None,
        "value",
        "fence for commands and file tools: off, workspace, offline, readonly",
        "WORD",
        choices=("off", "workspace", "offline", "readonly"),
    ),
    Option("resources", "--system-prompt", None, "value", "replace the base prompt: a text or a file", "TEXT"),
    Option("resources", "--append-system-prompt", None, "value", "add to the prompt; may repeat", "TEXT", many=True),
    Option("resources", "--no-context-files", "-nc", "nothing", "do not read AGENTS.md and its kin"),
    Option("resources", "--skill", None, "value", "use this skill; may repeat", "PATH", many=True),
    Option("resources", "--no-skills", "-ns", "nothing", "look for no skills"),
    Option("resources", "--prompt-template", None, "value", "use this template; may repeat", "PATH", many=True),
    Option("resources", "--no-prompt-templates", "-np", "nothing", "look for no prompt templates"),
    Option("resources", "--extension", "-e", "value", "use this extension; may repeat", "PATH", many=True),
    Option("resources", "--no-extensions", "-ne", "nothing", "look for no extensions"),
    Option("resources", "--no-mcp", None, "nothing", "no MCP servers"),
    Option("resources", "--approve", "-a", "nothing", "use the project's own settings and resources this once"),
    Option("resources", "--no-approve", "-na", "nothing", "do not use them this once"),
    Option("limits", "--max-turns", None, "count", "stop after this many requests", "N"),
    Option("limits", "--max-tool-calls", None, "count", "stop after this many tool calls", "N"),
    Option("limits", "--max-tokens", None, "count", "stop after this many tokens", "N"),
    Option("limits", "--max-cost", None, "number", "stop after this many US dollars", "USD"),
    Option("limits", "--max-seconds", None, "number", "stop after this time", "S"),
    Option("limits", "--no-progress", None, "count", "stop after this many failures that teach nothing new", "N"),
    Option("other", "--offline", None, "nothing", "no network use that nobody asked for"),
    Option("other", "--verbose", None, "nothing", "say more at start"),
    Option("other", "--help", "-h", "nothing", "show this text"),
    Option("other", "--version", "-v", "nothing", "show the version"),
)

BY_NAME = {name: option for option in OPTIONS for name in (option.name, option.short) if name is not None}

_TITLES = {
    "mode": "How it answers",
    "model": "Model",
    "session": "Session",
    "tools": "Tools",
    "resources": "Prompt and resources",
    "limits": "Limits (for each prompt)",
    "other": "Other",
}

_HEAD = """\
antiphon: a coding agent in which every call is answered

  antiphon [options] [--] [@file ...] [message ...]    without a message, at a terminal: a conversation
  antiphon auth check|login|logout          keys of providers
  antiphon config explain|set|schema        every setting and resource: where it came from, and why
  antiphon trust [yes|no|forget]            may this project's own settings and resources be used?
  antiphon session list|show|search|check|repair|export|import|fork
  antiphon replay SESSION                   run a session again from its record and report the first difference
  antiphon course list|practice|verify      write an agent loop yourself, step by step

Each message is a prompt of its own: put quotes around a sentence. Text on standard input is put in front of the first
one, files after it. Behind -- everything is a message.
"""

_TAIL = """\
Keys come from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...) or `antiphon auth login`.
A server of your own: OPENAI_BASE_URL=http://127.0.0.1:8000/v1 with --model openai/NAME (so for every provider).
Without any key a small model inside this program answers, if it is installed (README, "The coding agent"): good for
trying the loop, not for work.

Sessions, settings and keys lie in ~/.antiphon/agent, or where ANTIPHON_AGENT_DIR says.

Exit codes: 0 answered; 1 failed, aborted, cut off, or not understood (how an answer ended counts with --mode json only
if --json-outcome is given, for there the records say it); 129, 130, 143 stopped by SIGHUP, Ctrl-C, SIGTERM.
"""


def help_text() -> str:
    """What `--help` shows."""
    lefts = {option.name: _left(option) for option in OPTIONS}
    width = max(map(len, lefts.values()))
    lines = [_HEAD]
    for group, title in _TITLES.items():
        lines.append(f"{title}:")
        lines += [f"  {lefts[o.name]:<{width}}  {o.help}" for o in OPTIONS if o.group == group]
        lines.append("")
    return "\n".join([*lines, _TAIL])


def _left(option: Option) -> str:
    names = option.name if option.short is None else f"{option.short}, {option.name}"
    return f"{names} [{option.value}]" if option.takes == "maybe" else f"{names} {option.value}".rstrip()

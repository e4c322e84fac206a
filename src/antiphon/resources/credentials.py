"""Keys of providers: where they are kept, in which order places are asked, and never shown.

`auth.json` in the person's own folder: provider → `{"type": "api_key", "key"?, "env"?}` or
`{"type": "oauth", "access", "refresh", "expires", ...}`. Order: the command line, this file, `models.json`, the
environment. Nothing in a project is ever asked for a key. Source: resources specification 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, final

from msgspec import Struct, field

from antiphon.core.wire import JsonObject
from antiphon.errors import ConfigurationError
from antiphon.resources.diagnostics import Diagnostic, Finding, warning
from antiphon.resources.paths import Places
from antiphon.resources.secret_values import CommandCache, Resolution, RunCommand, Secret, Unresolved, form_of, resolve
from antiphon.resources.stored import PRIVATE, pretty, read_json, replace_file, sole_writer
from antiphon.resources.trust import repository_root


@final
class ApiKey(Struct, frozen=True):
    """A stored key. `key` may be a variable or a command; `env`: variables for this provider alone."""

    key: str | None
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        """Without what is secret."""
        return "ApiKey()"


@final
class OAuth(Struct, frozen=True):
    """A login. `expires_ms`: since the epoch. `rest`: what else the login needs, kept as it is."""

    access: str
    refresh: str
    expires_ms: float
    rest: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"OAuth(expires_ms={self.expires_ms!r})"


class CredentialFile(Struct, frozen=True):
    """What is stored, by provider."""

    entries: Mapping[str, ApiKey | OAuth]
    diagnostics: tuple[Diagnostic, ...] = ()


class Answer(Struct, frozen=True):
    """A key, or why there is none; and the place that was decisive, in words without secrets."""

    found: Resolution
    place: str

    @property
    def key(self) -> str | None:
        return self.found.reveal() if isinstance(self.found, Secret) else None


def read_credentials(where: Places) -> CredentialFile:
    """The stored credentials. Entries that make no sense are left out and named; their content is not."""
    file = read_json(where.credentials)
    faults: list[Diagnostic] = [] if file.fault is None else [warning(_without_content(file.fault))]
    if file.exists and file.fault is None:
        faults += _open_to_others(where.credentials)
    entries: dict[str, ApiKey | OAuth] = {}
    for provider, given in file.values.items():
        entry = _entry(given)
        if entry is None:
            faults.append(
                warning(
                    f'{where.credentials}: the entry of {provider} is ignored; it needs "type": "api_key" with "key" '
                    'or "env" as texts, or "type": "oauth" with "access", "refresh" and "expires"'
                )
            )
        else:
            entries[provider] = entry
    stray = where.project / "auth.json"
    if stray.exists() and stray.resolve() != where.credentials.resolve():
        faults.append(warning(f"{stray} is ignored: keys never belong in a project; move it to {where.credentials}"))
    return CredentialFile(entries, tuple(faults))


def _without_content(fault: str) -> str:
    """A parse error may quote what it met; here it must not."""
    head, colon, _ = fault.partition(" is ignored: ")
    return f"{head} is ignored" if colon and "JSON" in head else fault


def _open_to_others(path: Path) -> list[Diagnostic]:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return []
    if mode & 0o077:
        return [warning(f"{path} can be read by others (mode {mode:03o}); do: chmod 600 {path}")]
    return []


def _entry(given: Any) -> ApiKey | OAuth | None:
    if not isinstance(given, dict):
        return None
    table = cast("JsonObject", given)
    if table.get("type") == "api_key":
        key, env = table.get("key"), table.get("env", {})
        if not isinstance(key, str | None) or not isinstance(env, dict) or (key is None and not env):
            return None
        variables = cast("JsonObject", env)
        if not all(isinstance(value, str) for value in variables.values()):
            return None
        return ApiKey(key, variables)
    if table.get("type") == "oauth":
        access, refresh, expires = (table.get(name) for name in ("access", "refresh", "expires"))
        if isinstance(access, str) and isinstance(refresh, str) and isinstance(expires, int | float):
            rest = {k: v for k, v in table.items() if k not in ("type", "access", "refresh", "expires")}
            return OAuth(access, refresh, float(expires), rest)
    return None


def store_credential(where: Places, provider: str, entry: ApiKey | None) -> None:
    """Keep a key (None: forget it), in a file for its owner only.

    Raises:
        ConfigurationError: the file is broken, cannot be written, or would lie in a project.
    """
    root = repository_root(where.credentials.parent)
    if root is not None and root != where.home and where.cwd.resolve().is_relative_to(root.resolve()):
        raise ConfigurationError(
            f"{where.credentials} lies in the project {root}: keys never belong in a project; "
            "choose another folder with ANTIPHON_AGENT_DIR"
        )
    try:
        with sole_writer(where.credentials):
            file = read_json(where.credentials)
            if file.fault is not None:
                raise ConfigurationError(f"{_without_content(file.fault)}; repair or remove it first")
            values = dict(file.values)
            values.pop(provider, None)
            if entry is not None:
                values[provider] = {"type": "api_key", "key": entry.key} | (
                    {"env": dict(entry.env)} if entry.env else {}
                )
            replace_file(where.credentials, pretty(values), PRIVATE)
    except OSError as error:
        raise ConfigurationError(f"{where.credentials} cannot be written: {error.strerror or error}") from error


def _fit_for_a_header(key: Secret, place: str) -> Resolution:
    """The key without the white space around it that files bring along; one that cannot be sent is told, not shown."""
    text = key.reveal().strip()
    if not text:
        return Unresolved(f"the key from {place} is empty")
    if not (text.isascii() and text.isprintable()) or " " in text:
        return Unresolved(f"the key from {place} has a space, a line break or another character that no key has")
    return Secret(text)


@final
class KeyRing:
    """Finds the key of a provider. `variables`: which environment variables may hold it, first one set counts."""

    def __init__(
        self,
        stored: CredentialFile,
        environ: Mapping[str, str],
        *,
        variables: Mapping[str, tuple[str, ...]],
        configured: Mapping[str, str] | None = None,
        run: RunCommand | None = None,
    ) -> None:
        self._stored = stored
        self._environ = environ
        self._variables = variables
        self._configured = configured or {}
        self._run: RunCommand = CommandCache() if run is None else run
        self._given: dict[str, Secret] = {}

    def give(self, provider: str, key: str) -> None:
        """Use this key for the rest of the process; it is stored nowhere."""
        self._given[provider] = Secret(key)

    def ask(self, provider: str) -> Answer:
        """The key, or why there is none. May run a command; blocking."""
        answer = self._asked(provider)
        if isinstance(answer.found, Secret):
            return Answer(_fit_for_a_header(answer.found, answer.place), answer.place)
        return answer

    def _asked(self, provider: str) -> Answer:
        if provider in self._given:
            return Answer(self._given[provider], "--api-key")
        entry = self._stored.entries.get(provider)
        environ = self._environ
        if isinstance(entry, ApiKey):
            environ = {**self._environ, **entry.env}
            if entry.key is not None:
                return Answer(resolve(entry.key, environ, self._run), f"auth.json ({form_of(entry.key)})")
        if isinstance(entry, OAuth):
            return Answer(Secret(entry.access), "auth.json (login)")
        configured = self._configured.get(provider)
        if configured is not None:
            return Answer(resolve(configured, environ, self._run), f"models.json ({form_of(configured)})")
        names = self._variables.get(provider, ())
        for name in names:
            if environ.get(name):
                return Answer(Secret(environ[name]), f"variable {name}")
        wanted = " or ".join(names) if names else "a key in auth.json"
        return Answer(Unresolved(f"{wanted} is not set"), "nowhere")

    def key(self, provider: str) -> str | None:
        """The key, or nothing."""
        return self.ask(provider).key

    def has(self, provider: str) -> bool:
        """Is there something that says what the key is? Runs no command."""
        if provider in self._given or provider in self._configured:
            return True
        entry = self._stored.entries.get(provider)
        if isinstance(entry, OAuth) or (isinstance(entry, ApiKey) and entry.key is not None):
            return True
        environ = {**self._environ, **entry.env} if isinstance(entry, ApiKey) else self._environ
        return any(environ.get(name) for name in self._variables.get(provider, ()))

    def may_block(self, provider: str) -> bool:
        """Could asking for this key run a command?"""
        if provider in self._given:
            return False
        entry = self._stored.entries.get(provider)
        texts = (entry.key if isinstance(entry, ApiKey) else None, self._configured.get(provider))
        return any(text is not None and text.startswith("!") for text in texts)

    def environment_of(self, provider: str) -> Mapping[str, str]:
        """The environment as this provider sees it: its stored variables win."""
        entry = self._stored.entries.get(provider)
        return {**self._environ, **entry.env} if isinstance(entry, ApiKey) and entry.env else self._environ

    @property
    def stored_providers(self) -> tuple[str, ...]:
        return tuple(self._stored.entries)

    def findings(self, providers: tuple[str, ...]) -> tuple[Finding, ...]:
        """Which of the providers has a key, and from where; no command is run."""
        out: list[Finding] = []
        for provider in providers:
            if not self.has(provider):
                continue
            out.append(Finding(kind="credentials", name=provider, state="used", reason=self._place(provider)))
        return tuple(out)

    def _place(self, provider: str) -> str:
        entry = self._stored.entries.get(provider)
        if provider in self._given:
            return "--api-key"
        if isinstance(entry, OAuth):
            return "auth.json (login)"
        if isinstance(entry, ApiKey) and entry.key is not None:
            return f"auth.json ({form_of(entry.key)})"
        if provider in self._configured:
            return f"models.json ({form_of(self._configured[provider])})"
        names = self._variables.get(provider, ())
        return next((f"variable {name}" for name in names if self.environment_of(provider).get(name)), "nowhere")

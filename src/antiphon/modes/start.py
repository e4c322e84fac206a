"""From a plan to a conversation: which session, which folder, whose trust, which model, which tools.

The order is that of the specification (modes, 2.5): the session first, for it decides the folder; then trust, for it
decides which settings and resources count; then models and tools.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import final

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from antiphon.core.wire import JsonObject, to_wire
from antiphon.errors import ConfigurationError, SessionError
from antiphon.modes.arguments import Plan, tool_names
from antiphon.modes.ignore_rules import IgnoreRules
from antiphon.modes.model_choice import LOCAL_NOTICE, ModelWish, model_wish
from antiphon.modes.open_log import open_log
from antiphon.modes.output import Output
from antiphon.modes.person import Person
from antiphon.modes.session_places import SessionPlaces, session_places
from antiphon.providers.local.model import EMBEDDED, HOW_TO_INSTALL
from antiphon.resources.loading import LoadedResources, Wishes
from antiphon.resources.paths import Places, places
from antiphon.resources.settings_layers import read_layers
from antiphon.resources.trust import TrustDecision, apply_answer, decide, read_trust, skip_notice
from antiphon.session.agent_session import AgentSession
from antiphon.session.budget import Budget
from antiphon.session.create import Wanted, create_agent_session
from antiphon.session.model_access import FileModels, load_models
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session.services import LoadedServices, load_services
from antiphon.session_log.log import SessionLog
from antiphon.tools.port import Files, Processes
from antiphon.tools.spill_files import SpillFiles


@final
class House(Struct):
    """What all conversations of this process share, and the way to make one. `person` None: nobody can be asked."""

    plan: Plan
    output: Output
    person: Person | None
    environ: Mapping[str, str]
    places: SessionPlaces
    models: FileModels
    processes: Processes
    files: Files
    trusted: dict[str, TrustDecision]
    current: LoadedServices | None = None
    session: AgentSession | None = None
    passing: list[SpillFiles] = field(default_factory=list[SpillFiles])

    def make(self, log: SessionLog) -> AgentSession:
        """The session over a log, with what its working folder offers.

        Raises:
            ConfigurationError: a model or tool that was asked for does not exist.
        """
        found = load_services(
            log.cwd,
            self.environ,
            wishes=_wishes(self.plan),
            ignored=IgnoreRules(),
            trust=self._trust(places(log.cwd, self.environ)),
            models=self.models,
            processes=self.processes,
            files=self.files,
            spills=self._spills(log),
            environment=self._variables,
        )
        wish = model_wish(self.plan, self.models, found.loaded.settings.settings)
        services = replace(found.services, default_model=wish.default)
        created = create_agent_session(services, log, _wanted(self.plan, wish))
        self.current, self.session = found, created.session
        self._tell(wish, created.session, [d.message for d in created.diagnostics if d.type != "info"])
        return created.session

    def _spills(self, log: SessionLog) -> SpillFiles:
        spills = SpillFiles(kept=not log.is_in_memory)
        if log.is_in_memory:
            self.passing.append(spills)
        return spills

    def tidy(self) -> None:
        """Remove the files of conversations that are kept nowhere."""
        for spills in self.passing:
            spills.remove_all()

    def _trust(self, where: Places) -> TrustDecision:
        """The decision about a folder, made once for each."""
        known = self.trusted.get(str(where.cwd))
        if known is not None:
            return known
        own = read_layers(where, trusted=False)
        decision = decide(where, own, read_trust(where.trust), self.plan.approve)
        if decision.open and self.person is not None:
            answer = self.person.ask_trust(where, decision)
            decision = TrustDecision(apply_answer(where, answer), "as you answered", decision.protected)
        elif self.plan.approve is None and (notice := skip_notice(decision, where)) is not None:
            self.output.warning(notice)
        self.trusted[str(where.cwd)] = decision
        return decision

    def _variables(self) -> dict[str, str | None]:
        """What commands find in their environment besides what the session gives."""
        session = self.session
        if session is None:
            return {}
        model = session.model
        own = {
            "SESSION_ID": session.session_id,
            "SESSION_FILE": session.session_file,
            "PROVIDER": None if model is None else model.provider,
            "MODEL": None if model is None else model.id,
            "REASONING_LEVEL": session.thinking_level,
        }
        return {prefix + name: value for prefix in ("ANTIPHON_", "PI_") for name, value in own.items()}

    def _tell(self, wish: ModelWish, session: AgentSession, warnings: list[str]) -> None:
        for text in (*warnings, *wish.warnings):
            self.output.warning(text)
        if session.model is EMBEDDED and wish.model is None:
            self.output.say(LOCAL_NOTICE.format(provider=EMBEDDED.provider, id=EMBEDDED.id))

    def reload(self, session: AgentSession) -> None:
        """Read settings and resources again; texts count from the next prompt on, settings from the next session."""
        found = load_services(
            session.cwd,
            self.environ,
            wishes=_wishes(self.plan),
            ignored=IgnoreRules(),
            trust=self._trust(places(session.cwd, self.environ)),
            models=self.models,
            processes=self.processes,
            files=self.files,
        )
        self.current = found
        session.refresh_context(found.services.resources)
        for diagnostic in found.services.diagnostics:
            self.output.warning(diagnostic.message)

    # -- what a client may ask

    @property
    def loaded(self) -> LoadedResources:
        assert self.current is not None
        return self.current.loaded

    def commands(self) -> list[JsonObject]:
        """Names that a prompt may begin with: templates, then skills."""
        named = [(t.name, t.template.description, "prompt", t.source) for t in self.loaded.templates]
        if self.loaded.settings.settings.enable_skill_commands:
            named += [(f"skill:{s.skill.name}", s.skill.description, "skill", s.source) for s in self.loaded.skills]
        return [
            {"name": name, "description": description, "source": source, "sourceInfo": to_wire(info)}
            for name, description, source, info in named
        ]

    def export(self, path: str | None) -> str:
        """Write the session as a page; the absolute path.

        Raises:
            SessionError: it is in memory only, or the file cannot be written.
        """
        from antiphon.modes.commands.sessions import exported, write_export  # few conversations are exported

        assert self.session is not None
        log = self.session.log
        if log.is_in_memory:
            raise SessionError("this session is in memory only and cannot be exported")
        if not log.saved:
            raise SessionError("nothing was said in this session yet, so there is nothing to export")
        target = Path(log.cwd, path or f"antiphon-session-{log.path.stem if log.path else log.session_id}.html")
        write_export(target, exported(log, self.places, str(target)), force=True)
        return str(target)


def start(plan: Plan, output: Output, person: Person | None, cwd: str) -> tuple[House, AgentSessionRuntime]:
    """The house and its first conversation. Needs a running event loop.

    Raises:
        ConfigurationError: no such model, level, tool or session.
        SessionError: the session cannot be used.
    """
    environ = os.environ
    environ["AI_AGENT"] = "antiphon"
    environ["ANTIPHON"] = "true"
    if plan.extension:
        raise ConfigurationError("--extension: this version cannot load extensions yet")
    where = places(cwd, environ)
    found = session_places(where, environ, plan.session_dir)
    log = open_log(plan, found, person)
    if plan.continue_ and not log.entry_count:
        output.say("there is no session of this folder yet, so a new one begins\n")
    try:
        models = load_models(where, environ)
        processes, files = _confined(plan, where, log.cwd)
        house = House(plan, output, person, environ, found, models, processes, files, trusted={})
        session = house.make(log)
        _use_proxy(house)
        if plan.name is not None:
            session.set_session_name(plan.name)
        _check_model(session)
        return house, AgentSessionRuntime(session, house.make, found.store(log.cwd))
    except BaseException:
        log.close()
        raise


def _check_model(session: AgentSession) -> None:
    if session.model is None:
        raise ConfigurationError(
            "no key found (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...) and no embedded model is installed; "
            "set a key, or keep one with `antiphon auth login PROVIDER`. To try it without a key: "
            f"{HOW_TO_INSTALL}"
        )


def _wishes(plan: Plan) -> Wishes:
    return Wishes(
        approve=plan.approve,
        system_prompt=plan.system_prompt,
        append_system_prompt=plan.append_system_prompt,
        context_files=not plan.no_context_files,
        skills=plan.skill,
        no_skills=plan.no_skills,
        templates=plan.prompt_template,
        no_templates=plan.no_prompt_templates,
        extensions=plan.extension,
        no_extensions=plan.no_extensions,
    )


def _wanted(plan: Plan, wish: ModelWish) -> Wanted:
    budget = Budget(
        max_turns=plan.max_turns,
        max_tool_calls=plan.max_tool_calls,
        max_tokens=plan.max_tokens,
        max_cost=plan.max_cost,
        max_seconds=plan.max_seconds,
        no_progress=plan.no_progress,
    )
    return Wanted(
        model=wish.model,
        thinking_level=wish.level,
        scoped_models=wish.scope,
        tools=None if plan.tools is None else tool_names(plan.tools),
        no_tools="all" if plan.no_tools else "builtin" if plan.no_builtin_tools else None,
        exclude_tools=tool_names(plan.exclude_tools),
        budget=None if budget == Budget() else budget,
    )


def _confined(plan: Plan, where: Places, cwd: str) -> tuple[Processes, Files]:
    """Processes and files behind the fence that was asked for; the children do not outlive us, whatever happens."""
    from antiphon.tools.process import LocalProcesses
    from antiphon.tools.process_records import end_left_behind
    from antiphon.tools.sandbox import confined, confined_files

    folder = str(where.agent / "processes")
    if os.path.isdir(folder):
        end_left_behind(folder)
    processes = confined(LocalProcesses(state_folder=folder, guard=True), plan.sandbox, cwd)
    return processes, confined_files(plan.sandbox, cwd)


def _use_proxy(house: House) -> None:
    """The proxy of the settings, unless the environment names one."""
    proxy = house.loaded.settings.settings.http_proxy
    if proxy is UNSET:
        return
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        if not os.environ.get(name) and not os.environ.get(name.lower()):
            os.environ[name] = proxy

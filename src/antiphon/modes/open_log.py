"""Which stored conversation a command line means, opened to go on with it. Source: modes specification 2.2, 2.5."""

from __future__ import annotations

from antiphon.errors import ConfigurationError
from antiphon.modes.arguments import Plan
from antiphon.modes.person import Person
from antiphon.modes.session_places import FoundSession, NoSuchSession, SessionPlaces, find_session
from antiphon.session_log.log import SessionLog
from antiphon.session_log.refusals import FolderMissing


def open_log(plan: Plan, places: SessionPlaces, person: Person | None) -> SessionLog:
    """The log that the plan asks for: new, reopened, or a copy.

    Raises:
        ConfigurationError, SessionError: it does not exist, belongs elsewhere, or cannot be used.
    """
    store = places.store()
    if plan.no_session:
        return store.in_memory(session_id=plan.session_id)
    if plan.fork is not None:
        return _copy(places, find_session(places, plan.fork), plan.session_id)
    if plan.session is not None:
        return _reopened(places, find_session(places, plan.session), person)
    if plan.resume:
        return _reopened(places, _chosen(places, person), person)
    if plan.session_id is not None:
        return _with_id(places, plan.session_id)
    if plan.continue_:
        recent = store.continue_recent(cwd=places.shared_by)
        return store.create() if recent is None else recent
    return store.create()


def _copy(places: SessionPlaces, found: FoundSession, session_id: str | None = None) -> SessionLog:
    from antiphon.modes.commands.sessions import fork_of  # brings the reading of commands along; few starts are copies

    return fork_of(places, found, None, session_id)


def _with_id(places: SessionPlaces, session_id: str) -> SessionLog:
    """The session with exactly this id here, or a new one."""
    store = places.store()
    row = next((row for row in places.rows_here() if row.facts.id == session_id), None)
    return store.create(session_id=session_id) if row is None else store.open(row.path)


def _chosen(places: SessionPlaces, person: Person | None) -> FoundSession:
    if person is None:
        raise ConfigurationError("--resume needs a terminal to choose at; name the session with --session")
    rows = places.rows_here()
    if not rows:
        raise NoSuchSession("there are no sessions of this folder yet")
    row = person.choose(rows)
    if row is None:
        raise NoSuchSession("no session was chosen")
    return FoundSession(row.path, row.facts.cwd, True)


def _reopened(places: SessionPlaces, found: FoundSession, person: Person | None) -> SessionLog:
    """The session, in its own folder. One of another project is copied here, if the person agrees."""
    store = places.store()
    if not found.here:
        if person is not None and person.agrees(f"This session belongs to {found.cwd}. Copy it into a new one here?"):
            return _copy(places, found)
        raise NoSuchSession(
            f"this session belongs to {found.cwd or 'another folder'}; go there, or copy it here with "
            f"--fork {found.path.stem.rpartition('_')[2]}"
        )
    try:
        return store.resume(found.path)
    except FolderMissing as gone:
        if person is not None and person.agrees(f"Its folder {gone.cwd} does not exist any more. Go on here?"):
            return store.resume(found.path, cwd=str(places.where.cwd))
        raise

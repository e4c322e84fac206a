"""Runners of the packs that concern the session object; `sessions_packs` takes them over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance import sessions_nested, sessions_play, sessions_replacing

PACKS: dict[str, Callable[[Any, Path], str | None]] = {
    "agent-session": sessions_play.run_agent_session,
    "nested": sessions_nested.run_nested,
    "retry": sessions_nested.run_retry,
    "runtime": sessions_replacing.run_runtime,
}

"""`--list-models`: a table of what the catalogue knows."""

from __future__ import annotations

import os
from pathlib import Path

from antiphon.core.model import Model
from antiphon.modes.arguments import Plan
from antiphon.modes.output import Output
from antiphon.modes.tables import table
from antiphon.providers.local.model import EMBEDDED
from antiphon.resources.paths import places, working_folder
from antiphon.session.model_access import load_models

HEAD = ("provider", "model", "context", "max-out", "thinking", "images")


def list_models(plan: Plan, output: Output) -> int:
    """Print the models that match; gives the exit code."""
    models = load_models(places(Path(working_folder()), os.environ), os.environ)
    for diagnostic in models.diagnostics:
        output.warning(diagnostic.message)
    search = plan.list_models or ""
    found = [m for m in models.catalog.search(search) if plan.provider is None or m.provider == plan.provider]
    if not models.usable(EMBEDDED.provider):
        found = [model for model in found if model.provider != EMBEDDED.provider]
    if not found:
        output.error(f"no model matches {search!r}")
        return 1
    output.text(table([HEAD, *map(_row, found)]))
    return 0


def _row(model: Model) -> tuple[str, ...]:
    return (
        model.provider,
        model.id,
        tokens(model.context_window),
        tokens(model.max_tokens),
        "yes" if model.reasoning else "no",
        "yes" if "image" in model.input else "no",
    )


def tokens(count: int) -> str:
    """A token count as people write it: 200K, 1M; `-` if unknown."""
    if count <= 0:
        return "-"
    if count >= 1_000_000:
        return f"{count / 1_000_000:.3g}M"
    return f"{count / 1000:.4g}K" if count >= 1000 else str(count)

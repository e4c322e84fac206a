"""`--list-models`: a table of what the catalogue knows."""

from __future__ import annotations

from antiphon.core.model import Model
from antiphon.modes.arguments import Plan
from antiphon.modes.output import Output
from antiphon.modes.start import load_catalog

HEAD = ("provider", "model", "context", "max-out", "thinking", "images")


def list_models(plan: Plan, output: Output) -> int:
    """Print the models that match; gives the exit code."""
    search = plan.list_models or ""
    models = [m for m in load_catalog(output).search(search) if plan.provider is None or m.provider == plan.provider]
    if not models:
        output.error(f"no model matches {search!r}")
        return 1
    rows = [HEAD, *(_row(model) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    output.text("\n".join(lines) + "\n")
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

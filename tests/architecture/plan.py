"""The plan of the house as data: which package stands on which floor, and what the ground floor may import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "antiphon"

FLOORS: list[set[str]] = [
    {"errors", "core"},
    {"loop", "providers", "tools", "session_log", "resources", "telemetry"},
    {"agent", "durable", "mcp", "codemode", "testing"},
    {"extensions"},
    {"session"},
    {"modes"},
    {"course", "evals"},
]
FLOOR_OF = {package: number for number, floor in enumerate(FLOORS) for package in floor}

CORE_MAY_IMPORT = {
    "__future__",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "itertools",
    "json",
    "math",
    "msgspec",
    "re",
    "string",
    "types",
    "typing",
}

OPTIONAL: dict[str, str] = {
    "httpx2": "providers/http.py",
    "jsonschema_rs": "loop/arguments.py",
    "xllamacpp": "providers/local/engine.py",
    "pytest": "testing/check.py",
    "pytest_asyncio": "testing/check.py",
    "PIL": "tools/images.py",
}
"""Libraries that are extras, each with the one file that may import it."""


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str | None:
    """The room of a module: `antiphon.core.wire` is in `core`. The front door has no room."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else None


@cache
def imports(path: Path, *, at_import_only: bool = False) -> list[tuple[str, int]]:
    """Imported modules of a file with their lines. `at_import_only`: without those inside functions and type checks."""
    tree = ast.parse(path.read_text("utf-8"))
    return list(_imports(tree, module_of(path), at_import_only))


def _imports(node: ast.AST, module: str, at_import_only: bool) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if at_import_only and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if at_import_only and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            for name in child.names:
                yield name.name, child.lineno
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{module}: relative import in line {child.lineno}"
            yield child.module or "", child.lineno
            for name in child.names:
                yield f"{child.module}.{name.name}", child.lineno
        yield from _imports(child, module, at_import_only)

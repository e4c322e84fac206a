"""The reference stands alone: neither it nor what it imports knows the loop of this project."""

from __future__ import annotations

from tests.architecture.plan import files, imports, module_of

ALLOWED = {"antiphon.core", "antiphon.course", "antiphon.errors"}


def test_the_reference_does_not_import_the_loop() -> None:
    by_module = {module_of(path): path for path in files()}
    seen: set[str] = set()
    waiting = ["antiphon.course.reference_loop"]
    while waiting:
        module = waiting.pop()
        if module in seen or module not in by_module or module == "antiphon.course":
            continue  # the door of the package loads nothing by itself
        seen.add(module)
        waiting += [name for name, _line in imports(by_module[module]) if name.startswith("antiphon.")]
    rooms = {".".join(module.split(".")[:2]) for module in seen}
    assert rooms <= ALLOWED
    assert "antiphon.course.core_loop" not in seen
    assert {"antiphon.core.machine", "antiphon.core.policy", "antiphon.core.batch"} & seen == set()
    assert "antiphon.course.decisions" not in seen

"""Write the generated pages of `docs/reference/`, and the site. `python3 dev.py docs` runs this.

    generate.py            write the pages, then build the site into `site/`
    generate.py --check    exit 1 if a page is stale; nothing is written
    generate.py --pages    write the pages only

A page is a function without arguments in `docs/writing`; `PAGES` says which file it fills. Change what a page is
made from, never the page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from docs.writing import (  # noqa: E402
    loop_pages,
    machine_page,
    program_pages,
    provider_page,
    requirement_page,
    value_pages,
)

REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- Written by docs/generate.py. Change what it is made from, then run: python3 dev.py docs -->\n\n"

PAGES: dict[str, Callable[[], str]] = {
    "command-line.md": program_pages.command_line,
    "errors.md": program_pages.errors,
    "events.md": value_pages.events_page,
    "machine.md": machine_page.machine,
    "messages.md": value_pages.messages,
    "policy.md": loop_pages.policy,
    "providers.md": provider_page.providers,
    "public-names.md": program_pages.public_names,
    "requirements.md": requirement_page.requirements,
    "rpc.md": value_pages.rpc,
    "runs.md": loop_pages.runs,
    "settings.md": program_pages.settings,
}


def written() -> dict[Path, str]:
    """Every generated page as it should be."""
    return {REFERENCE / name: NOTE + make().rstrip("\n") + "\n" for name, make in PAGES.items()}


def stale() -> list[str]:
    """Names of pages that are not as they should be."""
    return [path.name for path, text in written().items() if not path.is_file() or path.read_text("utf-8") != text]


def write() -> list[str]:
    """Bring every page up to date; the names of those that were not."""
    changed: list[str] = []
    REFERENCE.mkdir(exist_ok=True)
    for path, text in written().items():
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path.name)
    return changed


def main(words: list[str]) -> int:
    if words == ["--check"]:
        old = stale()
        print("\n".join(f"stale: docs/reference/{name}" for name in old) or "every generated page is fresh")
        return 1 if old else 0
    if words not in ([], ["--pages"]):
        print(__doc__)
        return 2
    print("\n".join(f"written: docs/reference/{name}" for name in write()) or "every generated page was fresh")
    if words:
        return 0
    from docs.writing.site import build

    return build(ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

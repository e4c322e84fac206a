"""Making a practice folder, and noticing later whether its tests are still the ones that were put there.

Everything about a folder is in the folder. There is no history and no way back: to start over, make another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from antiphon.course.kit.chapters import CHAPTERS, Chapter, Language
from antiphon.course.kit.render import FOLDER_PACKAGE, rendered, source, template
from antiphon.errors import ConfigurationError

CARD = "course.json"
DIGESTS = "tests.sha256"
CONFTEST = "tests/conftest.py"


def files_of(chapter: Chapter, language: Language, *, solved: bool = False) -> dict[str, str]:
    """The files of a folder by their paths. `solved`: with the answer in place of the skeleton."""
    at = chapter.number
    tests = _tests_of(chapter, language)
    files = {
        "README.md": _filled(f"{at}/README.{language}.md", chapter, language),
        "pytest.ini": _filled("common/pytest.ini.txt", chapter, language),
        CARD: json.dumps({"chapter": at, "language": language}) + "\n",
        f"{FOLDER_PACKAGE}/__init__.py": "",
    }
    for name, origin in chapter.given:
        files[f"{FOLDER_PACKAGE}/{name}.py"] = source(origin, chapter)
    skeleton = _filled(f"{at}/skeleton.py.txt", chapter, language)
    files[f"{FOLDER_PACKAGE}/{chapter.module}.py"] = source(chapter.answer, chapter) if solved else skeleton
    files[DIGESTS] = "".join(f"{_digest(text.encode())}  {path}\n" for path, text in tests.items())
    return files | tests


def _filled(path: str, chapter: Chapter, language: Language) -> str:
    names = {"chapter": chapter.number, "module": chapter.module, "idle": str(chapter.idle_seconds)}
    return rendered(template(path), language, names)


def _tests_of(chapter: Chapter, language: Language) -> dict[str, str]:
    """The files that are injected, and must stay as they are."""
    files = {CONFTEST: _filled("common/conftest.py.txt", chapter, language)}
    for path in _test_paths(chapter)[1:]:
        files[path] = _filled(f"{chapter.number}/{path}.txt", chapter, language)
    return files


def _test_paths(chapter: Chapter) -> list[str]:
    own = (*(f"{name}.py" for name in chapter.extra_tests), *(step.test_file for step in chapter.steps))
    return [CONFTEST, *(f"tests/{file}" for file in own)]


def make_folder(chapter: Chapter, target: Path, language: Language, *, solved: bool = False) -> None:
    """Write the folder.

    Raises:
        ConfigurationError: there is something already, or nothing can be written there.
    """
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ConfigurationError(f"{target} exists and is not an empty folder; choose another name")
        for path, text in files_of(chapter, language, solved=solved).items():
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8", newline="\n") as out:
                out.write(text)
    except OSError as error:
        raise ConfigurationError(f"the folder {target} cannot be made: {error}") from error


@dataclass(frozen=True, slots=True)
class Folder:
    """A practice folder that was found on disk."""

    path: Path
    chapter: Chapter
    language: Language

    def changed_tests(self) -> list[str]:
        """Test files that are not what they were, or gone; the file of digests if it does not know them all."""
        digests = {path: digest for digest, _, path in (line.partition("  ") for line in self._digest_lines())}
        paths = _test_paths(self.chapter)
        if not digests.keys() >= set(paths):
            return [DIGESTS]
        return [path for path in paths if _digest(_bytes(self.path / path)) != digests[path]]

    def _digest_lines(self) -> list[str]:
        return _bytes(self.path / DIGESTS).decode("utf-8", "replace").split("\n")


def open_folder(path: Path, chapter: Chapter) -> Folder:
    """A folder of this chapter.

    Raises:
        ConfigurationError: it is none, or one of another chapter.
    """
    try:
        card = json.loads((path / CARD).read_text("utf-8"))
        found, language = CHAPTERS[card["chapter"]], card["language"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is no practice folder; make one with: antiphon course practice {chapter.number} {path}"
        ) from error
    if found is not chapter:
        raise ConfigurationError(f"{path} is a folder of chapter {found.number}, not of {chapter.number}")
    return Folder(path, chapter, "zh" if language == "zh" else "en")


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""

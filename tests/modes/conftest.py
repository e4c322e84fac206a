from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.modes.children import Place
from tests.replayed import check_files


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    yield Place(tmp_path)
    if request.node.get_closest_marker("not_replayed") is None:
        check_files(tmp_path)

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.replayed import check_files


@pytest.fixture(autouse=True)
def replayed(request: pytest.FixtureRequest) -> Iterator[None]:
    """The session files of each test are played again behind it."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None and request.node.get_closest_marker("not_replayed") is None:
        check_files(folder)

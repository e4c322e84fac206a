from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.replayed import check_files, check_logs
from tests.session.stage import Stage


@pytest.fixture(autouse=True)
def replayed(request: pytest.FixtureRequest) -> Iterator[None]:
    """The sessions of each test are played again behind it."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    Stage.made.clear()
    yield
    stages = list(Stage.made)
    Stage.made.clear()
    if request.node.get_closest_marker("not_replayed") is None:
        check_logs(stage.log for stage in stages if stage.log.path is None)
        if folder is not None:
            check_files(folder)

"""Token counts from the wire: what is no count is none."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.model import Prices
from antiphon.core.usage import Usage
from antiphon.providers.cost import count, priced


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        (7, 7),
        (7.9, 7),
        (-5, 0),
        (True, 0),
        ("7", 0),
        (None, 0),
        (float("inf"), 0),
        (float("nan"), 0),
        (10**400, 0),
        (1e300, 0),
        (2**53 - 1, 2**53 - 1),
    ],
)
def test_a_count_is_a_whole_number_that_can_be_priced(given: Any, counted: int) -> None:
    """A negative one would give a budget back; one beyond every float could not be priced."""
    assert count(given) == counted
    priced(Usage(input=counted), Prices(input=1.0))

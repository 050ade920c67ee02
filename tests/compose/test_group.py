"""Groups: callbacks take the results of all their steps."""

from __future__ import annotations

import pytest
from tests.compose.tasks import clean, extract, notify

from rowlock import (
    ChainError,
    InvalidWorkflow,
    group,
)


def test_a_callback_that_cannot_take_the_results_is_refused() -> None:
    steps = [extract.step(n) for n in range(3)]
    with pytest.raises(ChainError, match=r"passes on list\[list\[int\]\], but clean takes rows: list\[int\]"):
        group(steps, on_success=clean)
    with pytest.raises(InvalidWorkflow, match="at least one step"):
        group([])
    assert group(steps, on_success=notify, name="g").name == "g"

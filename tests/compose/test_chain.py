"""Chains: results fit the next step, or the chain is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compose.tasks import clean, count, extract, load, loose, notify

from rowlock import (
    RESULT,
    ChainError,
    InvalidWorkflow,
    Workflow,
    chain,
)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((extract, load), r"extract returns list\[int\], but load takes table: dict\[str, int\]"),
        ((clean.step([1]), clean), r"clean returns dict\[str, int\], but clean takes rows: list\[int\]"),
        ((notify, load), "notify returns None, so it passes nothing on, but load needs 'table'"),
        ((count.step([1]), load), "count returns int"),
        ((extract,), "at least two steps"),
        ((extract, clean.step(strict=True), load), None),  # type: ignore[call-arg]  # RESULT is for type checkers
        ((extract, clean.step(RESULT, strict=True), load), None),
        ((extract, notify, notify), None),
    ],
)
def test_a_chain_whose_types_do_not_fit_names_both(steps: tuple[Any, ...], message: str | None) -> None:
    make = loose(chain)
    if message is None:
        assert make(*steps).name
        return
    with pytest.raises(ChainError, match=message):
        make(*steps)


def test_result_needs_a_step_before_it() -> None:
    with pytest.raises(InvalidWorkflow, match="RESULT stands for"):
        chain(extract.step(RESULT), clean)
    with pytest.raises(InvalidWorkflow, match="RESULT stands for"):
        Workflow("w").add(clean.step(RESULT))


def test_a_chain_that_begins_with_a_step_takes_no_arguments() -> None:
    with pytest.raises(ChainError, match="Begin it with the task"):
        loose(chain(extract.step(1), clean))._draft((1,), {})

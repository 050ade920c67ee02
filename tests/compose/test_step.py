"""Steps: arguments and options are checked when the step is made."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compose.tasks import app, clean, extract, gated, loose

from rowlock import (
    InvalidArguments,
    InvalidOption,
    Rate,
    chain,
)
from rowlock.compose.step import step_of
from rowlock.model import workflow as model


def test_arguments_of_a_step_are_checked_at_once() -> None:
    with pytest.raises(InvalidArguments, match="source: int"):
        loose(extract).step("x")
    with pytest.raises(InvalidArguments, match="there is no argument 'sauce'"):
        loose(extract).step(sauce=1)
    with pytest.raises(InvalidArguments, match="strict: bool"):
        loose(clean).step(strict="perhaps")
    assert loose(clean).step(strict=True).missing == ["rows"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"unique_key": "x"}, "Give it to the workflow"),
        ({"idempotency_key": "x"}, "unique_key instead"),
        ({"tenant": "x"}, "Give it to the workflow"),
        ({"submitted_by": "x"}, "Give it to the workflow"),
        ({"session": object()}, "Give it to the workflow or chain"),
        ({"connection": object()}, "Give it to the workflow or chain"),
    ],
)
def test_what_makes_no_sense_for_a_step_is_refused(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidOption, match=advice):
        extract.options(**options).step(1)


def test_options_of_a_step_are_those_of_its_job() -> None:
    step = clean.options(priority=7, run_in="5m", tags=["x"], gate="g", max_age="1h").step([1])
    columns = model.columns_of(step.job.job)
    assert (columns["priority"], columns["delay"], columns["tags"]) == (7, "300.000000 s", ["x"])
    assert (columns["gate_key"], columns["max_age"]) == ("g", "3600.000000 s")


def test_a_gate_made_of_an_argument_that_is_not_known_yet_is_refused() -> None:
    with pytest.raises(InvalidOption, match="known only when the step before has ended"):
        chain(extract, gated)
    chain(extract, gated.options(gate="one"))
    assert gated.step([1, 2]).job.job.gate_key == "rows:2"


def test_a_rate_that_is_computed_from_the_arguments_belongs_to_the_step() -> None:
    @app.job("rated", rate=lambda rows, **_: Rate(len(rows), per="1s", key=f"rows:{len(rows)}"))
    async def rated(rows: list[int]) -> None: ...

    assert rated.step([1, 2]).job.job.rate_keys == ("rows:2",)
    assert rated.step([1]).job.job.rate_keys == ("rows:1",)
    with pytest.raises(InvalidOption, match=r"rated: a function computes its gate, rate or refs"):
        step_of(rated)

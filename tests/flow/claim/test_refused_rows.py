"""Jobs that the database refuses: when each is tried again, and when a whole lane rests."""

from __future__ import annotations

import logging

import pytest

from rowlock.flow.claim.refused_rows import MOST, RefusedRows
from rowlock.set_aside import SetAside

ERROR = ValueError("not this one")


class Bench:
    def __init__(self) -> None:
        self.now = 0.0
        self.set_aside = SetAside(logging.getLogger("rowlock.test"), lambda: self.now)
        self.refused = RefusedRows[int](self.set_aside, lambda: self.now, "claim")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_refused_job_is_tried_again_after_pauses_that_grow(bench: Bench) -> None:
    for pause in (1.0, 2.0, 5.0, 10.0, 30.0, 30.0):
        bench.refused.refused("a", 7, ERROR)
        assert bench.refused.passed_over("a") == [7]
        bench.now += pause - 0.1
        assert bench.refused.passed_over("a") == [7]
        bench.now += 0.2
        assert bench.refused.passed_over("a") == []
    assert "a" in bench.refused
    assert "b" not in bench.refused


def test_a_job_that_is_written_after_all_is_forgotten(bench: Bench) -> None:
    bench.refused.refused("a", 7, ERROR)
    assert (7, "claim") in bench.set_aside
    bench.refused.written("a", [7])
    assert "a" not in bench.refused
    assert (7, "claim") not in bench.set_aside


def test_a_job_that_was_not_refused_again_for_long_is_forgotten(bench: Bench) -> None:
    bench.refused.refused("a", 7, ERROR)
    bench.refused.written("a", [8])
    assert "a" in bench.refused
    bench.now += 62
    bench.refused.written("a", [])
    assert "a" not in bench.refused


def test_a_lane_of_which_every_job_is_refused_rests_longer_each_time(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for pause in (1.0, 2.0, 5.0):
        for job_id in range(1, MOST + 2):
            bench.refused.refused("a", job_id, ERROR)
        assert bench.refused.rests("a")
        assert len(bench.set_aside) == 0
        bench.now += pause + 0.1
        assert not bench.refused.rests("a")
    assert sum("left alone" in line for line in caplog.messages) == 2
    bench.refused.written("a", [1])
    bench.refused.rest("a", ERROR)
    bench.now += 1.1
    assert not bench.refused.rests("a")


def test_lanes_that_are_not_served_any_more_are_forgotten(bench: Bench) -> None:
    bench.refused.refused("a", 7, ERROR)
    bench.refused.keep(["b"])
    assert "a" not in bench.refused
    assert len(bench.set_aside) == 0

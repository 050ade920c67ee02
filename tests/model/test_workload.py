from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rowlock.model.lane import Lane
from rowlock.model.workload import WorkerView

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORKER = WorkerView(1, "w", "h", 1, "0", None, ("k",), NOW, NOW, "up", silent=False, running=0)


def test_a_worker_without_lanes_of_its_own_serves_every_lane() -> None:
    assert WORKER.serves("front")
    assert not replace(WORKER, lanes=()).serves("front")
    assert replace(WORKER, lanes=("front",)).serves("front")


def test_an_order_is_read_under_its_old_name_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="requested"):
        assert replace(WORKER, requested="drain").told == "drain"


def test_its_own_number_of_slots_wins_over_the_lanes() -> None:
    lane = Lane("front", slots=10)
    assert WORKER.slots_in(lane) == 10
    assert replace(WORKER, slots={"front": 3}).slots_in(lane) == 3
    assert replace(WORKER, lanes=("other",), slots={"front": 3}).slots_in(lane) == 0


@pytest.mark.parametrize("change", [{"state": "draining"}, {"silent": True}, {"requested": "drain"}])
def test_one_that_drains_or_is_silent_does_not_work(change: dict[str, object]) -> None:
    assert WORKER.works
    assert not replace(WORKER, **change).works  # type: ignore[arg-type]

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowlock.model.progress import ATTEMPT_LINES, Item, ItemCounts, ItemState, LogLine, Progress

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = BEGAN + timedelta(seconds=10)


def test_the_rate_of_a_counter_says_how_long_it_will_take() -> None:
    progress = Progress(done=30, total=100, started_at=BEGAN, reported_at=LATER, begun_at=10)
    assert (progress.fraction, progress.rate, progress.eta) == (0.3, 2.0, timedelta(seconds=35))


@pytest.mark.parametrize(
    "progress",
    [
        Progress(done=0, total=100, started_at=BEGAN, reported_at=BEGAN),
        Progress(done=5, started_at=BEGAN, reported_at=LATER),
        Progress(done=5, total=10),
    ],
)
def test_what_is_not_known_is_none(progress: Progress) -> None:
    assert progress.eta is None


def test_a_fraction_stays_between_0_and_1() -> None:
    assert [Progress(done=n, total=10).fraction for n in (-1, 11)] == [0.0, 1.0]
    assert Progress(done=1, total=0).fraction is None


def test_items_that_are_done_with() -> None:
    assert ItemCounts(4, 20, 2, 1).ended == 23
    assert Item("a", ItemState.SKIPPED, "load").key == "load\ta"


def test_the_number_of_a_log_line_tells_its_attempt() -> None:
    assert LogLine(3 * ATTEMPT_LINES + 7, BEGAN, 20, "app", "hello").fence == 3

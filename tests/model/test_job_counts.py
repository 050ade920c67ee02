"""Histograms of durations and the numbers made of counted rows."""

from __future__ import annotations

import pytest

from rowlock.model.job_counts import BOUNDS, DurationHistogram, end_counts


def histogram(**counts: int) -> DurationHistogram:
    """counts: by the index of the bucket, b0 and so on."""
    return DurationHistogram([counts.get(f"b{n}", 0) for n in range(len(BOUNDS) + 1)], 1.0)


@pytest.mark.parametrize(
    ("counted", "share", "seconds"),
    [
        (histogram(), 0.5, None),
        (histogram(b0=10), 0.5, 0.0025),
        (histogram(b0=10), 1.0, 0.005),
        (histogram(b7=4), 0.5, 0.75),
        (histogram(b0=50, b8=50), 0.5, 0.005),
        (histogram(b0=50, b8=50), 0.99, 1 + 1.5 * 49 / 50),
        (histogram(b17=3), 0.5, 14400.0),
    ],
)
def test_a_quantile_is_interpolated_as_prometheus_does(
    counted: DurationHistogram, share: float, seconds: float | None
) -> None:
    assert counted.quantile(share) == (None if seconds is None else pytest.approx(seconds))


def test_rows_are_told_apart_by_outcome_state_and_measure() -> None:
    def row(outcome: str, state: str, measure: str, n: int) -> dict[str, object]:
        return {"outcome": outcome, "state": state, "measure": measure, "bucket": 2, "n": n, "seconds": 0.02 * n}

    found = end_counts(
        [
            row("completed", "completed", "run", 5),
            row("completed", "completed", "wait", 5),
            row("failed", "", "run", 3),
            row("failed", "failed", "run", 2),
            row("lost", "", "run", 1),
            row("snoozed", "", "run", 4),
            row("unstarted", "cancelled", "none", 7),
            row("reopened", "", "none", 6),
        ]
    )
    assert found.ended == {"completed": 5, "failed": 2, "cancelled": 7}
    assert found.attempts == {
        ("completed", True): 5,
        ("failed", False): 3,
        ("failed", True): 2,
        ("lost", False): 1,
        ("snoozed", False): 4,
    }
    assert (found.retried, found.reopened) == (4, 6)
    assert (found.run.total, found.wait.total) == (15, 5)
    assert found.run.seconds == pytest.approx(0.3)

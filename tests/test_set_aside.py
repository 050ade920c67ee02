"""The list of jobs that a worker has set aside: its log lines, and what the beat says of it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from rowlock.set_aside import SetAside

logger = logging.getLogger("rowlock.test")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(clock: Clock, caplog: pytest.LogCaptureFixture) -> SetAside:
    caplog.set_level(logging.INFO, "rowlock.test")
    return SetAside(logger, clock)


def reported(jobs: SetAside) -> dict[str, Any]:
    text = jobs.report()
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


def test_one_line_says_that_it_begins_and_one_that_it_is_over(
    jobs: SetAside, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        jobs.begin(7, "finish", ValueError("held"), "process 12 (psql)")
        clock.now += 10
    jobs.end(7, "finish")
    jobs.end(7, "finish")
    begins, ends = caplog.messages
    assert "its finish fails: held; it waits for process 12 (psql); other jobs go on" in begins
    assert "its finish goes on after 50s" in ends


def test_the_beat_names_the_job_the_step_the_cause_and_for_how_long(jobs: SetAside, clock: Clock) -> None:
    assert jobs.report() is None
    jobs.begin(7, "finish", "held")
    clock.now += 30
    jobs.begin(7, "finish", "held still", "process 12")
    named = {"job": 7, "step": "finish", "error": "held still", "seconds": 30.0, "blocked_by": "process 12"}
    assert reported(jobs) == {"count": 1, "jobs": [named]}
    jobs.end(7, "finish")
    assert jobs.report() is None


def test_a_job_that_has_not_failed_for_long_is_not_reported_any_more(jobs: SetAside, clock: Clock) -> None:
    jobs.begin(7, "rescue", "held")
    clock.now += 121
    assert jobs.report() is None


def test_a_row_of_another_table_is_named_in_words_and_reported_beside_the_jobs(
    jobs: SetAside, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.begin("worker 7", "prune_workers", "not this one")
    jobs.begin(7, "finish", "held")
    clock.now += 5
    report = reported(jobs)
    assert (report["count"], len(report["jobs"])) == (1, 1)
    assert report["rows"] == [{"row": "worker 7", "step": "prune_workers", "error": "not this one", "seconds": 5.0}]
    assert caplog.messages[0] == ("worker 7 is set aside, its prune_workers fails: not this one; other rows go on")
    jobs.end("worker 7", "prune_workers")
    assert "rows" not in reported(jobs)


def test_a_row_that_has_not_failed_for_long_is_forgotten_and_that_is_logged(
    jobs: SetAside, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.begin(7, "release", "not this one")
    clock.now += 121
    assert jobs.report() is None
    assert len(jobs) == 0
    assert "its release has not failed again" in caplog.text


def test_thousands_of_jobs_fill_neither_the_log_nor_the_beat(jobs: SetAside, caplog: pytest.LogCaptureFixture) -> None:
    for job_id in range(1, 3001):
        jobs.begin(job_id, "claim", "refused")
    assert len(caplog.messages) == 11
    report = reported(jobs)
    assert (report["count"], len(report["jobs"])) == (3000, 20)

"""What probes are told: hung, ready, draining, drained; each from what the heartbeat's thread last noted."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, in_time

from rowlock.flow.worker.health import SignsOfLife, WorkerHealth, WorkerPhase

if TYPE_CHECKING:
    from rowlock import Rowlock

LIMIT = timedelta(seconds=10)


@pytest.mark.parametrize(
    ("signs", "hung"),
    [
        (SignsOfLife(), None),
        (SignsOfLife(ticked_at=95.0, blocked_for=9.0), None),
        (SignsOfLife(ticked_at=95.0, blocked_for=11.0), "the event loop has been blocked for 11 s"),
        (SignsOfLife(ticked_at=89.0), "the thread of the heartbeat has stood still for 11 s"),
        (SignsOfLife(ticked_at=99.0, answered_at=0.0), None),  # a database that is away kills no worker
    ],
)
def test_a_process_is_hung_when_its_loop_or_its_heartbeat_stands_still(signs: SignsOfLife, hung: str | None) -> None:
    assert signs.hung(100.0, LIMIT) == hung


def test_a_worker_is_out_of_touch_before_its_first_beat_and_when_beats_have_no_answer() -> None:
    assert "has not begun" in str(SignsOfLife().unanswered(100.0, 6))
    assert SignsOfLife(answered_at=95.0).unanswered(100.0, 6) is None
    assert SignsOfLife(answered_at=93.0).unanswered(100.0, 6) == "the database has not answered a heartbeat for 7 s"


def test_a_hung_worker_is_not_ready_either() -> None:
    health = WorkerHealth(WorkerPhase.RUNNING, 1, hung="hung", not_ready=None)
    assert (health.live, health.ready, health.drained, health.reason) == (False, False, False, "hung")


async def test_a_worker_is_ready_once_it_beats_and_drained_once_its_jobs_have_ended(app: Rowlock) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    @app.job("hold")
    async def hold() -> None:
        started.set()
        await release.wait()

    worker = app.make_worker()
    first = worker.health(time.monotonic())
    assert (first.phase, first.live, first.ready, first.running_jobs) == (WorkerPhase.STARTING, True, False, 0)
    await worker.start()

    async def is_ready() -> bool:
        return worker.health(time.monotonic()).ready

    await eventually(is_ready)
    await hold.enqueue()
    await in_time(started.wait())
    running = worker.health(time.monotonic())
    assert (running.phase, running.running_jobs, running.reason) == (WorkerPhase.RUNNING, 1, None)
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    draining = worker.health(time.monotonic())
    assert (draining.phase, draining.running_jobs, draining.live, draining.ready) == ("draining", 1, True, False)
    assert worker.health(time.monotonic() + 3600).live is False  # nothing was noted for an hour
    release.set()
    await in_time(stopping)
    assert worker.health(time.monotonic()).drained


async def test_a_worker_without_a_lane_is_not_ready(app: Rowlock) -> None:
    @app.job("idle")
    async def idle() -> None: ...

    worker = app.make_worker()
    await worker.start()

    async def is_ready() -> bool:
        return worker.health(time.monotonic()).ready

    await eventually(is_ready)
    worker.lanes = {}
    assert worker.health(time.monotonic()).reason == "it serves no lane"
    await worker.stop()

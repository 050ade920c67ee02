"""A broker is emptied and killed while a thousand jobs wait and run: nothing is lost, nothing is accepted twice.

Run with -s to see the numbers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.delivery.carriers import CASES
from tests.waiting import eventually

from rowlock import State

if TYPE_CHECKING:
    from tests.delivery.carriers import Stage

pytestmark = pytest.mark.timeout(600)
JOBS = 1000
REDIS = [case for case in CASES if case.name in ("arq", "celery-redis-prefork")]


@pytest.mark.parametrize("case", REDIS, ids=str)
async def test_a_thousand_jobs_survive_a_flushed_and_a_killed_broker(stage: Stage) -> None:
    assert stage.broker is not None
    stage.start()
    stage.start()
    await stage.app.tasks["add"].enqueue_many([{"first": n} for n in range(JOBS)])
    flushed = await _when(stage, JOBS // 5)
    stage.broker.flush()
    after_flush = await _until_more(stage, flushed)
    killed = await _when(stage, JOBS // 2)
    stage.broker.kill()
    stage.kill()  # arq workers end with their Redis, and whoever runs them starts them again
    down = time.monotonic()
    stage.broker.start()
    stage.start()
    stage.start()
    after_kill = await _until_more(stage, killed)
    restarted = time.monotonic() - down
    await _when(stage, JOBS, within=400)
    rows = await stage.sql.fetch("SELECT state, count(*) FROM rowlock.jobs GROUP BY state")
    states = {row[0]: row[1] for row in rows}
    outcomes = await stage.sql.fetchval("SELECT count(DISTINCT id) FROM rowlock.jobs WHERE result IS NOT NULL")
    lost = await stage.sql.fetchval("SELECT coalesce(sum(losses), 0) FROM rowlock.jobs")
    entered = await stage.sql.fetchval("SELECT count(*) FROM public.ran")
    print(  # noqa: T201 - the numbers are the purpose
        f"\n{stage.case}: flushed with {flushed} done, next job after {after_flush:.1f} s; killed with {killed} done, "
        f"next job {after_kill:.1f} s after the broker was back and its workers started ({restarted:.1f} s in all); "
        f"{states}, runs {entered}, losses {lost}"
    )
    assert states == {State.COMPLETED: JOBS}
    assert outcomes == JOBS
    # A handler runs again only where its process was killed.
    assert JOBS <= entered <= JOBS + lost


async def _done(stage: Stage) -> int:
    return int(await stage.sql.fetchval("SELECT count(*) FROM rowlock.jobs WHERE state = 'completed'"))


async def _when(stage: Stage, number: int, within: float = 200) -> int:
    """How many jobs are done, once so many are."""

    async def enough() -> int:
        done = await _done(stage)
        return done if done >= number else 0

    return await eventually(enough, within=within)


async def _until_more(stage: Stage, before: int) -> float:
    """Seconds until a job ends that was not among those."""
    began = time.monotonic()

    async def more() -> bool:
        # Those that ran when the broker went may still end.
        return await _done(stage) > before + 20

    await eventually(more, within=200)
    return time.monotonic() - began

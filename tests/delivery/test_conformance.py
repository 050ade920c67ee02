"""One suite for all carriers, on real brokers with real processes: the table decides, whatever carries its messages."""

from __future__ import annotations

import itertools
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.delivery.carriers import BROKERED, CASES
from tests.waiting import eventually

from rowlock import Lane, State, chain

if TYPE_CHECKING:
    from tests.delivery.carriers import Stage

    from rowlock.tasks import BaseTask

pytestmark = pytest.mark.timeout(300)
every_carrier = pytest.mark.parametrize("case", CASES, ids=str)
every_broker = pytest.mark.parametrize("case", BROKERED, ids=str)
TIMEOUT = 60


def task(stage: Stage, kind: str) -> BaseTask[..., object]:
    return stage.app.tasks[kind]


@every_carrier
async def test_a_job_runs_once_and_knows_its_message(stage: Stage) -> None:
    stage.start()
    added, threaded = await task(stage, "add").enqueue(2, second=3), await task(stage, "in_thread").enqueue(4)
    assert await added.wait(timeout=TIMEOUT) == 5
    assert await threaded.wait(timeout=TIMEOUT) == -4
    assert await stage.runs(added.id) == [1]
    job = await added.job()
    assert job.runs == 1
    if stage.case.carrier == "postgres":
        assert job.backend_job_id is None
        return
    (carrier,) = stage.app.carriers
    assert job.backend_job_id is not None
    assert await carrier.get_job_metadata("no such message") is None
    if stage.case.name.startswith("celery-rabbitmq"):
        return  # keeps no results

    async def result() -> object:
        return await carrier.get_job_result(str(job.backend_job_id))

    assert await eventually(result) == 5
    metadata = await carrier.get_job_metadata(job.backend_job_id)
    assert metadata is not None
    assert metadata["status"].lower() in ("complete", "success")


@every_carrier
async def test_whatever_becomes_runnable_is_delivered(stage: Stage) -> None:
    stage.start()
    flaky = await task(stage, "flaky").enqueue(failures=2)
    later = await task(stage, "quick").options(run_in="1s").enqueue(7)
    steps: list[Any] = [task(stage, "add"), task(stage, "quick")]
    pipeline: Any = await chain(*steps).enqueue(1)
    asking = await task(stage, "approved").enqueue()
    assert await later.wait(timeout=TIMEOUT) == 7
    assert await flaky.wait(timeout=TIMEOUT) == 3
    assert (await pipeline.wait(timeout=TIMEOUT)) == 2
    assert (await asking.job()).state is State.PENDING
    await stage.app.jobs.approve(asking.id, by="ada")
    assert await asking.wait(timeout=TIMEOUT) == "approved"

    async def hook() -> object:
        found = await stage.app.jobs.search("kind:flaky/on_success state:completed")
        return found.items

    assert await eventually(hook)
    assert await stage.runs(flaky.id) == [3]


@every_carrier
async def test_limits_hold_and_what_they_held_back_is_delivered(stage: Stage) -> None:
    await stage.app.lanes.create(Lane("capped", kinds=("capped",), max_total=1))
    stage.start()
    gated = [await task(stage, "gated").enqueue() for _ in range(4)]
    capped = [await task(stage, "capped").enqueue() for _ in range(4)]
    rated = [await task(stage, "rated").enqueue(n) for n in range(8)]
    for handle in (*gated, *capped, *rated):
        await handle.wait(timeout=TIMEOUT)
    numbers = [handle.id for handle in (*gated, *capped)]
    assert await stage.runs(*numbers) == [1] * 8
    for kind in ("gated", "capped"):
        spans = await stage.sql.fetch(
            "SELECT claimed_at, finished_at FROM rowlock.jobs WHERE kind = $1 ORDER BY claimed_at", kind
        )
        assert all(a["finished_at"] <= b["claimed_at"] for a, b in itertools.pairwise(spans)), kind


@every_carrier
async def test_a_drained_lane_gets_its_jobs_when_it_resumes(stage: Stage) -> None:
    await stage.app.lanes.create(Lane("default", kinds=("*",)))
    await stage.app.lanes.drain("default")
    stage.start()
    waiting = await task(stage, "add").enqueue(1)
    # A message that comes nevertheless starts nothing.
    if stage.case.carrier not in ("postgres", "inline"):
        await stage.app.carriers[0].enqueue("add", {"job_id": waiting.public_id})
    watched = await stage.app.lanes.create(Lane("other", kinds=("quick",)))
    assert watched.enabled
    assert await (await task(stage, "quick").enqueue(1)).wait(timeout=TIMEOUT) == 1
    assert (await waiting.job()).state is State.QUEUED
    await stage.app.lanes.resume("default")
    assert await waiting.wait(timeout=TIMEOUT) == 2
    assert await stage.runs(waiting.id) == [1]


@every_carrier
async def test_a_cancelled_job_does_not_run_and_a_running_one_stops(stage: Stage) -> None:
    later = await task(stage, "add").options(run_in="1h").enqueue(1)
    await stage.app.jobs.cancel(later.id)
    stage.start()
    running = await task(stage, "long").enqueue()

    async def has_begun() -> bool:
        return await stage.runs(running.id) == [1]

    await eventually(has_begun)
    assert (await running.job()).state is State.RUNNING
    await stage.app.jobs.cancel(running.id)

    async def ended() -> bool:
        return (await running.job()).state is State.CANCELLED

    await eventually(ended)
    assert await stage.runs(later.id, running.id) == [0, 1]


@every_broker
async def test_messages_that_come_twice_or_late_run_nothing_twice(stage: Stage) -> None:
    (carrier,) = stage.app.carriers
    job = await task(stage, "add").enqueue(1)
    for _ in range(5):
        await carrier.enqueue("add", {"job_id": job.public_id})
    stage.start()
    assert await job.wait(timeout=TIMEOUT) == 2
    for late in (job.public_id, await _gone(stage)):
        await carrier.enqueue("add", {"job_id": late})
    after = await task(stage, "add").enqueue(5)
    assert await after.wait(timeout=TIMEOUT) == 6
    assert await stage.runs(job.id, after.id) == [1, 1]
    assert (await job.job()).runs == 1


async def _gone(stage: Stage) -> str:
    """The id of a job that retention has removed."""
    removed = await task(stage, "quick").options(run_in="1h").enqueue(1)
    await stage.app.jobs.cancel(removed.id)
    await stage.app.jobs.delete(removed.id)
    return removed.public_id


@every_broker
async def test_without_the_broker_jobs_are_enqueued_and_delivered_later(stage: Stage) -> None:
    assert stage.broker is not None
    stage.broker.kill()
    jobs = [await task(stage, "add").enqueue(n) for n in range(3)]
    assert [(await job.job()).state for job in jobs] == [State.QUEUED] * 3
    stage.broker.start()
    stage.start()
    assert [await job.wait(timeout=TIMEOUT) for job in jobs] == [1, 2, 3]
    assert await stage.runs(*(job.id for job in jobs)) == [1, 1, 1]


@every_broker
async def test_messages_that_the_broker_lost_are_sent_again(stage: Stage) -> None:
    assert stage.broker is not None
    jobs = [await task(stage, "add").enqueue(n) for n in range(5)]

    async def told() -> bool:
        return all([(await job.job()).backend_job_id for job in jobs])

    await eventually(told)
    first = [(await job.job()).backend_job_id for job in jobs]
    stage.broker.flush()
    stage.start()
    assert [await job.wait(timeout=TIMEOUT) for job in jobs] == [1, 2, 3, 4, 5]
    assert await stage.runs(*(job.id for job in jobs)) == [1] * 5
    assert not {*first} & {(await job.job()).backend_job_id for job in jobs}


@every_broker
async def test_a_killed_process_loses_its_job_to_another_one(stage: Stage) -> None:
    await stage.app.lanes.create(Lane("long", kinds=("long",), heartbeat_timeout=timedelta(seconds=3)))
    stage.start()
    job = await task(stage, "long").enqueue(seconds=3)

    async def entered() -> bool:
        return await stage.runs(job.id) == [1]

    await eventually(entered)
    stage.kill(signal.SIGKILL)
    stage.start()
    assert await job.wait(timeout=TIMEOUT * 2) == "slept"
    after = await job.job()
    assert (after.losses, after.runs) == (1, 2)
    assert await stage.runs(job.id) == [2]

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from rowlock import Count, Rowlock, SchemaBehind, WorkerNotFound, WrongState
from rowlock.model.access import ALL, Principal
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.desk.conftest import Desk


async def test_the_status_of_an_empty_database(app: Rowlock) -> None:
    status = await app.workers.status()
    assert not status.lanes
    assert not status.workers
    assert not status.unserved


async def test_status_shows_which_job_is_in_which_slot_since_when(app: Rowlock) -> None:
    app.lanes.define("narrow", kinds=["hold"], slots=1)
    release, begun = asyncio.Event(), asyncio.Event()

    @app.job
    async def hold() -> None:
        begun.set()
        await release.wait()

    @app.job
    async def idle() -> None: ...

    async with app.worker({"narrow": 1, "default": 3}, name="clerk"):
        first = await hold.enqueue()
        await begun.wait()
        await hold.enqueue()
        await idle.options(run_in="1h").enqueue()
        status = await app.workers.status()
        (clerk,) = status.workers
        assert clerk.worker.name == "clerk"
        assert [(use.lane, use.used, use.slots) for use in clerk.slots] == [("default", 0, 3), ("narrow", 1, 1)]
        (job,) = clerk.jobs
        assert (job.id, job.lane, job.worker) == (first.id, "narrow", "clerk")
        assert job.since == (await first.job()).claimed_at
        default, narrow = status.lanes
        assert (narrow.running, narrow.slots, narrow.due) == (1, 1, Count(1))
        assert (default.running, default.slots, default.due, default.scheduled) == (0, 3, Count(0), Count(1))
        assert not status.unserved
        release.set()


async def test_status_names_kinds_that_no_lane_serves(desk: Desk) -> None:
    await desk.lane("mail", kinds=("send",))
    await desk.store.enqueue("orphan")
    status = await desk.app.workers.status()
    assert [(item.kind, item.due) for item in status.unserved] == [("orphan", Count(1))]
    assert [(lane.lane.name, lane.due) for lane in status.lanes] == [("mail", Count(0))]


async def test_jobs_of_a_silent_worker_stay_in_its_slots(desk: Desk) -> None:
    await desk.lane()
    worker = await desk.worker("quiet")
    await desk.store.claim(worker, await desk.store.enqueue())
    await desk.store.silence(worker)
    (status,) = (await desk.app.workers.status()).workers
    assert status.worker.silent
    assert [job.worker_silent for job in status.jobs] == [True]


@pytest.mark.parametrize("by", ["name", "id"])
async def test_a_drained_worker_ends_its_jobs_and_leaves(make_app: Callable[..., Rowlock], by: str) -> None:
    app, desk = make_app(), make_app()
    release, begun = asyncio.Event(), asyncio.Event()
    ran = []

    @app.job
    async def hold(n: int) -> int:
        ran.append(n)
        begun.set()
        await release.wait()
        return n

    async with app.worker(name="clerk") as worker, asyncio.timeout(30):
        assert worker is not None
        first = await hold.enqueue(1)
        await begun.wait()
        (asked,) = await desk.workers.drain("clerk" if by == "name" else worker.id)
        assert (asked.id, asked.told) == (worker.id, "drain")

        async def draining() -> bool:
            return worker.draining

        await eventually(draining)
        second = await hold.enqueue(2)
        assert "workers_draining" in (await desk.jobs.explain(second.id)).codes
        release.set()
        await worker.stopped.wait()
        assert await first.wait(timeout=20) == 1
        assert ran == [1]
        assert await desk.workers.list() == []
        assert "no_worker" in (await desk.jobs.explain(second.id)).codes


async def test_a_drain_does_not_touch_the_neighbour(make_app: Callable[..., Rowlock]) -> None:
    app = make_app()

    @app.job
    async def quick() -> int:
        return 7

    async with app.worker(name="one") as one, app.worker(name="two") as two, asyncio.timeout(30):
        assert one is not None
        assert two is not None
        await app.workers.drain("one")
        await one.stopped.wait()
        assert await (await quick.enqueue()).wait(timeout=20) == 7
        assert not two.draining


async def test_an_order_the_schema_cannot_store_says_so(desk: Desk, database_url: str) -> None:
    await migrate.downgrade(database_url, to=1)
    with pytest.raises(SchemaBehind, match="rowlock schema upgrade"):
        await desk.app.workers.drain("clerk")
    assert await desk.app.workers.list() == []


async def test_draining_somebody_who_is_not_there(desk: Desk) -> None:
    await desk.worker("clerk")
    with pytest.raises(WorkerNotFound, match=r"there are clerk\. Did you mean 'clerk'"):
        await desk.app.workers.drain("clark")
    with pytest.raises(WorkerNotFound, match="999"):
        await desk.app.workers.drain(999)
    assert [worker.told for worker in await desk.app.workers.list()] == [None]


async def test_a_gone_host_is_forgotten_and_its_jobs_are_rescued_at_once(app: Rowlock, desk: Desk) -> None:
    await desk.lane(stale="30 min")
    number, worker = await desk.store.enqueue(), await desk.worker("gone-host")
    await desk.store.claim(worker, number)
    asked = desk.app.desk(Principal("root", permissions=ALL))
    with pytest.raises(WrongState, match=r"it lives\. Drain it instead: rowlock workers drain gone-host"):
        await asked.workers.forget("gone-host")
    await desk.store.silence(worker, 20)
    (forgotten,) = await asked.workers.forget("gone-host")
    assert forgotten.id == worker
    assert await asked.workers.list() == []
    with pytest.raises(WorkerNotFound, match="No worker has the id or name"):
        await asked.workers.forget("gone-host")
    (line,) = await desk.app.audit.list(action="worker.forget")
    assert (line.target, line.subject, line.after) == (f"worker:{worker}", "root", {"state": "gone"})

    @app.job("k")
    async def k() -> None: ...

    async with app.worker(name="other"):
        job = await app.jobs.wait(number, timeout=60)
    assert job.state == "completed"
    assert job.losses == 1

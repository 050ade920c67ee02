"""Locks of jobs in child processes: their worker holds them, and they end with the attempt, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.flow.executors import jobs
from tests.waiting import eventually

from rowlock import LockTaken, Rowlock, State

if TYPE_CHECKING:
    from rowlock import Enqueued, LockView


async def lock_of(app: Rowlock, job_id: int | None, waiters: int = 0) -> LockView:
    async def held() -> LockView | None:
        for lock in await app.locks.list():
            if lock.holder is not None and lock.holder.job_id == job_id and len(lock.waiters) == waiters:
                return lock
        return None

    found = await eventually(held)
    assert found is not None
    return found


async def ended(app: Rowlock, job: Enqueued[str]) -> State:
    async def final() -> State | None:
        now = await app.jobs.get(job.id)
        return now.state if now.is_final else None

    found = await eventually(final)
    assert found is not None
    return found


async def free(app: Rowlock) -> None:
    async with app.lock("edition", 7, timeout="10s"):
        pass


@pytest.mark.parametrize("task", [jobs.process_lock, jobs.process_lock_async], ids=lambda task: task.kind)
async def test_a_child_waits_for_a_lock_holds_it_and_gives_it_back(app: Rowlock, task: jobs.ProcessLock) -> None:
    async with app.worker():
        async with app.lock("edition", 7):
            job = await task.enqueue(0.3)
            await lock_of(app, None, waiters=1)
        await lock_of(app, job.id)
        with pytest.raises(LockTaken, match=rf"job {job.public_id} \({job_kind(task)}\)"):
            async with app.lock("edition", 7, wait=False):
                pass
        assert await job.wait(timeout=20) == "done"
        await free(app)


async def test_whatever_ends_a_child_frees_its_lock(app: Rowlock) -> None:
    async with app.worker():
        cancelled = await jobs.process_lock.enqueue(seconds=60)
        await lock_of(app, cancelled.id)
        async with asyncio.timeout(20):
            waiting = await jobs.process_lock_async.enqueue(seconds=0)
            await lock_of(app, cancelled.id, waiters=1)
            await app.jobs.cancel(waiting.id)
            assert await ended(app, waiting) is State.CANCELLED
            await lock_of(app, cancelled.id)
            await app.jobs.cancel(cancelled.id)
        assert await ended(app, cancelled) is State.CANCELLED
        await free(app)
        killed = await jobs.process_lock.enqueue(seconds=60)
        await lock_of(app, killed.id)

        async def pid() -> int:
            progress = (await app.jobs.get(killed.id)).progress
            return int(progress.message or 0) if progress else 0

        os.kill(await eventually(pid), signal.SIGKILL)
        await free(app)  # it is run again a second later


@pytest.mark.parametrize("task", [jobs.process_lock, jobs.process_lock_async], ids=lambda task: task.kind)
async def test_a_child_is_told_that_its_lock_is_lost(app: Rowlock, task: jobs.ProcessLock) -> None:
    async with app.worker():
        job = await task.enqueue(60)
        await lock_of(app, job.id)
        async with app.database().connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'rowlock:locks' AND datname = current_database()"
            )
        assert await ended(app, job) is State.FAILED
        assert ((await app.jobs.get(job.id)).errors or {})["type"] == "rowlock.errors.LockLost"


def job_kind(task: jobs.ProcessLock) -> str:
    return task.kind.replace(".", r"\.")

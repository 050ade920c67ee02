from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, in_time

from rowlock import Lane, Rowlock
from rowlock.errors import JobNotFound, UnknownKind, WrongState
from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncpg

CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


async def test_jobs_run_by_id_share_one_worker_and_its_connections(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    go = asyncio.Event()

    @app.job
    async def hold(number: int) -> int:
        await go.wait()
        return number

    first = asyncio.create_task(app.run_job((await hold.enqueue(0)).id))
    await eventually(lambda: _running(sql, 1))
    before = await sql.fetchval(CONNECTIONS)
    others = [asyncio.create_task(app.run_job((await hold.enqueue(n)).id)) for n in range(1, 8)]
    await eventually(lambda: _running(sql, 8))
    assert await sql.fetchval(CONNECTIONS) <= before
    assert await sql.fetchval("SELECT count(*) FROM workers") == 1
    go.set()
    assert [(await in_time(each)).result for each in (first, *others)] == list(range(8))
    await app.close()
    assert await sql.fetchval("SELECT state FROM workers") == "gone"


async def _running(sql: asyncpg.Connection[asyncpg.Record], number: int) -> bool:
    return bool(await sql.fetchval("SELECT count(*) FROM jobs WHERE state = 'running'") == number)


async def test_blocking_code_runs_a_job(app: Rowlock) -> None:
    @app.job
    def add(first: int) -> int:
        return first + 1

    job = await asyncio.to_thread(lambda: app.run_job_sync(add.enqueue_sync(1).id))
    assert (job.state, job.result) == (State.COMPLETED, 2)


async def test_what_cannot_be_run_is_refused(app: Rowlock, database_url: str) -> None:
    other = Rowlock(database_url)

    @other.job
    async def foreign() -> None: ...

    @app.job
    async def known() -> None: ...

    with pytest.raises(JobNotFound):
        await app.run_job(4711)
    with pytest.raises(UnknownKind, match="foreign"):
        await app.run_job((await foreign.enqueue()).id)
    job = await known.enqueue()
    await app.lanes.drain("default")
    with pytest.raises(WrongState, match="rowlock lanes resume default"):
        await app.run_job(job.id)
    await app.lanes.resume("default")
    assert (await app.run_job(job.id)).state is State.COMPLETED
    await other.close()


async def test_a_caller_that_is_cancelled_returns_its_job(app: Rowlock) -> None:
    started = asyncio.Event()

    @app.job
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await endless.enqueue()
    calling = asyncio.create_task(app.run_job(job.id))
    await in_time(started.wait())
    calling.cancel()

    async def returned() -> bool:
        after = await job.job()
        return (after.state, after.attempt) == (State.QUEUED, 0)

    await eventually(returned)


async def test_a_worker_that_only_runs_jobs_by_id_asks_for_no_wake_ups(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job
    async def quick() -> None: ...

    await app.run_job((await quick.enqueue()).id)

    async def is_full() -> bool:
        return await sql.fetchval("SELECT hungry FROM workers") is False

    await eventually(is_full)


def test_a_forked_process_runs_jobs_with_a_worker_of_its_own(database_url: str) -> None:
    program = """
        import os, sys
        from rowlock import Rowlock
        app = Rowlock(sys.argv[1])
        @app.job
        def add(first: int) -> int:
            return first + 1
        here = app.run_job_sync(add.enqueue_sync(1).id)
        child = os.fork()
        if child == 0:
            there = app.run_job_sync(add.enqueue_sync(2).id)
            os._exit(0 if there.result == 3 and there.worker != here.worker else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert app.run_job_sync(add.enqueue_sync(3).id).worker == here.worker
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), database_url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_an_upkeep_only_worker_runs_no_job_and_rescues_those_of_others(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job
    async def work() -> None: ...

    await app.lanes.create(Lane("default", kinds=("*",)))
    waiting, lost = await work.enqueue(), await work.enqueue()
    await sql.execute(
        "INSERT INTO workers (name, host, pid, version, state, seen_at)"
        " VALUES ('dead', 'h', 1, '1', 'gone', now() - interval '1 hour')"
    )
    await sql.execute(
        "UPDATE jobs SET state = 'running', lane = 'default', attempt = 1, fence = fence + 1, claimed_at = now(),"
        " claimed_by = (SELECT id FROM workers WHERE name = 'dead') WHERE id = $1",
        lost.id,
    )
    worker = app.make_worker(name="keeper", upkeep_only=True)
    await worker.start()

    async def rescued() -> bool:
        return (await lost.job()).losses == 1

    await eventually(rescued)
    assert (await waiting.job()).state is State.QUEUED
    with pytest.raises(WrongState, match="runs no jobs"):
        await worker.run_by_id(waiting.id)
    await worker.stop()

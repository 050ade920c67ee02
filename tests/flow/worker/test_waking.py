from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.waiting import eventually

from rowlock.model.lane import Lane
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from rowlock import Rowlock
    from rowlock.store.executor import SqlSession

SLACK = 0.15
"""Seconds a scheduled job may be late; never early."""


async def test_an_idle_worker_is_woken_by_an_enqueue(app: Rowlock) -> None:
    started = asyncio.Event()

    @app.job
    async def ping() -> None:
        started.set()

    async with app.worker() as worker:
        assert worker is not None
        await asyncio.wait_for(worker._listener.listening.wait(), 10)
        waits = []
        for _ in range(5):
            started.clear()
            began = time.monotonic()
            await ping.enqueue()
            await asyncio.wait_for(started.wait(), 10)
            waits.append(time.monotonic() - began)
    assert min(waits) < 0.1


async def test_the_first_job_after_a_pause_carries_its_wake_up(app: Rowlock, database_url: str) -> None:
    """PostgreSQL lets one notifying transaction commit at a time: a second producer must not wait in that queue."""

    @app.job
    async def ping() -> None: ...

    sent: list[str] = []
    await ping.enqueue()
    async with app.worker() as worker, Database(database_url).connection() as other:
        assert worker is not None
        await asyncio.wait_for(worker._listener.listening.wait(), 10)
        database = app.database()
        before = database.fetch

        async def fetch(name: str, /, **values: object) -> list[asyncpg.Record]:
            sent.append(name)
            return await before(name, **values)

        database.fetch = fetch  # type: ignore[method-assign]  # to see whether a wake-up is a statement of its own
        alone = await ping.enqueue()
        await alone.wait(timeout=10)
        assert "wake" not in sent
        async with other.transaction():
            await other.execute("SELECT pg_advisory_xact_lock(hashtext($1), 2)", database.channel)
            beside = await ping.enqueue()
            await beside.wait(timeout=10)
        assert sent.count("wake") == 1


@pytest.mark.parametrize("by", ["run_in", "run_at"])
async def test_a_scheduled_job_starts_on_time(app: Rowlock, by: str) -> None:
    @app.job
    async def ring() -> None: ...

    async with app.worker():
        bound = (
            ring.options(run_in="1.2s")
            if by == "run_in"
            else ring.options(run_at=datetime.now(UTC) + timedelta(seconds=1.2))
        )
        handles = [await bound.enqueue(), await ring.options(run_in="0.6s").enqueue(), await bound.enqueue()]
        jobs = [await app.jobs.wait(handle.id, timeout=15) for handle in handles]
    late = sorted((job.claimed_at - job.run_after).total_seconds() for job in jobs if job.claimed_at)
    assert late[0] >= 0
    assert late[1] < SLACK  # the third may have met a busy machine


async def test_a_job_scheduled_before_the_worker_started_starts_on_time(app: Rowlock) -> None:
    @app.job
    async def ring() -> None: ...

    handle = await ring.options(run_in="2.5s").enqueue()
    await app.database().fetch("sweep")
    async with app.worker():
        job = await app.jobs.wait(handle.id, timeout=15)
    assert job.claimed_at is not None
    assert timedelta(0) <= job.claimed_at - job.run_after < timedelta(seconds=1)


async def test_without_listen_a_job_is_found_by_polling(make_app: Callable[..., Rowlock]) -> None:
    app = make_app(listen=False)

    @app.job
    async def ping() -> str:
        return "pong"

    async with app.worker():
        began = time.monotonic()
        assert await (await ping.enqueue()).wait(timeout=10) == "pong"
        assert time.monotonic() - began < 2.5
    rows = await app.database().fetch("workers")
    assert not rows


async def test_a_commit_that_comes_late_is_found(app: Rowlock, database_url: str) -> None:
    started: list[int] = []

    @app.job
    async def note(n: int) -> None:
        started.append(n)

    async with app.worker():
        late = await asyncpg.connect(database_url)
        try:
            transaction = late.transaction()
            await transaction.start()
            await note.options(connection=late).enqueue(1)
            for n in range(2, 30):  # others move the cursor on meanwhile
                await (await note.enqueue(n)).wait(timeout=10)
            began = time.monotonic()
            await transaction.commit()
        finally:
            await late.close()
        await eventually(lambda: has(started, 1))
        assert time.monotonic() - began < 2


async def has(items: list[int], item: int) -> bool:
    return item in items


async def test_a_waiter_hears_of_the_end_at_once(app: Rowlock) -> None:
    go = asyncio.Event()
    ended = 0.0

    @app.job
    async def work() -> None:
        nonlocal ended
        await go.wait()
        ended = time.monotonic()

    async with app.worker():
        delays = []
        for _ in range(3):
            go.clear()
            handle = await work.enqueue()
            waiting = asyncio.create_task(handle.wait(timeout=10))
            await eventually(lambda: listening(app))
            go.set()
            await waiting
            delays.append(time.monotonic() - ended)
    assert min(delays) < 0.3


async def listening(app: Rowlock) -> bool:
    async with app.database().connection() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        waiters = await connection.fetchval("SELECT count(*) FROM rowlock.job_waiters")
        return bool(waiters and await connection.fetchval(f"{query} AND application_name = 'rowlock:listen'") >= 2)


async def test_an_idle_worker_asks_the_database_once_a_second_at_most(
    app: Rowlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    async def ping() -> None: ...

    own: list[str] = []
    upkeep: list[str] = []
    session, connection = WorkerConnection.session, Database.connection

    def count(link: WorkerConnection) -> AbstractAsyncContextManager[SqlSession]:
        own.append(link.role)
        return session(link)

    def count_upkeep(database: Database) -> AbstractAsyncContextManager[asyncpg.Connection[asyncpg.Record]]:
        upkeep.append("client")
        return connection(database)

    for name in ("a", "b", "c", "d"):
        await app.lanes.create(Lane(name, kinds=(name,)))
    async with app.worker() as worker:
        assert worker is not None
        await (await ping.enqueue()).wait(timeout=10)
        # For ten seconds after some activity a worker looks more often, for late commits.
        worker._cursors._active.clear()
        await asyncio.sleep(1.5)
        monkeypatch.setattr(WorkerConnection, "session", count)
        monkeypatch.setattr(Database, "connection", count_upkeep)
        await asyncio.sleep(10)
    assert len(own) <= 10 + 1, own  # the last one says good-bye
    assert len(upkeep) <= 10  # duties are one worker's of all

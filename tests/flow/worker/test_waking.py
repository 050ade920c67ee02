from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.waiting import eventually, in_time, nothing_happens_for, promptly, until

from rowlock.flow.claim.cursors import Cursors
from rowlock.flow.worker import heartbeat
from rowlock.flow.worker.claim_loop import ClaimLoop
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from rowlock import Rowlock, Task
    from rowlock.store.executor import SqlSession

AT_ONCE = 2.0
"""Seconds; with quiet_loop the sweep, every ten seconds, is all that makes a worker look for jobs otherwise."""


@pytest.fixture
def _quiet_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker looks for jobs when something asks it to, and never because some time has passed."""
    monkeypatch.setattr(ClaimLoop, "_rest", lambda *_: 3600.0)
    monkeypatch.setattr(Cursors, "lagging", False)


@pytest.mark.usefixtures("_quiet_loop")
async def test_an_idle_worker_is_woken_by_an_enqueue(app: Rowlock) -> None:
    started = asyncio.Event()

    @app.job
    async def ping() -> None:
        started.set()

    async with app.worker() as worker:
        assert worker is not None
        await in_time(worker._listener.listening.wait())

        async def wait() -> float:
            started.clear()
            began = time.monotonic()
            await ping.enqueue()
            await in_time(started.wait())
            return time.monotonic() - began

        await wait()  # may have met a sweep; the next one is ten seconds away
        await promptly(wait, under=AT_ONCE, tries=5)


@pytest.mark.usefixtures("_quiet_loop")
async def test_a_worker_that_was_full_is_woken_as_soon_as_it_is_idle(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers wake workers that reported a free slot: one that becomes free must not wait for its next beat."""
    release = asyncio.Event()

    @app.job
    async def fills() -> None:
        await release.wait()

    async def hungry() -> bool:
        return bool(await sql.fetchval("SELECT hungry FROM workers"))

    async def full() -> bool:
        return not await hungry()

    async with app.worker({"default": 1}) as worker:
        assert worker is not None
        monkeypatch.setattr(heartbeat, "EVERY", 3600.0)
        filling = await fills.enqueue()
        await eventually(lambda: is_running(app, filling.id))
        worker._heartbeat.beat_now()
        await eventually(full)
        release.set()
        await filling.wait(timeout=60)
        await eventually(hungry)


async def is_running(app: Rowlock, job_id: int) -> bool:
    return (await app.jobs.get(job_id)).state is State.RUNNING


async def test_the_first_job_after_a_pause_carries_its_wake_up(app: Rowlock, database_url: str) -> None:
    """PostgreSQL lets one notifying transaction commit at a time: a second producer must not wait in that queue."""

    @app.job
    async def ping() -> None: ...

    sent: list[str] = []
    await ping.enqueue()
    async with app.worker() as worker, Database(database_url).connection() as other:
        assert worker is not None
        await in_time(worker._listener.listening.wait())
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


@pytest.mark.usefixtures("_quiet_loop")
@pytest.mark.parametrize("by", ["run_in", "run_at"])
async def test_a_scheduled_job_starts_on_time(app: Rowlock, by: str) -> None:
    @app.job
    async def ring() -> None: ...

    async def late() -> float:
        last = ring.options(run_in="1.2s" if by == "run_in" else None, run_at=None if by == "run_in" else in_a_second())
        handles = [await last.enqueue(), await ring.options(run_in="0.6s").enqueue(), await last.enqueue()]
        jobs = [await app.jobs.wait(handle.id, timeout=30) for handle in handles]
        delays = [(job.claimed_at - job.run_after).total_seconds() for job in jobs if job.claimed_at]
        assert min(delays) >= 0
        return max(delays)

    async with app.worker():
        await promptly(late, under=AT_ONCE, tries=5)


def in_a_second() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.usefixtures("_quiet_loop")
async def test_a_job_scheduled_before_the_worker_started_starts_on_time(app: Rowlock) -> None:
    @app.job
    async def ring() -> None: ...

    async def late() -> float:
        handle = await ring.options(run_in="1s").enqueue()
        await app.database().fetch("sweep", only=None)
        async with app.worker():
            job = await app.jobs.wait(handle.id, timeout=30)
        assert job.claimed_at is not None
        assert job.claimed_at >= job.run_after
        return (job.claimed_at - job.run_after).total_seconds()

    await promptly(late, under=AT_ONCE, tries=5)


async def test_without_listen_a_job_is_found_by_polling(make_app: Callable[..., Rowlock]) -> None:
    app = make_app(listen=False)

    @app.job
    async def ping() -> str:
        return "pong"

    async with app.worker():
        assert await (await ping.enqueue()).wait(timeout=30) == "pong"
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
            await transaction.commit()
        finally:
            await late.close()
        await eventually(lambda: has(started, 1))


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

        async def delay() -> float:
            go.clear()
            handle = await work.enqueue()
            waiting = asyncio.create_task(handle.wait(timeout=30))
            await eventually(lambda: listening(app))
            go.set()
            await waiting
            return time.monotonic() - ended

        await promptly(delay, under=0.3, tries=5)


async def listening(app: Rowlock) -> bool:
    async with app.database().connection() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        waiters = await connection.fetchval("SELECT count(*) FROM rowlock.job_waiters")
        return bool(waiters and await connection.fetchval(f"{query} AND application_name = 'rowlock:listen'") >= 2)


async def _enqueue_urgent(_app: Rowlock, work: Task[[str], None]) -> None:
    await work.options(priority=7).enqueue("urgent")


async def _reprioritise(app: Rowlock, work: Task[[str], None]) -> None:
    await app.jobs.reprioritise((await work.enqueue("urgent")).id, 7)


async def _edit(app: Rowlock, work: Task[[str], None]) -> None:
    await app.jobs.edit((await work.enqueue("urgent")).id, priority=7)


async def _age(app: Rowlock, work: Task[[str], None]) -> None:
    """A job at a priority that the worker does not know rises to the next one."""
    urgent = (await work.enqueue("urgent")).id
    async with app.database().connection() as connection, connection.transaction():
        await connection.execute(
            "INSERT INTO rowlock.pairs (kind, priority, share, low_water) VALUES ('work', 7, 0, '2000-01-01')"
        )
        await connection.execute(
            "UPDATE rowlock.jobs SET priority = 7, run_after = now() - interval '1 day' WHERE id = $1", urgent
        )
        await connection.execute("UPDATE rowlock.duties SET every = '100 ms' WHERE name = 'ageing'")


@pytest.mark.parametrize("order", [_enqueue_urgent, _reprioritise, _edit, _age])
async def test_a_busy_worker_hears_of_a_priority_that_its_kind_never_had(
    app: Rowlock, order: Callable[[Rowlock, Task[[str], None]], Awaitable[None]]
) -> None:
    ran: list[str] = []
    go = asyncio.Event()

    @app.job("work")
    async def work(name: str) -> None:
        await go.wait()
        ran.append(name)
        await asyncio.sleep(0.01)

    await app.lanes.create("default", kinds=["*"], slots=1, aging_interval="1h")
    await work.enqueue_many([{"name": "plain"} for _ in range(400)])
    async with app.database().connection() as connection:  # the sweep would find the pair as well, seconds later
        await connection.execute("UPDATE rowlock.duties SET every = '1 hour', last_run_at = now() WHERE name = 'sweep'")
    async with app.worker():
        await eventually(lambda: nobody_is_woken(app))
        await order(app, work)
        go.set()
        await until(lambda: "urgent" in ran)
        assert len(ran) < 400


async def nobody_is_woken(app: Rowlock) -> bool:
    """Whether the worker has said that it has no free slot, so that producers send it no wake-ups."""
    async with app.database().connection() as connection:
        return not await connection.fetchval("SELECT bool_or(hungry) FROM rowlock.workers")


IDLE = 5


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
        await nothing_happens_for(1.5)
        monkeypatch.setattr(WorkerConnection, "session", count)
        monkeypatch.setattr(Database, "connection", count_upkeep)
        await nothing_happens_for(IDLE)
    assert len(own) <= IDLE + 2, (
        own
    )  # one at either end, as the beat and this second hand differ; the last says good-bye
    assert len(upkeep) <= IDLE + 2  # duties are one worker's of all

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from tests.waiting import let_others_run, nothing_happens_for

from rowlock import Rowlock
from rowlock.settings import Settings
from rowlock.store.driver.pool import FRESH, Pool

if TYPE_CHECKING:
    import asyncpg


class Line:
    """As much of a connection as the pool looks at."""

    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def is_in_transaction(self) -> bool:
        return False

    def terminate(self) -> None:
        self.closed = True

    async def close(self, timeout: float | None = None) -> None:
        del timeout
        self.closed = True


async def connect() -> asyncpg.Connection[asyncpg.Record]:
    return cast("asyncpg.Connection[asyncpg.Record]", Line())


@pytest.fixture
def pool() -> Pool:
    return Pool(connect, 1)


async def test_an_idle_connection_is_there_at_once_and_only_once(pool: Pool) -> None:
    assert pool.acquire_idle() is None
    connection = await pool.acquire()
    pool.release(connection)
    assert pool.acquire_idle() is connection
    assert pool.acquire_idle() is None
    pool.release(connection)
    await pool.close()


async def test_places_are_handed_over_in_the_order_of_asking(pool: Pool) -> None:
    first = await pool.acquire()
    order: list[int] = []

    async def next_one(number: int) -> None:
        connection = await pool.acquire()
        order.append(number)
        assert pool.acquire_idle() is None, "a place that somebody waits for was given to another"
        pool.release(connection)

    tasks = [asyncio.create_task(next_one(number)) for number in range(3)]
    await let_others_run()
    pool.release(first)
    assert pool.acquire_idle() is None
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]
    await pool.close()


@pytest.mark.parametrize("handed", [False, True])
async def test_one_who_gives_up_waiting_costs_no_place(pool: Pool, *, handed: bool) -> None:
    first = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await let_others_run()
    if handed:
        pool.release(first)
        waiting.cancel()
    else:
        waiting.cancel()
        pool.release(first)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        assert await pool.acquire() is first
    await pool.close()


async def test_a_failed_connect_costs_no_place() -> None:
    attempts = 0

    async def refusing() -> asyncpg.Connection[asyncpg.Record]:
        nonlocal attempts
        attempts += 1
        raise ConnectionRefusedError

    pool = Pool(refusing, 1)
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await pool.acquire()
    assert attempts == 3
    await pool.close()


async def test_a_connection_that_died_while_idle_is_not_lent(pool: Pool) -> None:
    connection = await pool.acquire()
    pool.release(connection)
    connection.terminate()
    assert pool.acquire_idle() is None
    assert await pool.acquire() is not connection
    await pool.close()


class Clock:
    """Seconds, as told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Asked(Line):
    """Counts the questions; a dead one does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.dead = 0, False

    async def execute(self, _text: str, *, timeout: float) -> None:
        del timeout
        self.asked += 1
        if self.dead:
            raise TimeoutError


async def test_a_connection_is_asked_only_after_it_was_idle_for_long() -> None:
    lines: list[Asked] = []

    async def opening() -> asyncpg.Connection[asyncpg.Record]:
        lines.append(Asked())
        return cast("asyncpg.Connection[asyncpg.Record]", lines[-1])

    clock = Clock()
    pool = Pool(opening, 3, clock=clock)
    taken = [await pool.acquire() for _ in range(3)]
    for connection in taken:
        pool.release(connection)
    clock.now += FRESH
    assert pool.acquire_idle() is taken[2]
    pool.release(taken[2])
    assert [line.asked for line in lines] == [0, 0, 0]
    clock.now += FRESH + 1
    assert pool.acquire_idle() is None, "it may be dead"
    assert await pool.acquire() is taken[2]
    assert [line.asked for line in lines] == [0, 0, 1]
    pool.release(taken[2])
    clock.now += FRESH + 1
    lines[2].dead = True
    fresh = await pool.acquire()
    assert fresh is cast("object", lines[3])
    assert [line.asked for line in lines] == [0, 0, 2, 0], "each of them would have taken its time"
    assert [line.closed for line in lines] == [True, True, True, False]
    pool.release(fresh)
    await pool.close()


async def test_an_answer_that_nobody_waits_for_costs_the_connection_and_no_place() -> None:
    line = Asked()

    async def opening() -> asyncpg.Connection[asyncpg.Record]:
        return cast("asyncpg.Connection[asyncpg.Record]", line)

    clock = Clock()
    pool = Pool(opening, 1, clock=clock)
    pool.release(await pool.acquire())
    clock.now += FRESH + 1
    line.execute = lambda *_, **__: asyncio.sleep(3600)  # type: ignore[method-assign]  # it answers late
    taking = asyncio.create_task(pool.acquire())
    await let_others_run()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert line.closed
    line = Asked()
    async with asyncio.timeout(5):
        pool.release(await pool.acquire())
    await pool.close()


def end_clients(url: str) -> None:
    """End the server's side of every pooled connection, and return when it is gone; no event loop runs meanwhile."""
    mine = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rowlock:client'"
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(f"SELECT pg_terminate_backend(pid) {mine}").fetchall() != []
        while connection.execute(f"SELECT 1 {mine}").fetchone():
            pass


@pytest.mark.parametrize("noticed", [False, True])
async def test_a_connection_that_ended_while_the_loop_was_busy_is_replaced(database_url: str, noticed: bool) -> None:
    """The loop has not read the server's farewell yet, or has just done so; nothing is sent after it."""
    async with Rowlock(database_url, settings=Settings()) as app:

        @app.job
        async def work() -> None: ...

        async def end() -> None:
            end_clients(database_url)
            if noticed:
                await nothing_happens_for(0.1)

        await work.enqueue()
        await end()
        await work.enqueue()
        await end()
        assert len(await app.jobs.list()) == 2
        await end()
        async with app.database().connection() as connection:
            assert await connection.fetchval("SELECT 1") == 1

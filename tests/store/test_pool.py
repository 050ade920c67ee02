from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from rowlock.store.pool import Pool

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
    assert pool.take_idle() is None
    connection = await pool.take()
    pool.give_back(connection)
    assert pool.take_idle() is connection
    assert pool.take_idle() is None
    pool.give_back(connection)
    await pool.close()


async def test_places_are_handed_over_in_the_order_of_asking(pool: Pool) -> None:
    first = await pool.take()
    order: list[int] = []

    async def next_one(number: int) -> None:
        connection = await pool.take()
        order.append(number)
        assert pool.take_idle() is None, "a place that somebody waits for was given to another"
        pool.give_back(connection)

    tasks = [asyncio.create_task(next_one(number)) for number in range(3)]
    await asyncio.sleep(0)
    pool.give_back(first)
    assert pool.take_idle() is None
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]
    await pool.close()


@pytest.mark.parametrize("handed", [False, True])
async def test_one_who_gives_up_waiting_costs_no_place(pool: Pool, *, handed: bool) -> None:
    first = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    if handed:
        pool.give_back(first)
        waiting.cancel()
    else:
        waiting.cancel()
        pool.give_back(first)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        assert await pool.take() is first
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
            await pool.take()
    assert attempts == 3
    await pool.close()


async def test_a_connection_that_died_while_idle_is_not_lent(pool: Pool) -> None:
    connection = await pool.take()
    pool.give_back(connection)
    connection.terminate()
    assert pool.take_idle() is None
    assert await pool.take() is not connection
    await pool.close()

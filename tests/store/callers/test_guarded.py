from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.store.callers.neighbours import AUTOCOMMIT, NEIGHBOURS, TABLE, neighbour
from tests.waiting import eventually, in_time

from rowlock import ClaimLost, Context, InvalidOption, Rowlock
from rowlock.store import executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

every_neighbour = pytest.mark.parametrize("name", NEIGHBOURS)


class Shop:
    """An application whose handler writes an order under guard, step by step as the test allows."""

    def __init__(self, url: str, name: str, isolation: str = "READ COMMITTED") -> None:
        self.app = Rowlock(url)
        self.running, self.go, self.held, self.commit, self.end = (asyncio.Event() for _ in range(5))
        self.end.set()
        self.raised: list[BaseException] = []

        @self.app.job
        async def order(ctx: Context, number: int) -> None:
            self.running.set()
            with contextlib.suppress(asyncio.CancelledError):  # a handler that goes on when it is told to stop
                await self.go.wait()
            async with neighbour(name, url, isolation) as caller:
                try:
                    await caller.write(number)
                    async with ctx.guarded(caller.joins):
                        self.held.set()
                        await self.commit.wait()
                    await caller.commit()
                    await self.end.wait()
                except Exception as error:
                    self.raised.append(error)
                    raise

        self.order = order

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        observer = await asyncpg.connect(self.app.database().url)
        try:
            await observer.execute(TABLE)
            async with self.app, self.app.worker():
                yield observer
        finally:
            await observer.close()


@every_neighbour
async def test_rows_commit_while_the_claim_stands(name: str, database_url: str) -> None:
    shop = Shop(database_url, name)
    shop.go.set()
    shop.commit.set()
    async with shop.open() as observer:
        job = await shop.order.enqueue(1)
        await job.wait(timeout=20)
        assert await observer.fetchval("SELECT count(*) FROM orders") == 1
    assert shop.raised == []


@every_neighbour
async def test_a_stopped_job_loses_its_rows(name: str, database_url: str) -> None:
    shop = Shop(database_url, name)
    async with shop.open() as observer:
        job = await shop.order.enqueue(1)
        await in_time(shop.running.wait())
        await shop.app.jobs.stop(job.id)

        async def refused() -> list[BaseException]:
            return shop.raised

        (error,) = await eventually(refused)
        assert isinstance(error, ClaimLost)
        assert "Roll back" in str(error)
        assert await observer.fetchval("SELECT count(*) FROM orders") == 0
        assert (await shop.app.jobs.get(job.id)).state == "cancelled"


@every_neighbour
async def test_whoever_revokes_a_guarded_claim_waits_for_the_commit(
    name: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "BRIEF", 60.0)  # a slow machine takes its time
    shop = Shop(database_url, name)
    shop.go.set()
    shop.end.clear()
    async with shop.open() as observer:
        job = await shop.order.enqueue(1)
        await in_time(shop.held.wait())
        stopping = asyncio.create_task(shop.app.jobs.stop(job.id))

        async def waits() -> bool:
            return bool(
                await observer.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND wait_event_type = 'Lock' AND application_name = 'rowlock:client'"
                )
            )

        await eventually(waits)
        assert not stopping.done()
        assert await observer.fetchval("SELECT count(*) FROM orders") == 0
        shop.commit.set()
        # The handler has committed and has not ended: the rows are safe, the job is stopped.
        assert (await in_time(stopping)).state == "cancelled"
        assert await observer.fetchval("SELECT count(*) FROM orders") == 1
    assert shop.raised == []


@every_neighbour
async def test_a_guard_without_a_transaction_is_refused(name: str, database_url: str) -> None:
    shop = Shop(database_url, name, AUTOCOMMIT)
    shop.go.set()
    async with shop.open():
        await shop.order.options(max_attempts=1).enqueue(1)

        async def refused() -> list[BaseException]:
            return shop.raised

        (error,) = await eventually(refused)
        assert isinstance(error, InvalidOption)
        assert "open transaction" in str(error)

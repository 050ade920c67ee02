"""Through PgBouncer in transaction mode, statements have the settings that they are written for."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.factories import opened
from tests.pooler import pgbouncer
from tests.waiting import eventually, in_time

from rowlock import Retry, Rowlock
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import Database
from torture import server as servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

HOSTILE = {
    "default_transaction_isolation": "serializable",
    "lock_timeout": "0",
    "statement_timeout": "0",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "gin_fuzzy_search_limit": "1",
    "standard_conforming_strings": "off",
}
SETTINGS = """
SELECT current_setting('transaction_isolation') AS isolation, current_setting('lock_timeout') AS lock_timeout,
       current_setting('statement_timeout') AS statement_timeout, current_setting('array_nulls') AS array_nulls
"""


@pytest.fixture(scope="module")
def own_server() -> Iterator[servers.Server]:
    """A server on TCP: PgBouncer may not be root, and the usual one lets no other user in."""
    name = f"pooled-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with servers.postgres("auto" if os.environ.get("ROWLOCK_TEST_PG") == "15" else "embedded", name) as server:
        yield server


@pytest.fixture
async def direct_url(own_server: servers.Server) -> AsyncIterator[str]:
    async with own_server.database(f"pooled_{uuid.uuid4().hex}") as url:
        yield url


async def make_hostile(url: str) -> None:
    connection = await asyncpg.connect(url)
    name = await connection.fetchval("SELECT current_database()")
    for setting, value in HOSTILE.items():
        await connection.execute(f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'")
    await connection.close()


async def test_every_statement_has_its_isolation_and_its_limits(direct_url: str, tmp_path: Path) -> None:
    await make_hostile(direct_url)
    async with pgbouncer(direct_url, tmp_path) as url:
        database = Database(url, pooled=True, direct_url=direct_url)
        connection = await database.connect("finish", lock_wait=0.5)
        (alone,) = await connection.fetch(SETTINGS)
        async with connection.transaction():
            within = await connection.fetchrow(SETTINGS)
            assert within == alone
        assert dict(alone) == {
            "isolation": "read committed",
            "lock_timeout": "500ms",
            "statement_timeout": "30s",
            "array_nulls": "on",
        }
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            assert await connection.fetchval("SELECT current_setting('transaction_isolation')") == "repeatable read"
        await connection.close()
        plain = await asyncpg.connect(url, statement_cache_size=0)
        assert await plain.fetchval("SELECT current_setting('transaction_isolation')") == "serializable"
        await plain.close()
        await database.close()


async def test_a_worker_does_not_wait_for_a_held_row_for_long(direct_url: str, tmp_path: Path) -> None:
    async with pgbouncer(direct_url, tmp_path) as url, opened(direct_url) as other:
        job = await other.enqueue()
        link = WorkerConnection(Database(url, pooled=True, direct_url=direct_url), "finish", lock_wait=0.5)
        async with other.connection.transaction():
            await other.value("SELECT id FROM {s}.jobs WHERE id = $1 FOR UPDATE", job)
            began = time.monotonic()
            with pytest.raises(asyncpg.LockNotAvailableError):
                await in_time(link.fetch("lock_jobs", ids=[job]))
            assert time.monotonic() - began < 20
        assert [row["id"] for row in await link.fetch("lock_jobs", ids=[job])] == [job]
        await link.close()


async def test_jobs_live_under_hostile_defaults_beside_a_held_row(direct_url: str, tmp_path: Path) -> None:
    await make_hostile(direct_url)
    async with pgbouncer(direct_url, tmp_path) as url:
        app = Rowlock(url, settings=Settings(pooled=True, direct_url=direct_url))
        started = asyncio.Event()

        @app.job(retry=Retry(attempts=1))
        async def work(number: int) -> int:
            started.set()
            await asyncio.sleep(0.05)
            return number

        async with app, opened(direct_url) as other:
            async with app.worker():
                held = await work.enqueue(0)
                await in_time(started.wait())
                async with other.connection.transaction():
                    await other.value("SELECT id FROM {s}.jobs WHERE id = $1 FOR UPDATE", held.id)
                    jobs = [await work.enqueue(number) for number in range(1, 31)]

                    async def neighbours() -> bool:
                        found = await app.jobs.many([job.id for job in jobs])
                        return {job.state for job in found} == {State.COMPLETED}

                    await eventually(neighbours)

                async def released() -> bool:
                    return (await app.jobs.get(held.id)).state is State.COMPLETED

                await eventually(released)
            attempts = await other.value("SELECT max(attempt) FROM {s}.jobs")
            assert attempts == 1

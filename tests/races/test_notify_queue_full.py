"""A listener of another program, idle in a transaction, has filled the server's queue of notifications: jobs go on."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.databases import SETTINGS, chosen_server
from tests.factories import Store, opened
from tests.waiting import eventually, in_time, until_cancelled

from rowlock import Retry, Rowlock
from rowlock.errors import NotifyQueueFull
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.store.database import Database
from rowlock.store.embedded import start
from rowlock.store.schema.migrate import upgrade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

FULL = 0.9
PAGES = 64
"""The smallest queue there is; PostgreSQL 17 and later can be told."""
TOO_LONG = (
    "before PostgreSQL 17 the queue always has 8 GB (1,048,576 pages of 8 kB), which a test would have to send and to "
    "store; max_notify_queue_pages came with 17"
)


async def is_accepted(sender: asyncpg.Connection[asyncpg.Record]) -> bool:
    try:
        await sender.execute(f"NOTIFY elsewhere, '{'x' * 7900}'")
    except asyncpg.ProgramLimitExceededError:
        return False
    return True


@contextlib.asynccontextmanager
async def full_queue(url: str) -> AsyncIterator[None]:
    """The queue is full until the end of the block; every backend that had to read it has its connection dropped."""
    listener, sender = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        await listener.execute("LISTEN elsewhere")
        async with listener.transaction():
            await listener.fetchval("SELECT 1")
            # Reading the usage frees what has been read, which a NOTIFY that fails does not.
            while await is_accepted(sender) or await sender.fetchval("SELECT pg_notification_queue_usage()") < FULL:
                pass
            yield
    finally:
        await listener.close()
        await sender.close()


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chosen = chosen_server()
    if chosen.get("version") != 18:
        pytest.skip(TOO_LONG)
    folder: Path = tmp_path_factory.mktemp("small") / "postgres"
    held = start(folder, settings={**SETTINGS, "max_notify_queue_pages": str(PAGES)}, **chosen)
    try:
        asyncio.run(upgrade(held.url, schema="rowlock"))
        yield held.url
    finally:
        held.close()


async def waited_for(store: Store, job_id: int) -> None:
    await store.execute("INSERT INTO {s}.job_waiters VALUES ($1, gen_random_uuid(), now() + interval '1 hour')", job_id)


async def test_jobs_are_enqueued_run_cancelled_and_awaited_while_nobody_can_be_notified(
    small_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Rowlock(small_server, settings=Settings(shutdown_after=timedelta(seconds=3)))

    @app.job
    async def quick() -> int:
        return 1

    @app.job(retry=Retry(attempts=2, minimum="10ms"))
    async def failing() -> None:
        message = "no ink"
        raise ValueError(message)

    @app.job
    async def endless() -> None:
        await until_cancelled()

    try:
        async with app.worker():
            assert await in_time((await quick.enqueue()).wait()) == 1
            running = await endless.enqueue()
            async with full_queue(small_server):
                jobs = [await quick.enqueue() for _ in range(20)]
                jobs += await quick.enqueue_many([{}] * 5)
                assert [await in_time(job.wait()) for job in jobs] == [1] * 25
                failed = await failing.enqueue()
                await eventually(lambda: is_state(app, failed.id, State.FAILED))
                await app.jobs.cancel(running.id)
                await eventually(lambda: is_state(app, running.id, State.CANCELLED))
    finally:
        await app.close()
    told = [record for record in caplog.records if "queue of notifications is full" in record.getMessage()]
    assert 1 <= len(told) <= 10
    assert "idle in transaction" in told[0].getMessage()


async def is_state(app: Rowlock, job_id: int, state: State) -> bool:
    return (await app.jobs.get(job_id)).state is state


@pytest.mark.parametrize(
    "step",
    ["complete", "complete_plain", "give_back", "cancel_running", "stop", "stalled", "too_old", "notify", "wake"],
)
async def test_no_statement_fails_because_it_cannot_notify(small_server: str, step: str) -> None:
    async with full_queue(small_server), opened(small_server) as store:
        worker = await store.worker()
        (claim,) = await store.claim(worker, await store.enqueue())
        await waited_for(store, claim.job_id)
        channel = store.database.channel
        match step:
            case "complete_plain":
                assert await store.complete(claim) == [claim.job_id]
            case "complete":
                assert await store.complete(claim, state="failed") == [claim.job_id]
            case "give_back":
                await store.execute("UPDATE {s}.jobs SET cancel_requested = true WHERE id = $1", claim.job_id)
                assert await store.give_back(claim) == [claim.job_id]
            case "cancel_running":
                assert await store.cancel_running(claim.job_id) == [claim.job_id]
            case "stop":
                assert await store.stop(claim.job_id) == [claim.job_id]
            case "stalled":
                await store.lane("l", kinds=["k"], stall_after=timedelta(seconds=1))
                await store.execute("UPDATE {s}.jobs SET lane = 'l', claimed_at = now() - interval '1 hour'")
                statement = store.database.statements["stalled"]
                text = statement.dollar.replace("pg_postmaster_start_time()", "'-infinity'::timestamptz")
                values = {"watched": timedelta(days=1), "max_losses": 3, "channel": channel, "only": None}
                assert await store.connection.fetch(text, *statement.bind(values))
                await store.execute("DELETE FROM {s}.lanes WHERE name = 'l'")
            case "too_old":
                await store.execute(
                    "UPDATE {s}.jobs SET too_old_at = now() - interval '1 s' WHERE id = $1", claim.job_id
                )
                assert claim.job_id in await store.too_old()
            case _:
                await store.fetch(step, channel=channel, payload="{}")


async def notify_often(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(PAGES):
            await connection.execute(f"NOTIFY elsewhere, '{'x' * 7900}'")


async def test_the_error_names_the_cause_and_how_to_find_it(small_server: str) -> None:
    database = Database(small_server)
    try:
        async with full_queue(small_server):
            with pytest.raises(NotifyQueueFull, match="pg_stat_activity"):
                await notify_often(database)
    finally:
        await database.close()

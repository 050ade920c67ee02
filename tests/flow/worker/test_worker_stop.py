from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import asyncpg
from tests.waiting import eventually, in_time

from rowlock import Rowlock, SchemaAhead
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    import pytest

    from rowlock.flow.worker.worker import Worker


async def test_a_step_that_stopping_cancels_is_no_failure(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    waiting = asyncio.Event()

    async def step() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # What asyncpg may make of a cancellation that meets the server's answer.
            raise asyncpg.InternalClientError("got result for unknown protocol state 3") from None

    async with Rowlock(database_url) as app:
        worker = app.make_worker()
        await worker.start()
        worker._background.spawn(step())
        await waiting.wait()
        await worker.stop()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_worker_leaves_tables_that_are_for_newer_code(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], caplog: pytest.LogCaptureFixture
) -> None:
    """It ends what it has, claims nothing more, and says what to do."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    newer = migrate.newest() + 1
    worker = app.make_worker(name="old")
    await worker.start()
    last = await slow.enqueue()
    await begun.wait()
    await sql.execute("INSERT INTO schema_steps VALUES ($1, 'fits', now(), $2)", newer, newer - 1)
    await sql.execute("INSERT INTO schema_steps VALUES ($1, 'breaks', now(), $1)", newer + 1)
    await eventually(lambda: _drains(worker))
    left = await slow.enqueue()
    go_on.set()
    await in_time(worker.stopped.wait())
    assert isinstance(worker.outdated, SchemaAhead)
    assert worker.dismissed
    assert (await app.jobs.get(last.id)).state == "completed"
    assert (await app.jobs.get(left.id)).state == "queued"
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert said == (
        f"worker old claims nothing more: The schema 'rowlock' is for code made for {newer + 1} or later; "
        f"this code was made for {newer - 1}. Install a newer rowlock."
    )


async def _drains(worker: Worker) -> bool:
    return worker.draining

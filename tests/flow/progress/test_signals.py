"""Handlers that wait for a word from outside, on every executor, without holding a slot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from rowlock import Context, Retry, SyncContext
from rowlock.errors import SignalTimeout
from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncpg

    from rowlock import Rowlock

    Sql = asyncpg.Connection[asyncpg.Record]


async def send(app: Rowlock, job: int, name: str, payload: str) -> str:
    (row,) = await app.database().fetch("signal_send", id=job, name=name, payload=payload, by_whom="ada")
    await app.database().fetch("notify", channel=app.database().channel, payload='{"wake":[]}')
    return str(row["what"])


async def waits(sql: Sql, job: int) -> None:
    await eventually(lambda: sql.fetchval("SELECT state = 'blocked' FROM jobs WHERE id = $1", job))


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_handler_gives_its_slot_back_while_it_waits(app: Rowlock, sql: Sql, *, blocking: bool) -> None:
    runs: list[int] = []
    app.lanes.define("default", kinds=["*"], slots=1)

    @app.job
    async def other() -> None: ...

    if blocking:

        @app.job("asks")
        def asks(ctx: SyncContext) -> object:
            runs.append(ctx.job.attempt)
            return [ctx.wait_for("answer"), ctx.wait_for("more", timeout="1h")]
    else:

        @app.job("asks")
        async def asks_too(ctx: Context) -> object:
            runs.append(ctx.job.attempt)
            return [await ctx.wait_for("answer"), await ctx.wait_for("more", timeout="1h")]

    async with app.worker():
        handle = await app.task("asks").enqueue()
        await waits(sql, handle.id)
        # The lane's only slot is free.
        await (await other.enqueue()).wait(timeout=10)
        assert await send(app, handle.id, "more", '"early"') == "sent"
        assert await send(app, handle.id, "more", '"late"') == "kept"
        assert await sql.fetchval("SELECT state FROM jobs WHERE id = $1", handle.id) == "blocked"
        assert await send(app, handle.id, "answer", '{"ok": true}') == "sent"
        assert await handle.wait(timeout=10) == [{"ok": True}, "early"]
    assert runs == [1, 1]
    history = await app.jobs.history(handle.id)
    assert [attempt.outcome for attempt in history.attempts] == ["waiting"]


async def test_a_signal_is_kept_for_later_attempts(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def asks(ctx: Context) -> object:
        told = await ctx.wait_for("answer")
        if ctx.job.attempt == 1:
            raise ValueError
        return told

    handle = await asks.enqueue()
    await send(app, handle.id, "answer", "7")
    async with app.worker():
        assert await handle.wait(timeout=10) == 7


async def test_a_wait_that_takes_too_long_is_told_to_the_handler(app: Rowlock) -> None:
    @app.job
    async def asks(ctx: Context) -> str:
        try:
            await ctx.wait_for("answer", timeout=0.1)
        except SignalTimeout:
            return "nobody answered"
        return "answered"

    async with app.worker():
        handle = await asks.enqueue()
        assert await handle.wait(timeout=10) == "nobody answered"


async def test_a_waiting_job_can_be_cancelled(app: Rowlock, sql: Sql) -> None:
    @app.job
    async def asks(ctx: Context) -> None:
        await ctx.wait_for("answer")

    async with app.worker():
        handle = await asks.enqueue()
        await waits(sql, handle.id)
        job = await app.jobs.cancel(handle.id)
    assert job.state is State.CANCELLED
    assert await send(app, handle.id, "answer", "1") == "final"


async def test_what_a_handler_catches_does_not_keep_it_from_waiting(app: Rowlock, sql: Sql) -> None:
    cleaned = asyncio.Event()

    @app.job
    async def asks(ctx: Context) -> object:
        try:
            return await ctx.wait_for("answer")
        except Exception:  # noqa: BLE001 - what many handlers do
            return "swallowed"
        finally:
            cleaned.set()

    async with app.worker():
        handle = await asks.enqueue()
        await waits(sql, handle.id)
        assert cleaned.is_set()
        await send(app, handle.id, "answer", "1")
        assert await handle.wait(timeout=10) == 1


async def test_a_stream_tells_of_the_wait_and_its_end(app: Rowlock, sql: Sql) -> None:
    @app.job
    async def asks(ctx: Context) -> object:
        return await ctx.wait_for("answer")

    async with app.worker():
        handle = await asks.enqueue()
        await waits(sql, handle.id)
        await send(app, handle.id, "answer", "1")
        await handle.wait(timeout=10)
    async with await app.streams.follow(handle.id, after="0") as following:
        told = [event.name async for event in following]
    assert [name for name in told if name.startswith("job.")] == [
        "job.created",
        "job.claimed",
        "job.waiting",
        "job.released",
        "job.claimed",
        "job.completed",
    ]

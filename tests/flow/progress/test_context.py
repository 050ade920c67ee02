"""Phases, pace and cursors: what a person sees of a running job, and where its next attempt goes on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.waiting import eventually, in_time

import rowlock
from rowlock import Retry, SyncContext
from rowlock.errors import ClaimLost, InvalidOption
from rowlock.flow.progress.base_context import io_of
from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncpg

    from rowlock import Rowlock

AT_ONCE = Retry(attempts=3, minimum="0s", jitter="0s")
ONCE = Retry(attempts=1)


@pytest.mark.parametrize("how", ["async", "blocking"])
async def test_earlier_phases_stay_visible(app: Rowlock, how: str) -> None:
    if how == "async":

        @app.job(retry=ONCE)
        async def work(ctx: rowlock.Context) -> None:
            async with ctx.phase("extract", total=2) as phase:
                await phase.advance(2)
            async with ctx.phase("load", total=10, done=4) as phase:
                await phase.advance(3)
                raise OSError
    else:

        @app.job(retry=ONCE)
        def work(ctx: SyncContext) -> None:
            with ctx.phase("extract", total=2) as phase:
                phase.advance(2)
            with ctx.phase("load", total=10, done=4) as phase:
                phase.advance(3)
                raise OSError

    async with app.worker():
        job = await app.jobs.wait((await work.enqueue()).id, timeout=10)
    assert job.progress is not None
    extract, load = job.progress.phases
    assert (extract.name, extract.done, extract.total) == ("extract", 2, 2)
    assert job.claimed_at <= extract.started_at <= extract.ended_at <= load.started_at  # type: ignore[operator]  # all known
    # The attempt ended inside it: it was never left.
    assert (load.name, load.done, load.total, load.ended_at) == ("load", 7, 10, None)
    # Three counted since it began at four.
    assert job.progress.rate is not None
    assert job.progress.eta is not None
    seconds = (job.progress.reported_at - load.started_at).total_seconds()  # type: ignore[operator]  # all known
    assert job.progress.rate == pytest.approx(3 / seconds)
    assert job.progress.eta.total_seconds() == pytest.approx(seconds, abs=1e-5)
    assert job.last_progress_at == job.progress.reported_at


async def test_progress_starts_anew_with_each_attempt(app: Rowlock) -> None:
    second, go = asyncio.Event(), asyncio.Event()

    @app.job(retry=AT_ONCE)
    async def work(ctx: rowlock.Context) -> None:
        if ctx.job.attempt == 1:
            async with ctx.phase("first"), ctx.item("a"):
                await io_of(ctx).channel.flush()
                raise OSError
        second.set()
        await go.wait()
        await ctx.progress(1)

    async with app.worker():
        handle = await work.enqueue()
        await in_time(second.wait())
        assert (await app.jobs.get(handle.id)).progress is None
        go.set()
        job = await app.jobs.wait(handle.id, timeout=10)
    assert job.progress is not None
    assert (job.progress.phases, job.progress.items, job.progress.done) == ((), None, 1)
    assert await app.jobs.items(handle.id) == []


@pytest.mark.parametrize("how", ["async", "iterable", "blocking"])
async def test_a_loop_goes_on_after_the_last_element_that_was_done(app: Rowlock, how: str) -> None:
    did: list[tuple[int, str]] = []

    async def chunks() -> Any:  # noqa: ANN401 - an async generator
        for letter in "abcdef":
            yield letter

    if how == "blocking":

        @app.job(retry=AT_ONCE)
        def work(ctx: SyncContext) -> None:
            for letter in ctx.resume("chunk", "abcdef"):
                did.append((ctx.job.attempt, letter))
                if letter == "d" and ctx.job.attempt == 1:
                    raise OSError
    else:

        @app.job(retry=AT_ONCE)
        async def work(ctx: rowlock.Context) -> None:
            async for letter in ctx.resume("chunk", chunks() if how == "async" else "abcdef"):
                did.append((ctx.job.attempt, letter))
                if letter == "d" and ctx.job.attempt == 1:
                    raise OSError

    async with app.worker():
        handle = await work.enqueue()
        assert (await app.jobs.wait(handle.id, timeout=10)).state is State.COMPLETED
    assert did == [(1, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "d"), (2, "e"), (2, "f")]


async def test_a_checkpoint_is_committed_with_the_users_rows_or_not_at_all(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    await sql.execute("CREATE TABLE public.mine (page integer)")
    found: list[object] = []

    @app.job(retry=Retry(attempts=4, minimum="0s", jitter="0s"))
    async def pages(ctx: rowlock.Context) -> None:
        found.append(await ctx.checkpoint.load())
        match ctx.job.attempt:
            case 1:
                await ctx.checkpoint.save({"page": 1})
                async with sql.transaction():
                    await sql.execute("INSERT INTO public.mine VALUES (2)")
                    await ctx.checkpoint.save({"page": 2}, session=sql)
                    # Whoever waits for that transaction must not be the worker: other reports go on meanwhile.
                    await ctx.progress(1)
                    await io_of(ctx).channel.flush()
            case 2:
                async with sql.transaction():
                    await sql.execute("INSERT INTO public.mine VALUES (3)")
                    await ctx.checkpoint.save({"page": 3}, session=sql)
                    raise OSError
            case 3:
                await ctx.checkpoint.save({"page": 4})
            case _:
                pass
        if ctx.job.attempt < 4:
            raise OSError

    async with app.worker():
        await (await pages.enqueue()).wait(timeout=10)
    assert found == [None, {"page": 2}, {"page": 2}, {"page": 4}]
    assert [row["page"] for row in await sql.fetch("SELECT page FROM public.mine")] == [2]


async def test_a_checkpoint_in_a_transaction_needs_the_claim_and_the_transaction(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    refused: list[Exception] = []

    @app.job(retry=ONCE)
    async def late(ctx: rowlock.Context) -> None:
        # As whoever takes the job from this attempt does, but unheard: only the guard can notice.
        await sql.execute("UPDATE jobs SET fence = fence + 1 WHERE id = $1", ctx.job.id)
        try:
            async with sql.transaction():
                await ctx.checkpoint.save(1, session=sql)
        except ClaimLost as error:
            refused.append(error)
            raise

    @app.job(retry=ONCE)
    async def outside(ctx: rowlock.Context) -> None:
        await ctx.checkpoint.save(1, session=sql)

    async with app.worker():
        handle = await late.enqueue()
        await eventually(lambda: _truth(refused))
        job = await app.jobs.wait((await outside.enqueue()).id, timeout=10)
    assert job.errors is not None
    assert str(job.errors["type"]).endswith(InvalidOption.__name__)
    assert await sql.fetchval("SELECT count(*) FROM job_checkpoints WHERE job_id = $1", handle.id) == 0


async def _truth(value: object) -> object:
    return value


async def test_a_blocking_session_saves_a_checkpoint_too(app: Rowlock, database_url: str) -> None:
    @app.job(retry=AT_ONCE)
    def work(ctx: SyncContext) -> object:
        if ctx.job.attempt == 1:
            with psycopg.connect(database_url) as connection, connection.transaction():
                ctx.checkpoint.save({"page": 5}, session=connection)
            raise OSError
        return ctx.checkpoint.load()

    async with app.worker():
        assert await (await work.enqueue()).wait(timeout=10) == {"page": 5}


@pytest.mark.parametrize("how", ["async", "blocking"])
async def test_a_phase_inside_another_ends_it_and_the_log_says_so(app: Rowlock, how: str) -> None:
    if how == "async":

        @app.job(retry=ONCE)
        async def work(ctx: rowlock.Context) -> None:
            async with ctx.phase("outer", total=5) as outer:
                await outer.advance(2)
                async with ctx.phase("inner", total=9) as inner:
                    await inner.advance()
                    await outer.advance()
    else:

        @app.job(retry=ONCE)
        def work(ctx: SyncContext) -> None:
            with ctx.phase("outer", total=5) as outer:
                outer.advance(2)
                with ctx.phase("inner", total=9) as inner:
                    inner.advance()
                    outer.advance()

    async with app.worker():
        job = await app.jobs.wait((await work.enqueue()).id, timeout=10)
    assert job.progress is not None
    assert [(one.name, one.done) for one in job.progress.phases] == [("outer", 2), ("inner", 1)]
    assert all(one.ended_at is not None for one in job.progress.phases)
    (line,) = await app.jobs.logs(job.id)
    assert line.message.startswith("phase 'inner' began inside 'outer', which ends here")


async def test_a_phase_after_one_that_failed_is_no_mistake(app: Rowlock) -> None:
    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        for name in ("first", "second"):
            with contextlib.suppress(OSError):
                async with ctx.phase(name):
                    raise OSError

    async with app.worker():
        job = await app.jobs.wait((await work.enqueue()).id, timeout=10)
    assert job.progress is not None
    assert [one.name for one in job.progress.phases] == ["first", "second"]
    assert await app.jobs.logs(job.id) == []

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, let_others_run

import rowlock
from rowlock import Retry
from rowlock.errors import InvalidResult
from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncpg

    from rowlock import Rowlock
    from rowlock.model.progress import Progress

AT_ONCE = Retry(attempts=3, minimum="0s", jitter="0s")


async def progress_of(app: Rowlock, job_id: int) -> Progress | None:
    return (await app.jobs.get(job_id)).progress


async def test_progress_and_phase_are_seen_while_the_job_runs_and_after(app: Rowlock) -> None:
    go = asyncio.Event()

    @app.job
    async def work(ctx: rowlock.Context) -> None:
        async with ctx.phase("extract", total=4) as phase:
            await phase.advance()
            await phase.advance(2, message="three of four")
            await go.wait()
        async with ctx.phase("load", total=2) as phase:
            await phase.advance(2)

    async with app.worker():
        handle = await work.enqueue()
        seen = await eventually(lambda: progress_of(app, handle.id))
        assert seen is not None
        assert (seen.phase, seen.done, seen.total, seen.message) == ("extract", 3, 4, "three of four")
        assert seen.fraction == 0.75
        go.set()
        await handle.wait(timeout=10)
    last = await progress_of(app, handle.id)
    assert last is not None
    assert (last.phase, last.done, last.total, last.message) == ("load", 2, 2, None)


async def test_a_thousand_reports_are_few_writes(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    @app.job
    async def work(ctx: rowlock.Context) -> None:
        for n in range(1000):
            await ctx.progress(n + 1, 1000)
            await let_others_run()

    async with app.worker():
        await (await work.enqueue()).wait(timeout=10)
    row = await sql.fetchrow("SELECT n, progress->>'done' AS done FROM job_progress")
    assert row is not None
    assert row["done"] == "1000"
    assert row["n"] <= 4


async def test_the_checkpoint_survives_a_retry_and_the_progress_does_not(app: Rowlock) -> None:
    found: list[object] = []
    progress: list[Progress | None] = []

    @app.job(retry=AT_ONCE)
    async def pages(ctx: rowlock.Context) -> int:
        checkpoint = await ctx.checkpoint.load()
        found.append(checkpoint)
        first = checkpoint["page"] if isinstance(checkpoint, dict) else 0
        if first == 2:
            await ctx.progress(1, 10, message="second time")
            await ctx.checkpoint.save({"page": 3})
            progress.append(await progress_of(app, ctx.job.id))
            return first
        await ctx.progress(7, 10, message="first time")
        await ctx.checkpoint.save({"page": 2})
        raise OSError

    async with app.worker():
        assert await (await pages.enqueue()).wait(timeout=10) == 2
    assert found == [None, {"page": 2}]
    assert progress[0] is not None
    assert (progress[0].done, progress[0].message) == (1, "second time")


async def test_what_json_cannot_hold_neither_ends_the_job_nor_its_neighbours(app: Rowlock) -> None:
    @app.job
    async def odd(ctx: rowlock.Context) -> None:
        await ctx.progress(float("nan"), float("inf"), message="nul \x00 and \ud800")

    @app.job
    async def even(ctx: rowlock.Context) -> str:
        await ctx.checkpoint.save([1, 2])
        await ctx.progress(2, 2)
        return "fine"

    async with app.worker():
        for _ in range(3):
            handles = [await odd.enqueue(), await even.enqueue(), await odd.enqueue()]
            for handle in handles:
                assert (await app.jobs.wait(handle.id, timeout=10)).state is State.COMPLETED
    last = await progress_of(app, handles[0].id)
    assert last is not None
    assert last.message is not None
    assert last.message.startswith("nul \ufffd and")


async def test_a_checkpoint_the_database_refuses_is_the_handlers_error_alone(app: Rowlock) -> None:
    both = asyncio.Barrier(2)

    @app.job(retry=Retry(attempts=1))
    async def bad(ctx: rowlock.Context) -> None:
        await both.wait()
        await ctx.checkpoint.save({"text": "\x00"})

    @app.job(retry=Retry(attempts=1))
    async def good(ctx: rowlock.Context) -> str:
        await both.wait()
        await ctx.checkpoint.save({"text": "fine"})
        return "saved"

    async with app.worker():
        refused, kept = await bad.enqueue(), await good.enqueue()
        assert await kept.wait(timeout=10) == "saved"
        job = await app.jobs.wait(refused.id, timeout=10)
        both = asyncio.Barrier(1)
        assert await (await good.enqueue()).wait(timeout=10) == "saved"
    assert job.state is State.FAILED
    assert job.errors is not None
    assert str(job.errors["type"]).endswith(InvalidResult.__name__)


async def test_guarded_rows_are_written_only_under_the_claim(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    await sql.execute("CREATE TABLE public.mine (job bigint)")

    @app.job(retry=Retry(attempts=1))
    async def work(ctx: rowlock.Context, lose: bool) -> None:
        if lose:
            await app.jobs.stop(ctx.job.id)
        async with sql.transaction(), ctx.guarded(sql):
            await sql.execute("INSERT INTO public.mine VALUES ($1)", ctx.job.id)

    async with app.worker():
        kept = await work.enqueue(lose=False)
        await kept.wait(timeout=10)
        lost = await work.enqueue(lose=True)
        assert (await app.jobs.wait(lost.id, timeout=10)).state is State.CANCELLED
    assert [row["job"] for row in await sql.fetch("SELECT job FROM public.mine")] == [kept.id]


@pytest.mark.parametrize("cancel", ["cancel", "stop"])
async def test_a_job_that_reports_can_be_ended(app: Rowlock, cancel: str) -> None:
    @app.job
    async def work(ctx: rowlock.Context) -> None:
        for n in range(10_000):
            await ctx.checkpoint.save(n)

    async with app.worker():
        handle = await work.enqueue()
        await eventually(lambda: progress_of(app, handle.id))
        await (app.jobs.cancel(handle.id) if cancel == "cancel" else app.jobs.stop(handle.id))
        assert (await app.jobs.wait(handle.id, timeout=10)).state is State.CANCELLED

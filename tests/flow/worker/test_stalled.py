"""A lane that gives a silent job up, while its worker lives and its handler waits for what never comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import in_time, until_cancelled

import rowlock
from rowlock.errors import InvalidOption
from rowlock.flow.progress.base_context import io_of

if TYPE_CHECKING:
    import asyncpg

    from rowlock import Rowlock


async def test_the_hung_handler_is_cancelled_and_its_job_runs_again(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @app.job(lane="watched")
    async def work(ctx: rowlock.Context) -> str:
        if ctx.job.losses:
            return "second time"
        await ctx.progress(1, 2)
        begun.set()
        try:
            await until_cancelled()
        except asyncio.CancelledError:
            assert io_of(ctx).lost
            cancelled.set()
            raise
        return "never"

    async with app.worker():
        await sql.execute("UPDATE lanes SET stall_after = '1 s' WHERE name = 'watched'")
        handle = await work.enqueue()
        await in_time(begun.wait())
        await in_time(cancelled.wait())
        assert await handle.wait(timeout=10) == "second time"
    history = await app.jobs.history(handle.id)
    assert [attempt.outcome for attempt in history.attempts] == ["lost"]
    assert history.attempts[0].error is not None
    assert history.attempts[0].error["reason"] == "no progress for 1 s"
    assert history.job.state is rowlock.State.COMPLETED


async def test_a_job_that_stalls_each_time_fails_when_it_was_lost_as_often_as_it_may_be_attempted(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    runs: list[tuple[int, int, int]] = []

    @app.job(lane="watched", retry=rowlock.Retry(attempts=2))
    async def work(ctx: rowlock.Context) -> None:
        runs.append((ctx.job.attempt, ctx.job.losses, ctx.job.runs))
        await until_cancelled()

    async with app.worker():
        await sql.execute("UPDATE lanes SET stall_after = '1 s' WHERE name = 'watched'")
        job = await app.jobs.wait((await work.enqueue()).id, timeout=60)
        assert runs == [(1, 0, 1), (1, 1, 2)]
        assert (job.state, job.attempt, job.losses, job.runs) == (rowlock.State.FAILED, 0, 2, 2)
        assert job.errors is not None
        assert job.errors["reason"] == "quarantined"
        assert job.errors["message"] == "no progress for 1 s; that was loss 2 of 2 that it may have"
        explained = await app.jobs.explain(job.id)
        assert "no progress for 1 s" in explained.verdict


async def test_the_limit_is_set_and_removed_while_everything_runs(app: Rowlock) -> None:
    app.lanes.define("reports", progress_timeout="10m")
    await app.lanes.create("other", progress_timeout="5m")
    assert (await app.lanes.set("other", slots=3)).progress_timeout is not None
    assert (await app.lanes.set("other", progress_timeout="off")).progress_timeout is None
    with pytest.raises(InvalidOption, match="progress_timeout must be 5s or more"):
        await app.lanes.set("other", progress_timeout="1s")
    with pytest.raises(InvalidOption, match="progress_timeout must be"):
        app.lanes.define("hasty", progress_timeout="1s")

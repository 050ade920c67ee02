from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from tests.waiting import busy_for, eventually, in_time, promptly, until_cancelled

import rowlock
from rowlock import Retry
from rowlock.errors import ClaimLost
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import asyncpg

    from rowlock import Rowlock
    from rowlock.flow.worker.slots import Slots

BEAT = 2.0
"""Seconds within which a worker that does not listen hears of a cancel: with its next beat."""
REVOKE = """
UPDATE jobs SET fence = fence + 1, claimed_by = NULL, state = 'queued',
  run_after = clock_timestamp() + $2 * interval '1 s' WHERE id = $1
"""


async def test_a_waiting_job_is_cancelled_at_once_and_never_starts(app: Rowlock) -> None:
    ran: list[int] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)

    first, second = await work.enqueue(1), await work.enqueue(2)
    assert (await app.jobs.cancel(first.id, by="ada", note="no need")).state is State.CANCELLED
    async with app.worker():
        await second.wait(timeout=10)
    assert ran == [2]
    acts = (await app.jobs.history(first.id)).acts
    assert [(act.verb, act.by, act.note) for act in acts] == [("cancel", "ada", "no need")]


@pytest.mark.parametrize("listen", [True, False])
async def test_a_running_job_hears_of_its_cancel(make_app: Callable[..., Rowlock], listen: bool) -> None:
    app = make_app(listen=listen)
    started, told = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: rowlock.Context) -> None:
        started.set()
        try:
            await until_cancelled()
        finally:
            assert ctx.cancelled
            told.set()

    async def delay() -> float:
        started.clear()
        told.clear()
        handle = await work.enqueue()
        await in_time(started.wait())
        asked = time.monotonic()
        await app.jobs.cancel(handle.id)
        await in_time(told.wait())
        heard = time.monotonic()
        job = await app.jobs.wait(handle.id, timeout=30)
        assert job.state is State.CANCELLED
        assert job.errors == {"reason": "cancelled while running"}
        return heard - asked

    async with app.worker():
        await promptly(delay, under=0.5 if listen else BEAT)


async def test_stop_ends_the_job_at_once_and_refuses_the_late_result(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    started, told, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    refused: list[type[BaseException]] = []

    @app.job
    async def deaf(ctx: rowlock.Context) -> str:
        started.set()
        try:
            await until_cancelled()
        except asyncio.CancelledError:
            told.set()
        await go.wait()
        try:
            await ctx.progress(1)
        except ClaimLost as error:
            refused.append(type(error))
        return "too late"

    async with app.worker():
        handle = await deaf.enqueue()
        await in_time(started.wait())
        assert (await app.jobs.stop(handle.id)).state is State.CANCELLED
        await in_time(told.wait())
        go.set()
        await eventually(lambda: slots_free(app))
    job = await handle.job()
    assert (job.state, job.result) == (State.CANCELLED, None)
    assert refused == [ClaimLost]
    assert "its claim is gone; the handler is told" in caplog.text
    assert [a.outcome for a in (await app.jobs.history(handle.id)).attempts] == ["stopped"]


async def all_free(slots: Slots) -> bool:
    return slots.free("default", 10) == 10


async def slots_free(app: Rowlock) -> bool:
    return not await app.lanes.running()


async def test_a_handler_that_swallows_its_cancel_keeps_its_true_outcome(app: Rowlock) -> None:
    started = asyncio.Event()

    @app.job
    async def stubborn() -> str:
        started.set()
        try:
            await until_cancelled()
        except asyncio.CancelledError:
            return "finished all the same"
        return "never"

    async with app.worker():
        handle = await stubborn.enqueue()
        await in_time(started.wait())
        await app.jobs.cancel(handle.id)
        assert await handle.wait(timeout=10) == "finished all the same"


async def test_an_error_on_the_way_out_of_a_cancel_is_still_a_cancel(app: Rowlock) -> None:
    started = asyncio.Event()

    @app.job
    async def clumsy() -> None:
        started.set()
        try:
            await until_cancelled()
        finally:
            raise OSError("while cleaning up")

    async with app.worker():
        handle = await clumsy.enqueue()
        await in_time(started.wait())
        await app.jobs.cancel(handle.id)
        job = await app.jobs.wait(handle.id, timeout=10)
    assert job.state is State.CANCELLED
    assert job.errors is not None
    assert job.errors["message"] == "while cleaning up"


async def test_a_revoked_claim_cancels_the_handler_and_nothing_is_written(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: rowlock.Context) -> None:
        started.set()
        try:
            while True:
                await ctx.progress(1)
                await busy_for(0.05)
        finally:
            told.set()

    async with app.worker():
        handle = await work.enqueue()
        await in_time(started.wait())
        await sql.execute(REVOKE, handle.id, 3600)
        await in_time(told.wait())
        await eventually(lambda: slots_free(app))
    job = await handle.job()
    assert (job.state, job.errors, job.finished_at) == (State.QUEUED, None, None)


async def test_a_quiet_handler_hears_of_its_lost_claim_with_a_beat(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> None:
        started.set()
        try:
            await until_cancelled()
        finally:
            told.set()

    async with app.worker():
        handle = await work.enqueue()
        await in_time(started.wait())
        await sql.execute(REVOKE, handle.id, 3600)
        await in_time(told.wait())


async def test_a_checkpoint_under_a_lost_claim_raises(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    errors: list[str] = []
    over = asyncio.Event()

    @app.job
    async def work(ctx: rowlock.Context) -> None:
        await sql.execute(REVOKE, ctx.job.id, 3600)
        try:
            await ctx.checkpoint.save({"page": 1})
        except (ClaimLost, asyncio.CancelledError) as error:
            errors.append(type(error).__name__)
            raise
        finally:
            over.set()

    async with app.worker():
        handle = await work.enqueue()
        await in_time(over.wait())
        await eventually(lambda: slots_free(app))
    assert errors
    assert (await handle.job()).state is State.QUEUED
    assert await sql.fetchval("SELECT count(*) FROM job_progress") == 0


async def test_a_lost_attempt_that_goes_on_does_not_hurt_the_next_one_in_its_process(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    second_runs, go = asyncio.Event(), asyncio.Event()
    ended: list[int] = []

    @app.job(retry=Retry(attempts=5))
    async def deaf(ctx: rowlock.Context) -> int:
        fence = ctx.claim.fence
        if fence == 1:
            while not second_runs.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await second_runs.wait()
            ended.append(fence)
            return fence
        second_runs.set()
        await go.wait()
        ended.append(fence)
        return fence

    async with app.worker() as worker:
        assert worker is not None
        handle = await deaf.enqueue()
        await eventually(lambda: is_running(app, handle.id))
        await sql.execute(REVOKE, handle.id, 0)
        await in_time(second_runs.wait())
        await eventually(lambda: has(ended, 1))
        go.set()
        assert await handle.wait(timeout=10) == 3
        await eventually(lambda: slots_free(app))
        await eventually(lambda: all_free(worker._slots))
    assert ended == [1, 3]


async def is_running(app: Rowlock, job_id: int) -> bool:
    return (await app.jobs.get(job_id)).state is State.RUNNING


async def has(items: list[int], n: int) -> bool:
    return len(items) >= n


async def test_a_job_told_to_stop_before_its_first_step_still_has_an_outcome(app: Rowlock) -> None:
    ran: list[int] = []

    @app.job
    async def work() -> None:
        ran.append(1)

    async with app.worker() as worker:
        assert worker is not None
        slots = worker._slots
        run = slots.run

        def run_and_cancel(rows: Iterable[asyncpg.Record], began: float) -> None:
            claimed = list(rows)
            run(claimed, began)
            for row in claimed:
                slots.stop_attempts(row["id"], "cancel")

        slots.run = run_and_cancel  # type: ignore[method-assign]  # between claim and first step
        job = await app.jobs.wait((await work.enqueue()).id, timeout=10)
        await eventually(lambda: all_free(slots))
    assert job.state in {State.CANCELLED, State.COMPLETED}

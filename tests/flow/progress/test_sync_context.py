from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.waiting import eventually, in_time, let_others_run

from rowlock.model.lane import Lane
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    import asyncpg
    import pytest

    from rowlock import Rowlock


async def test_a_handler_that_blocks_the_loop_is_named_and_not_taken_for_dead(
    make_app: Callable[..., Rowlock], sql: asyncpg.Connection[asyncpg.Record], caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = make_app(), make_app()
    starts: list[float] = []

    for app in (mine, other):

        @app.job("blocking")
        async def blocking_handler() -> None:
            starts.append(time.monotonic())
            time.sleep(4)  # noqa: ASYNC251 - the fault under test, in the handler itself: a report names the function

    await mine.lanes.create(Lane("default", kinds=("*",), heartbeat_timeout=timedelta(seconds=2)))
    # The second worker has a thread and a loop of its own: it could rescue all the while.
    handle = await mine.task("blocking").enqueue()
    thread = await asyncio.to_thread(lambda: other.start_worker({"default": 0}, name="other"))
    try:
        async with mine.worker():
            await mine.jobs.wait(handle.id, timeout=20)
            await eventually(lambda: logged(caplog, "the event loop is back"))
    finally:
        await asyncio.to_thread(thread.stop)
    assert len(starts) == 1
    history = await mine.jobs.history(handle.id)
    assert (history.job.state, history.job.losses, list(history.attempts)) == (State.COMPLETED, 0, [])
    assert "the event loop has been blocked for" in caplog.text
    assert "in blocking_handler" in caplog.text
    assert not await sql.fetchval("SELECT count(*) FROM job_attempts")


async def test_a_handler_that_never_returns_holds_up_nobody_and_is_returned_at_shutdown(
    make_app: Callable[..., Rowlock], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(shutdown_after=timedelta(seconds=0.2))
    free = asyncio.Event()

    @app.job
    async def endless() -> str:
        while not free.is_set():
            try:
                await in_time(free.wait())
            except asyncio.CancelledError:
                continue
        return "late"

    @app.job
    async def other() -> str:
        return "went on"

    async with app.worker():
        stuck = await endless.enqueue()
        stopped = await endless.enqueue()
        await eventually(lambda: running(app, 2))
        assert await (await other.enqueue()).wait(timeout=10) == "went on"
        assert (await app.jobs.stop(stopped.id)).state is State.CANCELLED
    job = await stuck.job()
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    assert "does not end; its job is returned without it" in caplog.text
    free.set()
    await let_others_run()
    after = await app.jobs.many([stuck.id, stopped.id])
    assert [(job.state, job.result) for job in after] == [(State.QUEUED, None), (State.CANCELLED, None)]


async def logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def running(app: Rowlock, n: int) -> bool:
    return sum((await app.lanes.running()).values()) == n

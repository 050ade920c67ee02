from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, in_time, let_others_run

import rowlock
from rowlock import Rowlock
from rowlock.errors import WrongState
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.settings import Settings

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    import asyncpg

    from rowlock.flow.worker.worker import Worker

NOWHERE = "postgresql://nobody@127.0.0.1:9/nothing"
HOUR_AGO = "now() - interval '1 hour'"


async def drained(worker: Worker) -> bool:
    return not worker.lanes["default"].enabled


async def test_a_claim_whose_answer_was_lost_is_given_back_and_run(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job
    async def work() -> str:
        return "done"

    async with app.worker() as worker:
        assert worker is not None
        await app.lanes.drain("default")
        await eventually(lambda: drained(worker))
        handle = await work.enqueue()
        await sql.execute(
            "UPDATE jobs SET state = 'running', fence = fence + 1, attempt = 1, lane = 'default', claimed_by = $2,"
            f" claimed_at = {HOUR_AGO} WHERE id = $1",
            handle.id,
            worker.id,
        )
        worker._claimer.in_flight.lose_answer()
        await app.lanes.resume("default")
        assert await handle.wait(timeout=15) == "done"
    history = await app.jobs.history(handle.id)
    assert [attempt.outcome for attempt in history.attempts] == ["disowned"]
    assert history.job.attempt == 1


async def test_a_deleted_worker_row_is_written_again_and_its_job_goes_on(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    go = asyncio.Event()

    @app.job
    async def work() -> str:
        await go.wait()
        return "done"

    async with app.worker(name="ada") as worker:
        assert worker is not None
        handle = await work.enqueue()
        await eventually(lambda: is_running(app, handle.id))
        await sql.execute("DELETE FROM workers")
        await eventually(lambda: there(sql, worker.id))
        go.set()
        assert await handle.wait(timeout=10) == "done"
    assert list((await app.jobs.history(handle.id)).attempts) == []


async def there(sql: asyncpg.Connection[asyncpg.Record], worker: int) -> bool:
    return bool(await sql.fetchval("SELECT name = 'ada' FROM workers WHERE id = $1", worker))


async def is_running(app: Rowlock, job_id: int) -> bool:
    return (await app.jobs.get(job_id)).state is State.RUNNING


async def test_start_and_stop_may_be_called_twice(app: Rowlock) -> None:
    worker = app.make_worker()
    await worker.start()
    await worker.start()
    await asyncio.gather(worker.stop(), worker.stop())
    await worker.stop()
    assert await app.workers.list() == []


async def test_a_worker_that_waits_for_its_database_can_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    app = Rowlock(NOWHERE, settings=Settings())
    worker = app.make_worker()
    starting = asyncio.create_task(worker.start())
    await eventually(lambda: logged(caplog, "waits: PostgreSQL at"))
    await in_time(worker.stop())
    await in_time(starting)
    assert worker.stopped.is_set()


async def logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_a_worker_waits_for_a_schema_that_is_not_there_yet(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Rowlock(empty_database_url, settings=Settings())

    @app.job
    async def ping() -> str:
        return "pong"

    starting = asyncio.create_task(_run_one(app))
    await eventually(lambda: logged(caplog, "Create them with: rowlock schema upgrade"))
    await app.upgrade()
    assert await (await ping.enqueue()).wait(timeout=10) == "pong"
    await starting
    await app.close()


async def _run_one(app: Rowlock) -> None:
    async with app.worker() as worker:
        assert worker is not None

        async def served() -> bool:
            return bool(await app.jobs.list(states=["completed"]))

        await eventually(served)


async def test_a_beat_ends_with_the_loop_of_its_worker(database_url: str) -> None:
    def abandon() -> threading.Thread:
        async def main() -> threading.Thread:
            worker = Rowlock(database_url, settings=Settings()).make_worker()
            await worker.start()
            thread = worker._heartbeat._thread
            assert thread is not None
            for link in (worker._claims, worker._finishes):
                await link.close()
            return thread  # without worker.stop()

        return asyncio.run(main())

    thread = await asyncio.to_thread(abandon)
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()


def test_blocking_code_starts_a_worker_in_a_thread(database_url: str) -> None:
    app = Rowlock(database_url, settings=Settings())

    @app.job
    async def add(first: int, second: int) -> int:
        return first + second

    worker = app.start_worker(name="pod")
    try:
        handle = add.enqueue_sync(1, second=2)
        assert asyncio.run(_result(app, handle.id)) == 3
    finally:
        worker.stop()
        worker.stop()
    assert not worker._thread.is_alive()
    asyncio.run(app.close())


PROGRAM = """
import asyncio, sys
from datetime import timedelta
from rowlock import Rowlock, Settings

app = Rowlock(sys.argv[1], settings=Settings(shutdown_after=timedelta(seconds=0.2)))
started = asyncio.Event()

@app.job
async def endless() -> None:
    print("started", flush=True)
    await asyncio.Event().wait()

app.start_worker()
job = endless.enqueue_sync()
sys.stdin.readline()
"""


async def test_a_program_that_ends_without_stopping_its_worker_returns_its_jobs(
    database_url: str, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, database_url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    await process.communicate(b"\n")
    assert process.returncode == 0
    row = await sql.fetchrow("SELECT state, attempt, losses FROM jobs")
    assert row is not None
    assert tuple(row) == ("queued", 0, 0)


async def _result(app: Rowlock, job_id: int) -> object:
    try:
        return (await app.jobs.wait(job_id, timeout=15)).result
    finally:
        await app.database().close()


async def test_the_environment_turns_workers_off(
    database_url: str, monkeypatch: pytest.MonkeyPatch, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    monkeypatch.setenv("ROWLOCK_WORKER", "off")
    app = Rowlock(database_url)
    async with app.worker() as worker:
        assert worker is None
    app.start_worker().stop()
    assert await sql.fetchval("SELECT count(*) FROM workers") == 0
    await app.close()


async def test_run_job_runs_one_job_here_and_now(app: Rowlock) -> None:
    @app.job
    async def add(first: int) -> int:
        return first + 1

    other = await add.enqueue(9)
    handle = await add.enqueue(1)
    job = await app.run_job(handle.id)
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, 2, 1)
    assert (await other.job()).state is State.QUEUED
    with pytest.raises(WrongState, match="only a queued job can be run"):
        await app.run_job(handle.public_id)
    later = await add.options(run_in="1h").enqueue(1)
    with pytest.raises(WrongState, match="it is not due yet"):
        await app.run_job(later.id)


async def test_run_job_respects_the_cap_of_its_lane(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    go = asyncio.Event()

    @app.job
    async def work() -> None:
        await go.wait()

    await app.lanes.create(Lane("default", kinds=("*",), max_total=1))
    async with app.worker():
        first, second = await work.enqueue(), await work.enqueue()
        await eventually(lambda: is_running(app, first.id))
        with pytest.raises(WrongState):
            await app.run_job(second.id)
        assert await sql.fetchval("SELECT held FROM gates WHERE key = 'lane:default'") == 1
        go.set()
        await second.wait(timeout=15)
    assert await sql.fetchval("SELECT held FROM gates WHERE key = 'lane:default'") == 0


async def test_a_worker_that_stops_gives_back_what_a_late_claim_brings(
    make_app: Callable[..., Rowlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    ran: list[int] = []

    @app.job
    async def work(ctx: rowlock.Context) -> None:
        ran.append(ctx.job.id)

    async with app.worker() as worker:
        assert worker is not None
        claim, asked, go = worker._claimer.claim, asyncio.Event(), asyncio.Event()

        async def slow_claim(free: dict[str, int]) -> list[asyncpg.Record]:
            rows = await claim(free)
            if rows:
                asked.set()
                await go.wait()
            return list(rows)

        monkeypatch.setattr(worker._claimer, "claim", slow_claim)
        handle = await work.enqueue()
        await in_time(asked.wait())
        stopping = asyncio.create_task(worker.stop())
        await let_others_run()
        go.set()
        await stopping
    job = await handle.job()
    assert (ran, job.state, job.attempt) == ([], State.QUEUED, 0)

"""Each executor x each way to misbehave x each way to be stopped: outcome, slot and neighbours as documented."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.flow.executors import jobs
from tests.os_processes import alive
from tests.waiting import eventually, let_others_run

from rowlock import ItemCounts, State
from rowlock.flow.kinds.import_origin import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from rowlock import Job, Rowlock
    from rowlock.flow.worker.worker import Worker

# What nothing in this process can end keeps its slot until it ends by itself; everything else gives it back.
ENDS_BY_ITSELF = {"loop.waits", "thread.waits"}
CAN_BE_KILLED = {"process.waits", "process.deaf", "process.spins", "process.async"}
STICKS = {"loop.deaf", "thread.deaf", "thread.spins"}
ALL = sorted(ENDS_BY_ITSELF | CAN_BE_KILLED | STICKS)


async def running(app: Rowlock, kind: str) -> int:
    """Enqueue a job and wait until its handler runs."""
    task: Any = app.task(kind)
    handle = await task.enqueue()

    async def reported() -> bool:
        return (await app.jobs.get(handle.id)).progress is not None

    await eventually(reported)
    return int(handle.id)


async def ended(app: Rowlock, job_id: int) -> Job:
    return await app.jobs.wait(job_id, timeout=20)


async def check_slot_and_neighbours(app: Rowlock, worker: Worker, kind: str) -> None:
    neighbours = [await jobs.neighbour.enqueue(n) for n in range(3)]
    assert [await one.wait(timeout=20) for one in neighbours] == [0, 1, 2]
    sticks = kind in STICKS

    async def slots_are_as_documented() -> bool:
        free = worker._slots.free("default", worker.lanes["default"].slots)
        return (worker._slots.stuck, free) == (1 if sticks else 0, worker.lanes["default"].slots - (1 if sticks else 0))

    await eventually(slots_are_as_documented)
    if sticks:

        async def shown() -> bool:
            return [view.stuck for view in await app.workers.list()] == [1]

        await eventually(shown)
        jobs.released.set()

        async def free_again() -> bool:
            return worker._slots.stuck == 0

        await eventually(free_again)


@pytest.mark.parametrize("kind", ALL)
async def test_a_timeout(app: Rowlock, kind: str) -> None:
    async with app.worker() as worker:
        assert worker is not None
        task: Any = app.task(f"{kind}.limited")
        job = await ended(app, (await task.enqueue()).id)
        assert job.state is State.FAILED
        assert job.errors is not None
        assert job.errors["type"] == "TimeoutError"
        assert job.errors["message"] == "the attempt took longer than its timeout of 0.3 s"
        await check_slot_and_neighbours(app, worker, kind)


@pytest.mark.parametrize("kind", ALL)
async def test_a_cancel(app: Rowlock, kind: str) -> None:
    async with app.worker() as worker:
        assert worker is not None
        job_id = await running(app, kind)
        await app.jobs.cancel(job_id)
        assert (await ended(app, job_id)).state is State.CANCELLED
        await check_slot_and_neighbours(app, worker, kind)


@pytest.mark.parametrize("kind", ALL)
async def test_a_stop(app: Rowlock, kind: str) -> None:
    async with app.worker() as worker:
        assert worker is not None
        job_id = await running(app, kind)
        stopped = await app.jobs.stop(job_id)
        assert stopped.state is State.CANCELLED
        await check_slot_and_neighbours(app, worker, kind)
    after = await app.jobs.get(job_id)
    assert (after.state, after.fence) == (stopped.state, stopped.fence)


@pytest.mark.parametrize("kind", ALL)
async def test_a_shutdown_returns_the_job_without_burning_an_attempt(app: Rowlock, kind: str) -> None:
    worker = app.make_worker()
    await worker.start()
    job_id = await running(app, kind)
    await worker.stop(after=0)
    job = await app.jobs.get(job_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


@pytest.mark.parametrize(("kind", "how"), [("dies.exit", "exit code 7"), ("dies.segfault", "SIGSEGV")])
async def test_a_job_that_kills_its_process_is_quarantined_alone(app: Rowlock, kind: str, how: str) -> None:
    async with app.worker():
        task: Any = app.task(kind)
        handle = await task.enqueue()
        neighbours = [await jobs.talks.enqueue(steps=3) for _ in range(3)]

        job = await app.jobs.wait(handle.id, timeout=40)
        assert job.state is State.FAILED
        assert job.errors is not None
        assert (job.errors["reason"], job.errors["deaths"]) == ("quarantined", 3)
        assert how in str(job.errors["message"])
        history = await app.jobs.history(handle.id)
        assert [attempt.outcome for attempt in history.attempts] == ["died", "died"]
        for one in neighbours:
            await one.wait(timeout=20)
            assert (await one.job()).losses == 0


async def test_the_policy_for_lost_workers_holds_for_a_dead_child(app: Rowlock) -> None:
    async with app.worker():
        fail, hold = await jobs.exits_and_fails.enqueue(), await jobs.exits_and_is_held.enqueue()
        assert (await app.jobs.wait(fail.id, timeout=20)).state is State.FAILED

        async def held() -> bool:
            return (await hold.job()).state is State.PENDING

        await eventually(held)


@pytest.mark.parametrize(
    # One huge allocation is refused by the system; what grows is seen by the worker.
    ("kind", "message"),
    [("hog.fast", ""), ("hog.slow", "its limit is 190.7 MiB")],
)
async def test_a_job_that_eats_memory_fails_and_nobody_else(app: Rowlock, kind: str, message: str) -> None:
    async with app.worker():
        task: Any = app.task(kind)
        handle, near = await task.enqueue(), await jobs.neighbour.enqueue(1)
        job = await app.jobs.wait(handle.id, timeout=30)
        assert job.state is State.FAILED
        assert job.errors is not None
        assert job.errors["type"] == "MemoryError"
        told = str(job.errors["message"])
        assert (told.endswith(message), bool(told)) == (True, bool(message))
        assert job.losses == 0
        assert await near.wait(timeout=10) == 1


async def test_progress_checkpoint_log_and_result_travel_through_the_pipe(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with app.worker():
            handle = await jobs.talks.enqueue(steps=2000)
            result = await handle.wait(timeout=20)
            job = await handle.job()
    assert result["before"] is None
    assert result["pid"] != os.getpid()
    assert result["attempt"] == 1
    assert job.progress is not None
    assert (job.progress.phase, job.progress.done, job.progress.message) == ("talk", 2000, "step 1999")
    rows = await app.database().fetch("checkpoint", id=job.id)
    assert rows[0]["checkpoint"] == '{"steps": 2000}'
    assert "said in the child" in caplog.messages


async def test_items_phases_cursors_and_lines_travel_through_the_pipe(app: Rowlock) -> None:
    async with app.worker():
        handle = await jobs.itemises.enqueue()
        job = await ended(app, handle.id)
        items = await app.jobs.items(handle.id, states=["failed"])
        lines = await app.jobs.logs(handle.id)
    assert job.state is State.COMPLETED_WITH_ERRORS
    assert job.result == {"failed": ["23", "33"], "kept": []}
    assert job.progress is not None
    # The first attempt went as far as its fourth step, and its items were its own.
    assert [phase.name for phase in job.progress.phases] == ["prepare", "again", "prepare"]
    assert job.progress.items == ItemCounts(0, 32, 4, 4, total=40)
    assert [(item.phase, item.name) for item in items] == [
        ("again", "13"), ("again", "3"), ("prepare", "23"), ("prepare", "33"),
    ]  # fmt: skip
    said = [line.message for line in lines]
    assert [text for text in said if text.startswith("attempt")] == ["attempt 1", "attempt 2"]
    assert sum(text.startswith("item") for text in said) == 60
    assert job.errors is not None
    assert job.errors["items_failed"] == 4


async def test_a_child_is_reused_until_it_has_run_its_jobs(app: Rowlock) -> None:
    app.settings = replace(app.settings, child_jobs=2)
    async with app.worker():
        pids = [(await (await jobs.talks.enqueue(steps=1)).wait(timeout=20))["pid"] for _ in range(4)]
    assert pids[0] == pids[1]
    assert pids[2] == pids[3]
    assert pids[1] != pids[2]


async def test_a_child_grown_too_large_is_replaced(app: Rowlock) -> None:
    app.settings = replace(app.settings, child_memory=1)
    async with app.worker():
        pids = [(await (await jobs.talks.enqueue(steps=1)).wait(timeout=20))["pid"] for _ in range(2)]
    assert pids[0] != pids[1]


async def test_exceptions_in_a_child_follow_the_retry_policy(app: Rowlock) -> None:
    async with app.worker():
        handle = await jobs.fails.enqueue(what="luck")
        job = await app.jobs.wait(handle.id, timeout=20)
        odd = await app.jobs.wait((await jobs.unprintable.enqueue()).id, timeout=20)
    assert job.errors is not None
    assert (job.errors["type"], job.errors["message"], job.attempt) == ("LookupError", "no luck", 2)
    assert "in fails" in str(job.errors["traceback"])
    assert odd.errors is not None
    assert odd.errors["message"] == "(its message cannot be printed)"


async def test_what_a_handler_started_ends_with_it(app: Rowlock, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with app.worker():
        handle = await jobs.starts_another.enqueue(pid_file=str(file))

        async def reported() -> bool:
            return (await handle.job()).progress is not None

        await eventually(reported)
        await app.jobs.stop(handle.id)

        async def gone() -> bool:
            return not alive(int(file.read_text()))

        await eventually(gone)


async def test_a_suspect_runs_alone_in_a_child_and_innocents_complete(app: Rowlock) -> None:
    handle = await jobs.neighbour.enqueue(5)
    database = app.database()
    async with database.connection() as connection:
        await connection.execute(f"UPDATE {database.schema}.jobs SET losses = 2")
    async with app.worker() as worker:
        assert worker is not None
        assert await handle.wait(timeout=20) == 5
        assert len(worker._children._all) == 1
    job = await handle.job()
    assert (job.state, job.losses) == (State.COMPLETED, 2)


async def test_a_suspect_that_does_not_stop_is_killed_and_never_stuck(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    task: Any = app.task("loop.deaf")
    handle = await task.enqueue()
    database = app.database()
    async with database.connection() as connection:
        await connection.execute(f"UPDATE {database.schema}.jobs SET losses = 1")
    async with app.worker() as worker:
        assert worker is not None

        async def reported() -> bool:
            return (await handle.job()).progress is not None

        await eventually(reported)
        await app.jobs.cancel(handle.id)
        assert (await ended(app, handle.id)).state is State.CANCELLED
        assert worker._slots.stuck == 0
    assert not [message for message in caplog.messages if "stuck" in message]


async def test_a_child_that_cannot_import_the_application_says_so(
    app: Rowlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = app.make_worker()
    monkeypatch.setattr(worker, "options", worker.options.__class__(origin=Origin("no.such.module", "app")))
    await worker.start()
    try:
        job = await app.jobs.wait((await jobs.process_waits.enqueue()).id, timeout=20)
    finally:
        await worker.stop()
    assert job.errors is not None
    assert "cannot import the application no.such.module:app: ModuleNotFoundError" in str(job.errors["message"])


async def test_threads_of_a_lane_are_reused(app: Rowlock) -> None:
    async with app.worker() as worker:
        assert worker is not None
        for _ in range(3):
            job_id = await running(app, "thread.waits")
            await app.jobs.cancel(job_id)
            await ended(app, job_id)
            await let_others_run()
        assert len(worker._slots._threads._idle["default"]) == 1


async def test_a_child_enqueues_into_the_database_of_its_worker(app: Rowlock) -> None:
    async with app.worker():
        handle = await jobs.enqueues.enqueue(n=9)
        job = await app.jobs.wait(await handle.wait(timeout=20), timeout=20)
    assert (job.kind, job.result) == ("neighbour", 9)


async def test_outputs_and_signals_reach_a_child_process(app: Rowlock) -> None:
    plan = {
        "steps": [
            {"name": "a", "kind": "neighbour", "args": {"n": 7}},
            {"name": "b", "kind": "process.asks", "args": {"n": {"$output": "a"}}},
        ],
        "edges": [{"upstream": "a", "downstream": "b"}],
    }
    about = {"name": "f", "tenant": None, "submitted_by": None, "unique_key": None, "meta": None}
    rows = await app.database().fetch("workflow_start", **about, plan=json.dumps(plan))
    job_id = rows[1]["job_id"]

    async def waits() -> bool:
        return bool((await app.jobs.get(job_id)).state == State.BLOCKED and (await app.jobs.history(job_id)).attempts)

    async with app.worker():
        await eventually(waits)
        await app.database().fetch("signal_send", id=job_id, name="go", payload='"now"', by_whom=None)
        job = await ended(app, job_id)
    assert job.result == [7, "now"]

"""A lone `rowlock worker` that is worn, blocked or dismissed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncpg
    from tests.torture.conftest import Process, Scene

pytestmark = pytest.mark.timeout(120)


async def start(scene: Scene, *arguments: str, **environment: str) -> tuple[Process, asyncpg.Record]:
    process = scene.command(*arguments, **environment)
    (worker,) = await scene.workers(1)
    assert (worker["pid"], worker["supervisor"]) == (process.popen.pid, None)
    return process, worker


async def successor(scene: Scene, worker: asyncpg.Record) -> asyncpg.Record:
    """Wait for the worker that took this one's place."""

    async def look() -> list[asyncpg.Record]:
        return await scene.fetch("SELECT * FROM workers WHERE state = 'up' AND id > $1", worker["id"])

    (found,) = await eventually(look, within=40)
    assert found["pid"] == worker["pid"]
    assert await scene.value("SELECT state FROM workers WHERE id = $1", worker["id"]) == "gone"
    return found


async def test_after_max_jobs_the_process_drains_and_executes_itself_anew(scene: Scene) -> None:
    process, worker = await start(scene, "--max-jobs", "3")
    handles = [await scene.app.task("work").enqueue(seconds=0.2) for _ in range(4)]
    await successor(scene, worker)
    last = await scene.app.task("work").enqueue()
    await scene.quiet()
    jobs = await scene.app.jobs.many([handle.id for handle in (*handles, last)])
    # The drain let them end: nothing was interrupted, and the process is still the same one.
    assert {(job.state, job.attempt, job.result) for job in jobs} == {(State.COMPLETED, 1, str(worker["pid"]))}
    process.signal(signal.SIGTERM)
    assert process.end() == 0


async def test_above_max_memory_the_process_executes_itself_anew(scene: Scene) -> None:
    process, worker = await start(scene, "--max-memory", "250MB")
    await scene.app.task("work").enqueue()
    await scene.app.task("hoard").enqueue(megabytes=300)
    await successor(scene, worker)
    await scene.quiet()
    assert "of memory, max_memory is 238.4 MiB" in process.said


async def test_a_limit_below_what_a_fresh_process_takes_is_said_not_obeyed(scene: Scene) -> None:
    process, worker = await start(scene, "--max-memory", "1MB")
    await scene.said(process, "before its first job; max_memory is 976.6 KiB. Give it more.")
    assert await scene.value("SELECT count(*) FROM workers WHERE id > $1", worker["id"]) == 0


async def test_with_max_stuck_slots_the_process_executes_itself_anew(scene: Scene) -> None:
    process, worker = await start(scene, ROWLOCK_MAX_STUCK="2", ROWLOCK_STOP_PATIENCE="500ms")
    handles = [await scene.app.task("deaf").enqueue() for _ in range(2)]
    await eventually(lambda: scene.value("SELECT count(*) = 2 FROM jobs WHERE state = 'running'"))
    for handle in handles:
        await scene.app.jobs.cancel(handle.id)
    await successor(scene, worker)
    assert "2 slots are held by handlers that were told to stop" in process.said
    await scene.quiet()
    states = {job.state for job in await scene.app.jobs.many([handle.id for handle in handles])}
    assert states == {State.CANCELLED}


async def test_a_blocked_process_blames_one_job_gives_back_the_others_and_begins_anew(scene: Scene) -> None:
    process, worker = await start(scene, ROWLOCK_BLOCKED_LIMIT="2s")
    innocents = [await scene.app.task("work").enqueue(seconds=20) for _ in range(2)]
    for innocent in innocents:
        await scene.noted(innocent.id, "start")
    guilty = await scene.app.task("spin").enqueue()
    await scene.noted(guilty.id, "start")
    await successor(scene, worker)
    process.signal(signal.SIGKILL)
    process.end()
    for innocent in innocents:
        history = await scene.app.jobs.history(innocent.id)
        assert ([attempt.outcome for attempt in history.attempts], history.job.losses) == (["interrupted"], 0)
    history = await scene.app.jobs.history(guilty.id)
    assert history.attempts[0].outcome == "lost"
    assert history.job.losses >= 1


async def test_a_blocked_process_that_was_told_to_end_gives_back_and_ends(scene: Scene) -> None:
    process, _ = await start(scene, ROWLOCK_SHUTDOWN_AFTER="1s")
    innocent = await scene.app.task("work").enqueue(seconds=30)
    await scene.noted(innocent.id, "start")
    guilty = await scene.app.task("spin").enqueue()
    await scene.noted(guilty.id, "start")
    process.signal(signal.SIGTERM)
    assert process.end() == 0
    jobs = await scene.app.jobs.many([innocent.id, guilty.id])
    assert [(job.state, job.losses) for job in jobs] == [(State.QUEUED, 0), (State.QUEUED, 1)]


async def test_a_signal_during_the_drain_of_a_worn_process_ends_it(scene: Scene) -> None:
    process, worker = await start(scene, "--max-jobs", "1")
    handle = await scene.app.task("work").enqueue(seconds=3)
    await scene.noted(handle.id, "start")
    await eventually(lambda: scene.value("SELECT state = 'draining' FROM workers WHERE id = $1", worker["id"]))
    process.signal(signal.SIGTERM)
    assert process.end() == 0
    assert await scene.value("SELECT count(*) FROM workers WHERE id > $1", worker["id"]) == 0


async def test_an_operators_drain_ends_the_process_with_exit_0(scene: Scene) -> None:
    process, worker = await start(scene)
    handle = await scene.app.task("work").enqueue(seconds=1)
    await scene.noted(handle.id, "start")
    await scene.fetch("UPDATE workers SET told = 'drain' WHERE id = $1", worker["id"])
    assert process.end() == 0
    assert (await scene.app.jobs.get(handle.id)).state is State.COMPLETED
    assert not os.path.exists(f"/proc/{worker['pid']}/exe")  # noqa: ASYNC240, PTH110 - no disk

"""`rowlock worker --processes` with real processes that die, hang, stand still and refuse to start."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.os_processes import ended
from tests.waiting import eventually

from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.torture.conftest import Process, Scene

pytestmark = pytest.mark.timeout(120)


STAGE, ALONE = "tests.torture.stage:app", "tests.torture.alone:app"


async def start(scene: Scene, *arguments: str, processes: int = 2, app: str = STAGE, **environment: str) -> Process:
    """A supervisor whose processes are all at work."""
    supervisor = scene.command("--processes", str(processes), *arguments, app=app, **environment)
    workers = await scene.workers(processes)
    assert {worker["supervisor"] for worker in workers} == {supervisor.popen.pid}
    return supervisor


async def runner(scene: Scene, job: int, n: int = 1) -> int:
    """The process that runs the job for the nth time."""
    return int((await scene.noted(job, "start", n))[n - 1]["pid"])


async def test_a_killed_process_is_replaced_and_its_jobs_rescued_at_once(scene: Scene) -> None:
    supervisor = await start(scene)
    handle = await scene.app.task("work").enqueue(seconds=3)
    victim = await runner(scene, handle.id)
    os.kill(victim, signal.SIGKILL)

    async def rescued() -> bool:
        return bool((await scene.app.jobs.get(handle.id)).losses)

    await eventually(rescued)
    await scene.said(supervisor, "by SIGKILL (another is started)")
    await scene.workers(2)
    await scene.quiet()
    history = await scene.app.jobs.history(handle.id)
    assert [attempt.outcome for attempt in history.attempts] == ["lost"]
    assert (history.job.state, history.job.attempt, history.job.losses) == (State.COMPLETED, 1, 1)


async def test_no_process_outlives_a_killed_supervisor(scene: Scene) -> None:
    supervisor = await start(scene)
    pids = [worker["pid"] for worker in await scene.workers(2)]
    handle = await scene.app.task("seize").enqueue()  # one of them cannot even run the thread that would notice
    await runner(scene, handle.id)
    supervisor.signal(signal.SIGKILL)
    for pid in pids:
        await eventually(lambda pid=pid: ended(pid))  # type: ignore[misc]  # mypy infers no type for the default


async def test_jobs_that_end_or_block_their_process_hurt_only_themselves(scene: Scene) -> None:
    supervisor = await start(scene, processes=1, app=ALONE, ROWLOCK_BLOCKED_LIMIT="2s")

    async def enqueue(kind: str, args: str = "{}") -> int:
        sql = "INSERT INTO jobs (kind, args, max_attempts) VALUES ($1, $2, 1) RETURNING id"
        return int(await scene.value(sql, kind, args))

    innocents = [await enqueue("innocent", '{"seconds": 4}') for _ in range(4)]
    await eventually(lambda: scene.value("SELECT count(*) = 4 FROM jobs WHERE state = 'running'"))
    poison, spin = await enqueue("poison"), await enqueue("spin")
    await scene.quiet(within=90)
    assert {job.state for job in await scene.app.jobs.many(innocents)} == {State.COMPLETED}
    history = await scene.app.jobs.history(poison)
    assert history.job.errors is not None
    assert (history.job.state, history.job.errors["reason"]) == (State.FAILED, "quarantined")
    # In the shared process it was lost once; then it had a process to itself and died in that.
    # (The blocked neighbour may have had it given back in between, which counts for nothing.)
    outcomes = [attempt.outcome for attempt in history.attempts if attempt.outcome != "interrupted"]
    assert outcomes[:2] == ["lost", "died"]
    blocked = await scene.app.jobs.get(spin)
    assert blocked.state is State.FAILED
    assert await scene.value("SELECT max(deaths) FROM jobs WHERE kind = 'innocent'") == 0
    assert supervisor.popen.poll() is None


async def test_a_handler_that_holds_the_loop_alone_is_blamed_and_its_process_replaced(scene: Scene) -> None:
    supervisor = await start(scene, processes=1, ROWLOCK_BLOCKED_LIMIT="2s")
    innocents = [await scene.app.task("work").enqueue(seconds=30) for _ in range(3)]
    for innocent in innocents:
        await scene.noted(innocent.id, "start")
    guilty = await scene.app.task("spin").enqueue()
    await runner(scene, guilty.id)
    for innocent in innocents:
        await scene.noted(innocent.id, "start", 2)
    said = await scene.said(supervisor, "its event loop was blocked")
    assert "[1] error: the event loop stays blocked by job" in said
    assert "in spin (" in said
    for innocent in innocents:
        history = await scene.app.jobs.history(innocent.id)
        assert ([a.outcome for a in history.attempts], history.job.losses) == (["interrupted"], 0)
        assert history.job.attempt == 1
    history = await scene.app.jobs.history(guilty.id)
    assert history.attempts[0].outcome == "lost"
    assert await scene.value("SELECT deaths FROM jobs WHERE id = $1", guilty.id) == 0
    assert history.attempts[0].error is not None
    assert history.attempts[0].error["reason"] == "blocked the event loop"
    assert "spin" in str(history.attempts[0].error["blocked"])
    supervisor.signal(signal.SIGKILL)


async def test_a_process_whose_interpreter_is_seized_is_killed_and_says_where(scene: Scene) -> None:
    supervisor = await start(scene, processes=1, ROWLOCK_BLOCKED_LIMIT="2s")
    handle = await scene.app.task("seize").enqueue()
    first = await runner(scene, handle.id)
    seen = await scene.value("SELECT seen_at FROM workers WHERE pid = $1", first)
    # The supervisor beats for it, and kills it long before the lane's heartbeat timeout.
    await eventually(lambda: scene.value("SELECT seen_at > $2 FROM workers WHERE pid = $1", first, seen))
    said = await scene.said(supervisor, "has given no sign of life")
    await eventually(lambda: ended(first))
    await eventually(lambda: scene.value("SELECT losses >= 1 FROM jobs WHERE id = $1", handle.id))
    assert "in seize" in await scene.said(supervisor, "Fatal Python error: Aborted")
    assert said
    supervisor.signal(signal.SIGKILL)


async def test_a_stopped_process_is_neither_vouched_for_nor_killed(scene: Scene) -> None:
    supervisor = await start(scene, ROWLOCK_BLOCKED_LIMIT="2s", ROWLOCK_LANES="default:kinds=*,slots=10,stale=3s")
    handle = await scene.app.task("work").enqueue(seconds=4)
    zombie = await runner(scene, handle.id)
    os.kill(zombie, signal.SIGSTOP)
    try:
        # Its silence is seen by the other one, which runs the job.
        assert await runner(scene, handle.id, 2) != zombie
        assert not await ended(zombie)
    finally:
        os.kill(zombie, signal.SIGCONT)
    await scene.quiet()
    assert "no sign of life" not in supervisor.said
    await scene.workers(2)


async def test_sigterm_drains_all_and_a_second_one_hurries(scene: Scene) -> None:
    supervisor = await start(scene, ROWLOCK_SHUTDOWN_AFTER="1h")
    long = await scene.app.task("work").enqueue(seconds=3600)
    await scene.noted(long.id, "start")
    supervisor.signal(signal.SIGTERM)
    await eventually(lambda: scene.value("SELECT count(*) = 1 FROM workers WHERE state = 'draining'"))
    supervisor.signal(signal.SIGTERM)
    assert supervisor.end() == 0
    history = await scene.app.jobs.history(long.id)
    assert (history.job.state, history.job.losses) == (State.QUEUED, 0)
    assert [attempt.outcome for attempt in history.attempts] == ["interrupted"]
    assert await scene.fetch("SELECT 1 FROM workers WHERE state <> 'gone'") == []


async def test_a_crash_loop_slows_down_and_says_so(scene: Scene) -> None:
    supervisor = await start(scene, processes=1)
    killed: list[int] = []
    for said in ("(another is started)", "2 times in a row soon after its start"):
        # As soon as it is up: the rows of those that were killed may stay for longer than counts as soon.
        killed.append(await eventually(lambda: another(scene, killed)))
        os.kill(killed[-1], signal.SIGKILL)
        await eventually(lambda: ended(killed[-1]))
        await scene.said(supervisor, said)
    await eventually(lambda: another(scene, killed))
    assert "(the next one starts in 0.5 s)" in supervisor.said


async def another(scene: Scene, killed: list[int]) -> int:
    """The process id of a worker that is up and was not killed; 0: there is none yet."""
    return int(
        await scene.value("SELECT coalesce(max(pid), 0) FROM workers WHERE state = 'up' AND pid <> ALL($1)", killed)
    )


async def test_processes_that_cannot_start_end_the_supervisor_with_their_error(scene: Scene) -> None:
    supervisor = scene.command("--processes", "2", "--lanes", "defualt")
    assert supervisor.end(within=60) == 1
    assert "There is no lane 'defualt'" in supervisor.said
    assert "Did you mean 'default'?" in supervisor.said
    assert "Traceback" not in supervisor.said


async def test_an_operators_drain_ends_a_process_for_good(scene: Scene) -> None:
    supervisor = await start(scene)
    first, second = await scene.workers(2)
    await scene.fetch("UPDATE workers SET told = 'drain' WHERE id = $1", first["id"])
    await eventually(lambda: ended(first["pid"]))
    await scene.said(supervisor, "process 1 ended with exit code 0")
    await scene.fetch("UPDATE workers SET told = 'drain' WHERE id = $1", second["id"])
    assert supervisor.end() == 0
    assert "another is started" not in supervisor.said


async def test_worn_processes_are_replaced_one_after_the_other(scene: Scene) -> None:
    supervisor = await start(scene, "--max-jobs", "5")
    before = {worker["pid"] for worker in await scene.workers(2)}
    for _ in range(60):
        await scene.app.task("work").enqueue(seconds=0.05)
    for pid in before:
        await eventually(lambda pid=pid: ended(pid), within=60)  # type: ignore[misc]  # as above
    await scene.quiet(within=60)
    # While one was away, the other was there: the second goes when the first one's successor has its row.
    lines = supervisor.said.splitlines()
    first, second = [n for n, line in enumerate(lines) if "is replaced: it ran" in line][:2]
    assert any("started (pid" in line for line in lines[first:second])
    assert any("/" in line and ": database" in line for line in lines[first:second])
    # A claim that was under way when the drain began goes back, refunded; nothing else ends before its time.
    assert await scene.value("SELECT count(*) FROM job_attempts WHERE outcome <> 'interrupted'") == 0
    assert await scene.value("SELECT max(losses) FROM jobs") == 0

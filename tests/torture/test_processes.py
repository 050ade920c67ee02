from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.waiting import eventually

from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.torture.conftest import Process, Scene

STALE = 2.0
"""Seconds; the lane's heartbeat timeout in tests.torture.jobs."""


async def holder(scene: Scene, job: int) -> Process:
    """The process that runs the job."""
    (row, *_) = await scene.noted(job, "start")
    return next(process for process in scene.processes if process.popen.pid == row["pid"])


async def test_a_killed_workers_job_is_rescued_by_another(scene: Scene) -> None:
    scene.start()
    scene.start()
    handle = await scene.app.task("work").enqueue(seconds=3)
    victim = await holder(scene, handle.id)
    victim.signal(signal.SIGKILL)
    await scene.noted(handle.id, "start", 2)
    await scene.quiet()
    history = await scene.app.jobs.history(handle.id)
    assert [attempt.outcome for attempt in history.attempts] == ["lost"]
    assert history.attempts[0].error is not None
    assert history.attempts[0].error["reason"] == "worker lost"
    # A dead worker is not the handler's failure: the attempt was given back.
    assert (history.job.state, history.job.attempt, history.job.losses) == (State.COMPLETED, 1, 1)


async def test_the_slot_of_a_killed_worker_is_never_called_free(scene: Scene) -> None:
    await scene.app.lanes.create("narrow", kinds=["work"], slots=1, heartbeat_timeout="10m")
    scene.start("victim")
    busy = await scene.app.task("work").enqueue(seconds=600)
    victim = await holder(scene, busy.id)
    waiting = await scene.app.task("work").enqueue()
    victim.signal(signal.SIGKILL)
    victim.end()
    seen: list[str] = []

    async def silence_is_named() -> bool:
        (code, *_) = (await scene.app.jobs.explain(waiting.id)).codes
        if code not in seen:
            seen.append(code)
        status = await scene.app.workers.status()
        lane = next(load for load in status.lanes if load.lane.name == "narrow")
        slots = [use for worker in status.workers for use in worker.slots if use.lane == "narrow"]
        assert (lane.used, max(lane.slots, 1)) == (1, 1)
        assert [(use.used, use.slots) for use in slots] == [(1, 1)]
        gone = "worker_silent" in (await scene.app.jobs.explain(busy.id)).codes
        return gone and code == "workers_silent"

    await eventually(silence_is_named)
    assert seen == ["lane_full", "workers_silent"]


async def test_a_killed_workers_job_goes_on_from_its_cursor(scene: Scene) -> None:
    scene.start()
    handle = await scene.app.task("pages").enqueue()
    await scene.noted(handle.id, "page 24")
    scene.processes[0].signal(signal.SIGKILL)
    scene.start()
    await scene.noted(handle.id, "page 39")
    await scene.quiet()
    rows = await scene.fetch(
        "SELECT fence, what FROM ledger WHERE job = $1 AND what LIKE 'page%' ORDER BY n", handle.id
    )
    first, second = ([int(row["what"][5:]) for row in rows if row["fence"] == fence] for fence in (1, 3))
    assert first == list(range(first[-1] + 1))
    assert second == list(range(second[0], 40))
    # Cursors are written with the progress, once a second: no more than that is done twice, and nothing is left out.
    assert first[-1] - 15 <= second[0] <= first[-1] + 1
    assert second[0] > 0
    job = await scene.app.jobs.get(handle.id)
    assert (job.state, job.losses, job.result) == (State.COMPLETED, 1, ["0", "1", "2"])


async def test_after_all_workers_are_killed_one_new_worker_runs_everything(scene: Scene) -> None:
    first, second = scene.start(), scene.start()
    slow = [await scene.app.task("work").enqueue(seconds=1.5) for _ in range(6)]
    gated = [await scene.app.task("gated").enqueue(seconds=0.2) for _ in range(6)]
    await eventually(lambda: scene.value("SELECT count(*) >= 8 FROM ledger WHERE what = 'start'"))
    first.signal(signal.SIGKILL)
    second.signal(signal.SIGKILL)
    scene.start()
    await scene.quiet()
    jobs = await scene.app.jobs.many([handle.id for handle in (*slow, *gated)])
    assert {job.state for job in jobs} == {State.COMPLETED}


async def test_a_zombies_outcome_is_refused_and_its_handler_told(scene: Scene) -> None:
    scene.start()
    scene.start()
    # Longer than any rescue takes: the zombie's run must not be over when it wakes.
    handle = await scene.app.task("work").enqueue(seconds=STALE + 8)
    zombie = await holder(scene, handle.id)
    zombie.signal(signal.SIGSTOP)
    starts = await scene.noted(handle.id, "start", 2)
    zombie.signal(signal.SIGCONT)
    (told,) = await scene.noted(handle.id, "told")
    assert told["fence"] == starts[0]["fence"]
    await scene.quiet()
    job = await scene.app.jobs.get(handle.id)
    assert (job.state, job.result) == (State.COMPLETED, str(starts[1]["pid"]))
    ends = await scene.fetch("SELECT fence FROM ledger WHERE job = $1 AND what = 'end'", handle.id)
    assert [row["fence"] for row in ends] == [starts[1]["fence"]]
    # The zombie is a worker like any other again.
    assert zombie.popen.poll() is None
    assert "its claim is gone; the handler is told" in zombie.said


async def test_sigterm_drains_and_returns_what_is_unfinished(scene: Scene) -> None:
    leaving = scene.start("leaving", shutdown_after=1)
    short = await scene.app.task("work").enqueue(seconds=0.5)
    long = await scene.app.task("work").enqueue(seconds=60)
    await scene.noted(short.id, "start")
    await scene.noted(long.id, "start")
    staying = scene.start("staying")
    leaving.signal(signal.SIGTERM)
    signalled = await scene.value("SELECT clock_timestamp()")
    late = [await scene.app.task("work").enqueue() for _ in range(20)]
    assert leaving.end() == 0
    starts = await scene.noted(long.id, "start", 2)
    assert starts[1]["pid"] == staying.popen.pid
    await scene.app.jobs.cancel(long.id)
    await scene.quiet()
    assert "returned 1 unfinished jobs" in leaving.said
    started_by_leaver = await scene.value(
        "SELECT count(*) FROM ledger WHERE pid = $1 AND what = 'start' AND at > $2::timestamptz + interval '1 s'",
        leaving.popen.pid,
        signalled,
    )
    assert started_by_leaver == 0
    history = await scene.app.jobs.history(long.id)
    assert [attempt.outcome for attempt in history.attempts] == ["interrupted"]
    assert (history.job.state, history.job.attempt, history.job.losses) == (State.CANCELLED, 1, 0)
    assert (await scene.app.jobs.get(short.id)).result == str(leaving.popen.pid)
    assert {job.attempt for job in await scene.app.jobs.many([handle.id for handle in late])} == {1}


async def test_a_second_sigterm_does_not_wait(scene: Scene) -> None:
    worker = scene.start(shutdown_after=3600)
    handle = await scene.app.task("work").enqueue(seconds=3600)
    await scene.noted(handle.id, "start")
    worker.signal(signal.SIGTERM)
    await eventually(lambda: scene.value("SELECT count(*) = 1 FROM workers WHERE state = 'draining'"))
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    job = await scene.app.jobs.get(handle.id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    await scene.app.jobs.cancel(handle.id)
    await scene.quiet()


async def test_a_poison_job_is_quarantined_after_three_losses(scene: Scene) -> None:
    handle = await scene.app.task("poison").enqueue()
    for _ in range(3):
        worker = scene.start(wait=False)
        assert worker.end() == 9
    neighbour = await scene.app.task("work").enqueue()
    scene.start()
    await scene.quiet()
    history = await scene.app.jobs.history(handle.id)
    assert history.job.state is State.FAILED
    assert history.job.errors is not None
    assert history.job.errors["reason"] == "quarantined"
    assert [attempt.outcome for attempt in history.attempts] == ["lost", "lost", "lost"]
    assert (await scene.app.jobs.get(neighbour.id)).state is State.COMPLETED

"""kill -9 of the worker: its children die with it, its jobs are rescued and run alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.os_processes import alive
from tests.waiting import eventually

from rowlock import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock import Rowlock

LANES = "default:kinds=*,slots=10,stale=1s,poll=1s"


@pytest.fixture
def doomed(database_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the command line in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlock", "worker", "--app", "tests.flow.executors.jobs:app"],
        env={**os.environ, "ROWLOCK_DATABASE_URL": database_url, "ROWLOCK_LANES": LANES},
        cwd=Path(__file__).parents[3],
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("kind", ["loop.waits", "thread.waits", "thread.spins", "process.waits", "process.holds"])
async def test_its_job_is_rescued_and_runs_alone(app: Rowlock, doomed: subprocess.Popen[bytes], kind: str) -> None:
    task: Any = app.task(kind)
    handle = await task.enqueue()

    async def pid() -> int:
        progress = (await handle.job()).progress
        return int(progress.message or 0) if progress is not None else 0

    child = await eventually(pid)
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.wait()
    if kind.startswith("process"):

        async def gone() -> bool:
            return not alive(child)

        await eventually(gone)
    async with app.worker() as worker:
        assert worker is not None

        async def runs_again() -> bool:
            job = await handle.job()
            return job.state is State.RUNNING and job.losses == 1 and len(worker._children._all) == 1

        await eventually(runs_again)
        await app.jobs.stop(handle.id)

        async def child_is_gone() -> bool:
            return not any(child.alive for child in worker._children._all)

        await eventually(child_is_gone)
    history = await app.jobs.history(handle.id)
    assert [attempt.outcome for attempt in history.attempts] == ["lost", "stopped"]

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from tests.torture import hooked
from tests.torture.conftest import ROOT
from tests.waiting import eventually, in_time

if TYPE_CHECKING:
    from rowlock import Job, Rowlock


async def test_a_kill_between_outcome_and_hook_loses_nothing(database_url: str) -> None:
    app = hooked.make(database_url)
    hooked.TOLD.clear()
    job = await app.task("doomed").options(max_attempts=1).enqueue()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.torture.hooked", database_url, cwd=ROOT)
    assert await in_time(process.wait()) == -signal.SIGKILL
    assert (await job.job()).state == "failed"
    assert [(left.kind, left.state) for left in await waiting(app)] == [("doomed/on_exhausted", "queued")]
    async with app.worker():
        await eventually(lambda: nothing_waits(app))
    assert [(job.id, "no ink")] == hooked.TOLD
    await app.close()


async def waiting(app: Rowlock) -> list[Job]:
    return [job for job in await app.jobs.list() if not job.is_final]


async def nothing_waits(app: Rowlock) -> bool:
    return not await waiting(app)

"""python -m tests.torture.hooked URL: a worker killed when the outcome is written and its hook not yet run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta

from rowlock import Failure, Job, Rowlock
from rowlock.settings import Settings
from rowlock.telemetry import JobFinished

TOLD: list[tuple[int, str]] = []


def make(url: str) -> Rowlock:
    app = Rowlock(url, settings=Settings(shutdown_after=timedelta(seconds=1)))

    @app.job
    async def doomed() -> None:
        raise ValueError("no ink")

    @doomed.on_exhausted
    async def exhausted(job: Job, error: Failure) -> None:
        TOLD.append((job.id, error.message))

    app.lanes.define("doomed", kinds=["doomed"], slots=1)
    return app


async def main(url: str) -> None:
    app = make(url)

    @app.listen(JobFinished)
    def die(_: JobFinished) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    # One slot in all, which is taken until the kill: a claim under way then might have taken the hook.
    async with app.worker(lanes=["doomed"]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

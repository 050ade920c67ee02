"""An application whose handlers a child process finds by import, so that suspects run alone."""

from __future__ import annotations

import os
import time

from tests.waiting import busy_for

from rowlock import Rowlock

app = Rowlock()


@app.job
async def innocent(seconds: float) -> None:
    await busy_for(seconds)


@app.job
async def poison() -> None:
    os._exit(9)


@app.job(timeout="3s")
async def spin() -> None:
    time.sleep(120)  # noqa: ASYNC251 - the fault under test, in the handler itself: a report names the function

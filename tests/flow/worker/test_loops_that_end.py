"""Loops that are told to end at the very moment in which they hear of something.

Before Python 3.12 asyncio.wait_for() forgets the one or the other.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.waiting import let_others_run

from rowlock.flow.progress.report import ProgressReport
from rowlock.flow.progress.reporter import Reporter
from rowlock.flow.supervise.supervisor import Supervisor
from rowlock.model.job import Claim
from rowlock.settings import Settings

MOMENTS = range(6)
"""Turns of the loop between the news and the end."""


class Mute:
    """A connection on which every claim turns out to be lost."""

    async def fetch(self, _name: str, /, **_values: object) -> list[object]:
        return []


async def turns(n: int) -> None:
    for _ in range(n):
        await let_others_run()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_progress_ends_at_whatever_moment_a_checkpoint_is_saved(moment: int) -> None:
    lost: list[Claim] = []
    reporter = Reporter(cast("Any", Mute()), 1, lost.append, cast("Any", None))
    reporter.note(ProgressReport(Claim(1, 1)))
    await turns(10)
    assert lost == [Claim(1, 1)]
    saving = asyncio.create_task(reporter.save(ProgressReport(Claim(2, 1))))
    await turns(1 + moment)
    async with asyncio.timeout(5):
        await reporter.close()
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_the_beat_of_a_supervisor_ends_at_whatever_moment_a_process_died(moment: int) -> None:
    rescued: list[object] = []

    async def rescue(workers: object) -> None:
        rescued.append(workers)

    settings = Settings(processes=1, shutdown_after=timedelta(seconds=1))
    supervisor = Supervisor(cast("Any", Mute()), ["true"], settings, rescue=rescue)
    beating = asyncio.create_task(supervisor._beat())
    await turns(10)
    supervisor._beat_now.set()
    await turns(moment)
    beating.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(beating, return_exceptions=True)
    assert beating.cancelled()

"""Reading the stream of a job to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.event import StreamEvent


async def streamed(desk: Desk, job_id: int, after: str | None = "0", *, until: str | None = "end") -> list[StreamEvent]:
    """What a stream tells, up to an event of that name; None: one look."""
    events: list[StreamEvent] = []
    async with await desk.app.streams.follow(job_id, after=after) as following:
        async with asyncio.timeout(20):
            while not following.done and (not events or events[-1].name != until):
                events += await following.next()
                if until is None:
                    break
    return events


def names(events: list[StreamEvent]) -> list[str]:
    return [event.name.removeprefix("job.") for event in events]

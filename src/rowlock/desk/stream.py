"""Following one job live: a snapshot, then everything that happens, in order and once, until its end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowlock.desk.guard import reads
from rowlock.desk.sight import Sight
from rowlock.model.access import Permission
from rowlock.model.event import END, SNAPSHOT, Life, Position, StreamEvent
from rowlock.model.feed import FeedPosition, Topic, Wanted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rowlock.desk.guard import Guard
    from rowlock.desk.feed import Listener
    from rowlock.desk.lookout import Lookout
    from rowlock.desk.lookouts import Lookouts
    from rowlock.model.job import Job
    from rowlock.store.database import Database

_NEEDS: Final = {
    Topic.JOBS: Permission.READ,
    Topic.LANES: Permission.WORKERS_VIEW,
    Topic.WORKERS: Permission.WORKERS_VIEW,
    Topic.STATS: Permission.WORKERS_VIEW,
}


class Streams:
    """app.streams. However many streams are open, a process has one LISTEN connection and one poll for them."""

    def __init__(self, database: Callable[[], Database], guard: Guard, lookouts: Lookouts) -> None:
        self._guard, self._lookouts = guard, lookouts
        self._sight = Sight(database, guard)

    @reads(Permission.READ)
    async def follow(self, job_id: int | str, *, after: str | None = None) -> JobStream:
        """Follow a job: `async with await app.streams.follow(id) as stream: async for event in stream: …`.

        after: the id of the last event that was seen, in this or another process; "0": from the beginning. Without it
        the first event is a snapshot. JobNotFound as for get().
        """
        position = Position.parse(after) if after else None
        job = await self._sight.one(job_id)
        return JobStream(self._lookouts.here().lookout, job, position)

    async def listen(self, wanted: Wanted | None = None, *, after: str | None = None) -> Listener:
        """Hear of every change of the jobs in sight, and of lanes, workers and statistics where asked for.

        after: the id of the last frame that was seen; two minutes back at most, else the first frame is a resync.
        """
        wanted = wanted or Wanted()
        for permission in sorted({_NEEDS[topic] for topic in wanted.topics}):
            self._guard.demand(permission)
        position = FeedPosition.parse(after) if after else None
        return self._lookouts.here().feed.enter(self._guard, wanted, position)

    def close(self) -> None:
        """End every open stream of this process at once, and those to come: it is about to stop.

        Safe in a signal handler and in any thread.
        """
        self._lookouts.close()


class JobStream:
    """The events of one job, for one client. Not more than one task may read it."""

    def __init__(self, lookout: Lookout, job: Job, position: Position | None) -> None:
        self._lookout, self.job = lookout, job
        self._position = position
        self.over = position is not None and position.ended and job.is_final and position.step == job.fence + 1
        """Everything was told before this stream began."""
        self._seat = lookout.enter(job.id, job.fence if position is None else max(0, position.step - 1))

    @property
    def done(self) -> bool:
        """Whether no event follows: the end was told, or the process is about to stop."""
        return self.over or self._lookout.closed

    async def next(self, timeout: float | None = None) -> list[StreamEvent]:
        """The events that follow, as soon as there are some; none after the timeout, or when the stream is done."""
        events: list[StreamEvent] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not events and not self.done:
                    await self._seat.news.wait()
                    self._seat.news.clear()
                    if not self.done:
                        events = self._take(self._seat.life)
        return events

    def _take(self, life: Life | None) -> list[StreamEvent]:
        if life is None:
            if not self._seat.gone:
                return []
            return self._end({"state": None, "reason": "removed"}, self._position or Position.of(self.job))
        position, first = self._position, []
        if position is None or not life.can_follow(position):
            position = _begin(self.job, life)
            first = [StreamEvent(SNAPSHOT, None, {"job": self.job}, position)]
            self._position = position
        if not life.tells(position):
            self._seat.since = max(0, position.step - 1)
            self._lookout.again(self._seat)
            return first
        events = [*first, *life.after(position)]
        self._position = position = events[-1].position if events else position
        self._seat.since = max(0, position.step - 1)
        if life.until < life.fence:
            self._lookout.again(self._seat)
        elif life.state.is_final:
            events += self._end({"state": life.state}, position)
        return events

    def _end(self, data: dict[str, object], position: Position) -> list[StreamEvent]:
        self.over = True
        self._position = replace(position, ended=True)
        return [StreamEvent(END, None, {"id": self.job.public_id, **data}, self._position)]

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Every event until the end."""
        while not self.done:
            for event in await self.next():
                yield event

    def close(self) -> None:
        """Follow no longer."""
        self._lookout.leave(self._seat)

    async def __aenter__(self) -> JobStream:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def _begin(job: Job, life: Life) -> Position:
    """The position after a snapshot that was read a moment before the life: a report made in between is news."""
    report = life.report
    if report is None:
        return Position.of(job)
    shown = job.progress.reported_at if job.progress else None
    seen = shown is not None and report.progress.reported_at is not None and report.progress.reported_at <= shown
    return replace(Position.of(job), report=report.n if seen else report.n - 1, line=life.line)

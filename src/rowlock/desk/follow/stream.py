"""Streams: the events of one job, in order and each once, from a snapshot to its end; and access to the feed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from rowlock.desk.guard import reads
from rowlock.desk.items_and_logs import last_line, logs
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import DatabaseError
from rowlock.model.access import Permission
from rowlock.model.event import END, SNAPSHOT, JobTimeline, StreamEvent, StreamPosition
from rowlock.model.feed import FeedFilter, FeedPosition, Topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rowlock.desk.follow.feed import FeedSubscriber
    from rowlock.desk.follow.job_poll import JobPoll
    from rowlock.desk.follow.streams_per_loop import StreamsPerLoop
    from rowlock.desk.guard import Guard
    from rowlock.model.job import Job
    from rowlock.model.progress import LogLine
    from rowlock.store.database import Database

LINES: Final = 500
"""Log lines that are read at once."""
TOPIC_PERMISSIONS: Final = {
    Topic.JOBS: Permission.READ,
    Topic.LANES: Permission.WORKERS_VIEW,
    Topic.WORKERS: Permission.WORKERS_VIEW,
    Topic.STATS: Permission.WORKERS_VIEW,
    Topic.SCHEDULES: Permission.SCHEDULES_VIEW,
    Topic.OPERATIONS: Permission.READ,
}
_SCOPED: Final = frozenset({Permission.READ, Permission.SCHEDULES_VIEW})
"""Permissions that may have a scope: the feed shows what it reaches."""


class Streams:
    """app.streams. All open streams of a process share one LISTEN connection and one poll."""

    def __init__(self, database: Callable[[], Database], guard: Guard, streams_per_loop: StreamsPerLoop) -> None:
        self._guard, self._streams_per_loop = guard, streams_per_loop
        self._visible_jobs = VisibleJobs(database, guard)

    @reads(Permission.READ, scoped=True)
    async def follow(self, job_id: int | str, *, after: str | None = None) -> JobStream:
        """Follow a job: `async with await app.streams.follow(id) as stream: async for event in stream: …`.

        after: the id of the last event that was seen, in this or another process; "0": from the beginning. Without it
        the first event is a snapshot. JobNotFound as for get().
        """
        position = StreamPosition.parse(after) if after else None
        job, line = await self._visible_jobs.one(job_id), 0
        if job.fence > 0 and (position is None or not position.fits(job)):
            # The job is read after the end of its log: a line that comes in between is reported, not lost.
            line = await last_line(self._streams_per_loop.current().database, job.id)
            job = await self._visible_jobs.one(job_id)
        return JobStream(self._streams_per_loop.current().job_poll, job, position, line)

    async def listen(self, wanted: FeedFilter | None = None, *, after: str | None = None) -> FeedSubscriber:
        """Subscribe to changes of all visible jobs, and of the other topics if wanted.

        after: the id of the last frame that was seen; two minutes back at most, else the first frame is a resync.
        """
        wanted = wanted or FeedFilter()
        for permission in sorted({TOPIC_PERMISSIONS[topic] for topic in wanted.topics}):
            self._guard.demand(permission, scoped=permission in _SCOPED)
        position = FeedPosition.parse(after) if after else None
        return self._streams_per_loop.current().feed.enter(self._guard, wanted, position)

    @property
    def closing(self) -> bool:
        """Whether this process is about to stop, so that clients should connect to another one."""
        return self._streams_per_loop.closed

    def close(self) -> None:
        """End every open stream of this process at once, and those to come: it is about to stop.

        Safe in a signal handler and in any thread.
        """
        self._streams_per_loop.close()


class JobStream:
    """The events of one job, for one client. Not more than one task may read it."""

    def __init__(self, job_poll: JobPoll, job: Job, position: StreamPosition | None, line: int) -> None:
        """line: the number of the log's last line; a stream that begins with a snapshot reports only later ones."""
        self._job_poll, self.job, self._line = job_poll, job, line
        self._position = position
        self.over = position is not None and position.ended and job.is_final and position.step == job.fence + 1
        """Whether the job's end was reported before this stream began."""
        self._follower = job_poll.enter(job.id, job.fence if position is None else max(0, position.step - 1))

    @property
    def done(self) -> bool:
        """Whether no event follows: the end was reported, or the process is about to stop."""
        return self.over or self._job_poll.closed

    async def next(self, timeout: float | None = None) -> list[StreamEvent]:
        """The next events, as soon as there are any; none after the timeout or when the stream is done."""
        until = None if timeout is None else asyncio.get_running_loop().time() + timeout
        events: list[StreamEvent] = []
        while not events and not self.done:
            try:
                # The timeout covers the waiting alone: events that were taken have to be returned.
                async with asyncio.timeout_at(until):
                    await self._follower.ready.wait()
            except TimeoutError:
                break
            self._follower.ready.clear()
            if not self.done:
                events = await self._take(self._follower.life)
        return events

    async def _take(self, life: JobTimeline | None) -> list[StreamEvent]:
        position, first = self._position, list[StreamEvent]()
        if life is None:
            removed: dict[str, object] = {"state": None, "reason": "removed"}
            return self._end(removed, position or StreamPosition.of(self.job)) if self._follower.gone else []
        if position is None or not position.fits(life):
            position = replace(StreamPosition.of(self.job), line=self._line)
            first = [StreamEvent(SNAPSHOT, None, {"job": self.job}, position)]
        try:
            lines = await self._lines(life, position) if life.covers(position) else None
        except DatabaseError:
            lines = None
        events = [
            *first,
            *(life.events_after(position, lines, all_lines=len(lines) < LINES) if lines is not None else ()),
        ]
        self._position = position = events[-1].position if events else position
        self._follower.since = max(0, position.step - 1)
        if lines is None or len(lines) >= LINES or life.until < life.fence:
            self._job_poll.again(self._follower)
        elif life.state.is_final:
            events += self._end({"state": life.state}, position)
        return events

    async def _lines(self, life: JobTimeline, position: StreamPosition) -> list[LogLine]:
        if life.line <= position.line:
            return []
        found = await logs(self._job_poll.database, self.job.id, position.line, LINES, last=False)
        return [line for line in found if line.n <= life.line]

    def _end(self, data: dict[str, object], position: StreamPosition) -> list[StreamEvent]:
        self.over = True
        self._position = replace(position, ended=True)
        return [StreamEvent(END, None, {"id": self.job.public_id, **data}, self._position)]

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Every event until the end."""
        while not self.done:
            for event in await self.next():
                yield event

    def close(self) -> None:
        """Stop following."""
        self._job_poll.leave(self._follower)

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        self.close()

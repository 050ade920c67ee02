"""Watch: polls some jobs, or all running ones, with their progress, pace and time left; for the command line."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, assert_never

from rowlock.errors import DatabaseUnreachable, JobNotFound
from rowlock.model import ids
from rowlock.model.notify_messages import (
    AwaitedEnds,
    CancelRequested,
    ClaimsRevoked,
    DrainRequested,
    LanesEdited,
    LockReleased,
    SchedulesEdited,
    WakeUp,
)
from rowlock.model.state import State
from rowlock.store.notify import NotificationListener
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.notify_messages import Message
    from rowlock.model.progress import Progress
    from rowlock.store.database import Database, Record

EVERY: Final = 1.0
"""Seconds between two polls; an end is noticed at once where LISTEN works."""
_MOST: Final = 500
"""Running jobs that are polled when no ids are given."""
_WINDOW: Final = timedelta(seconds=30)
"""The pace is measured over this time."""
_OVERDUE: Final = timedelta(seconds=10)
_RENEW: Final = timedelta(minutes=5)
_PATIENCE: Final = 60
"""Failed polls, one per second, until Watch gives up."""


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """A job as of one poll. rate: counted units per second; eta: time left at that rate; None: unknown."""

    id: int
    kind: str
    state: State
    attempt: int
    max_attempts: int
    fence: int
    seq: int
    lane: str | None
    worker: str | None
    cancel_requested: bool
    run_after: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    seen_at: datetime
    error: Mapping[str, object]
    progress: Progress | None = None
    rate: float | None = None
    eta: timedelta | None = None

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode(self.id)

    @property
    def is_final(self) -> bool:
        """Whether only a person's retry leads on from here."""
        return self.state.is_final


@dataclass(slots=True)
class Pace:
    """The pace of one phase of one attempt, by the database's clock."""

    key: tuple[int, str | None]
    marks: deque[tuple[datetime, float]] = field(default_factory=deque)

    def mark(self, at: datetime, done: float) -> None:
        """Add a report; a counter that went back starts over."""
        if self.marks and self.marks[-1][1] > done:
            self.marks.clear()
        if not self.marks or self.marks[-1][0] < at:
            self.marks.append((at, done))
        while len(self.marks) > 2 and self.marks[1][0] < at - _WINDOW:  # noqa: PLR2004 - two marks make a pace
            self.marks.popleft()

    def rate(self, now: datetime) -> float | None:
        """Units per second; None before the second report, and while the next one is long overdue."""
        (first, before), (last, done) = self.marks[0], self.marks[-1]
        usual = (last - first) / max(1, len(self.marks) - 1)
        if last <= first or now - last > max(_OVERDUE, 3 * usual):
            return None
        return (done - before) / (last - first).total_seconds()


class Watch:
    """Polls the given jobs, or all running ones."""

    def __init__(self, database: Database, job_ids: Sequence[int | str] = (), *, listen: bool = True) -> None:
        self._database, self._listen = database, listen
        self._ids = list(dict.fromkeys(ids.parse(job_id) for job_id in job_ids))
        self._wanted = frozenset(self._ids)
        self._seen: dict[int, WatchedJob] = {}
        self._paces: dict[int, Pace] = {}
        self._wake_event = asyncio.Event()
        self._looked = False
        self.away = False
        """The database did not answer the last poll."""

    @property
    def asked(self) -> int:
        """The number of given jobs, without duplicates."""
        return len(self._ids)

    async def looks(self) -> AsyncIterator[list[WatchedJob]]:
        """The jobs of every poll, once a second; in the last one every given job is final.

        A job that was removed meanwhile is left out. DatabaseUnreachable after a minute without an answer.
        """
        async with self._listening():
            in_vain = 0
            while True:
                self._wake_event.clear()
                try:
                    watched_jobs = await self._look()
                except DatabaseUnreachable:
                    in_vain += 1
                    if in_vain > _PATIENCE or not self._looked:
                        raise
                    self.away = True
                    yield list(self._seen.values())
                else:
                    in_vain, self.away = 0, False
                    yield watched_jobs
                    if self._ids and all(one.is_final for one in watched_jobs):
                        return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EVERY):
                        await self._wake_event.wait()

    async def _look(self) -> list[WatchedJob]:
        if self._ids:
            found = await self._database.fetch("watched_jobs", ids=self._ids)
            missing = set(self._ids) - {row["id"] for row in found}
            if missing and not self._looked:
                raise JobNotFound(f"There is no job {', '.join(ids.encode(one) for one in sorted(missing))}.")
        else:
            # Jobs that ended are polled once more, to report how, and then dropped.
            running = [one.id for one in self._seen.values() if not one.is_final]
            found = await self._database.fetch("watched_running_jobs", n=_MOST, seen=running)
        watched_jobs = [self._paced(_watched_job(row)) for row in found]
        self._seen, self._looked = {one.id: one for one in watched_jobs}, True
        return watched_jobs

    def _paced(self, one: WatchedJob) -> WatchedJob:
        progress = one.progress
        if one.state is not State.RUNNING or progress is None or progress.reported_at is None:
            return one
        key = one.fence, progress.phase
        pace = self._paces.get(one.id)
        if pace is None or pace.key != key:
            pace = self._paces[one.id] = Pace(key)
        pace.mark(progress.reported_at, progress.done)
        # One poll gives no pace: the first rate is that of the whole phase.
        rate = pace.rate(one.seen_at) or (progress.rate if len(pace.marks) == 1 else None)
        if not rate or rate < 0:
            return one
        left = None if progress.total is None else max(0.0, progress.total - progress.done) / rate
        return replace(one, rate=rate, eta=None if left is None else timedelta(seconds=left))

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """Have the ends of the given jobs announced; without LISTEN the polls suffice."""
        if not (self._ids and self._listen):
            yield
            return
        waiter = uuid.uuid4()
        listener = NotificationListener(self._database, self._on_message, self._wake_event.set)
        listener.start()
        waiting = asyncio.create_task(self._keep_waiting(waiter))
        try:
            yield
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, listener.stop(), return_exceptions=True)
            with contextlib.suppress(DatabaseUnreachable):
                await self._database.fetch("forget_jobs", ids=self._ids, waiter=waiter)

    async def _keep_waiting(self, waiter: uuid.UUID) -> None:
        # Renewed instead of written for a day, so that a killed process leaves no waiter behind for long.
        while True:
            with contextlib.suppress(DatabaseUnreachable):
                await self._database.fetch("await_jobs", ids=self._ids, waiter=waiter, seconds=2 * _RENEW)
                self._wake_event.set()
            await asyncio.sleep(_RENEW.total_seconds())

    def _on_message(self, message: Message) -> None:
        match message:
            case AwaitedEnds(keys):
                if not self._wanted.isdisjoint(keys):
                    self._wake_event.set()
            case (
                WakeUp()
                | CancelRequested()
                | ClaimsRevoked()
                | LanesEdited()
                | SchedulesEdited()
                | DrainRequested()
                | LockReleased()
            ):
                pass
            case _:
                assert_never(message)


def _watched_job(row: Record) -> WatchedJob:
    return WatchedJob(
        id=row["id"],
        kind=row["kind"],
        state=State(row["state"]),
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        fence=row["fence"],
        seq=row["seq"],
        lane=row["lane"],
        worker=row["worker"],
        cancel_requested=row["cancel_requested"],
        run_after=row["run_after"],
        claimed_at=row["claimed_at"],
        finished_at=row["finished_at"],
        seen_at=row["now"],
        error=rows.error_of(row["error"]) or {},
        progress=rows.progress_of(row),
    )

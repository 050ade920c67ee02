"""JobPoll: one poll per event loop for every followed job, however many streams follow it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.errors import RowlockError
from rowlock.outage_log import OutageLog
from rowlock.store.database import TRANSIENT
from rowlock.store.rows.followed_jobs import life_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.desk.follow.waiting import EndNotifications
    from rowlock.model.event import JobTimeline
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.stream")
EVERY: Final = 0.5
"""Seconds between two polls; an end is noticed at once where LISTEN works."""
_GAP: Final = 0.02
"""Seconds between two polls at least, however many messages come."""
_AWAY: Final = 1.0
"""Seconds between two polls of a database that does not answer."""
_RENEW: Final = timedelta(minutes=5)
MOST: Final = 500
"""Attempts, and acts, of a job that one poll reads."""


class JobFollower:
    """One stream of one job. Only the newest timeline is kept: it has all events that were not reported yet."""

    def __init__(self, job_id: int, since: int) -> None:
        self.job_id, self.since = job_id, since
        """since: events from this fence on are wanted."""
        self.life: JobTimeline | None = None
        self.gone = False
        self.ready = asyncio.Event()

    def give(self, life: JobTimeline | None) -> None:
        """Replace the timeline by a newer one; None: the job was removed."""
        self.life, self.gone = life, life is None
        self.ready.set()


@dataclass(slots=True)
class _Followed:
    """A followed job as of the last poll. seq -1: it has not been polled."""

    followers: set[JobFollower] = field(default_factory=set)
    seq: int | None = -1
    report: int | None = None
    awaited: bool = False


class JobPoll:
    """The poll of one event loop; it sleeps while no job is followed."""

    def __init__(self, database: Database, end_notifications: EndNotifications) -> None:
        self.database, self._end_notifications = database, end_notifications
        self.closed = False
        self._outage = OutageLog(logger, "streams wait for the database", "streams go on")
        self.looks = 0
        self._followed: dict[int, _Followed] = {}
        self._left: set[int] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def enter(self, job_id: int, since: int) -> JobFollower:
        """Follow a job. It is polled at once, with everything from that fence on."""
        follower = JobFollower(job_id, since)
        if self.closed:
            follower.ready.set()
            return follower
        self._followed.setdefault(job_id, _Followed()).followers.add(follower)
        self.again(follower)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock-job-poll")
        return follower

    def again(self, follower: JobFollower) -> None:
        """Poll the job once more, whether it changed or not."""
        followed = self._followed.get(follower.job_id)
        if followed is not None:
            followed.seq = -1
            self._changed.set()

    def leave(self, follower: JobFollower) -> None:
        """Stop following."""
        followed = self._followed.get(follower.job_id)
        if followed is not None:
            followed.followers.discard(follower)
            if not followed.followers:
                del self._followed[follower.job_id]
                self._left.add(follower.job_id)

    def close(self) -> None:
        """End every stream of this loop, now and from now on."""
        self.closed = True
        for followed in self._followed.values():
            for follower in followed.followers:
                follower.ready.set()

    async def stop(self) -> None:
        """Close, and end the task."""
        self.close()
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        waiter = uuid.uuid4()
        try:
            async with self._end_notifications.subscribed(self._on_ends):
                renewed = time.monotonic()
                while self._followed and not self.closed:
                    self._changed.clear()
                    if time.monotonic() - renewed > _RENEW.total_seconds():
                        renewed = time.monotonic()
                        self._await_anew()
                    pause = EVERY if await self._look_once(waiter) else _AWAY
                    await asyncio.sleep(_GAP)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._changed.wait()
                # From here on a new follower starts a task of its own.
                self._task = None
        finally:
            if self._task is asyncio.current_task():
                self._task = None
            with contextlib.suppress(RowlockError, OSError):
                await self.database.fetch("forget_jobs", ids=sorted(self._left), waiter=waiter)
                self._left.clear()

    async def _look_once(self, waiter: uuid.UUID) -> bool:
        """False: the database did not answer. Streams stay open, and get the events of the outage afterwards."""
        try:
            await self._await(waiter)
            await self._look()
        except (RowlockError, *TRANSIENT) as error:
            self._outage.failed(error)
            return False
        except Exception as error:  # noqa: BLE001 - those who follow wait for the next look
            self._outage.failed(error, unforeseen=True)
            return False
        self._outage.recovered()
        return True

    async def _await(self, waiter: uuid.UUID) -> None:
        """Have the ends of these jobs announced; before the poll, so that no later commit is missed."""
        new = [job_id for job_id, followed in self._followed.items() if not followed.awaited]
        if new:
            await self.database.fetch("await_jobs", ids=sorted(new), waiter=waiter, seconds=2 * _RENEW)
            for job_id in new:
                if job_id in self._followed:
                    self._followed[job_id].awaited = True
        if left := [job_id for job_id in self._left if job_id not in self._followed]:
            await self.database.fetch("forget_jobs", ids=sorted(left), waiter=waiter)
        self._left.clear()

    def _await_anew(self) -> None:
        # Renewed instead of written for a day, so that a killed process leaves no waiter behind for long.
        for followed in self._followed.values():
            followed.awaited = False

    async def _look(self) -> None:
        asked = dict(self._followed)
        if not asked:
            return
        self.looks += 1
        found = await self.database.fetch(
            "stream_look",
            ids=list(asked),
            sinces=[min((follower.since for follower in one.followers), default=0) for one in asked.values()],
            seqs=[one.seq for one in asked.values()],
            reports=[one.report for one in asked.values()],
            most=MOST,
        )
        for row in found:
            followed = asked[row["asked"]]
            newcomers = followed.seq == -1 and any(follower.since < row["since"] for follower in followed.followers)
            # A follower that came during the poll may need older events: then the job is polled again.
            followed.seq, followed.report = -1 if newcomers else row["seq"], row["report"]
            life = None if row["id"] is None else life_of(row, MOST)
            for follower in followed.followers:
                follower.give(life)

    def _on_ends(self, done: Sequence[int] | None) -> None:
        if done is None or any(job_id in self._followed for job_id in done):
            self._changed.set()

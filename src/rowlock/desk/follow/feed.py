"""Feed: changes of jobs, lanes, workers, schedules, operations, statistics; one poll per loop for all subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk.guard import TRUSTED
from rowlock.desk.operation_driver import operation_of
from rowlock.desk.workers import views
from rowlock.errors import DatabaseError, RowlockError
from rowlock.model.access import Permission
from rowlock.model.feed import ChangedJob, FeedBatch, FeedEvent, FeedPosition, Topic
from rowlock.model.state import State
from rowlock.outage_log import OutageLog
from rowlock.store import lanes as lane_rows
from rowlock.store.database import TRANSIENT
from rowlock.store.rows.schedules import schedule_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rowlock.desk.guard import Guard
    from rowlock.model.feed import FeedFilter, Visibility
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.stream")
EVERY: Final = 0.5
"""Seconds between two polls; of several changes of a job in between, the last one is reported."""
_SLOW: Final = {
    Topic.LANES: 1.0,
    Topic.WORKERS: 1.0,
    Topic.OPERATIONS: 1.0,
    Topic.SCHEDULES: 2.0,
    Topic.STATS: 5.0,
}
"""Seconds between two polls of these topics."""
_OF_CALLERS: Final = {Topic.SCHEDULES: Permission.SCHEDULES_VIEW, Topic.OPERATIONS: Permission.READ}
"""Topics of which each subscriber sees its own part, and the permission that decides which."""
_OPERATIONS: Final = 20
"""Operations in a frame, the newest."""
_LATE: Final = timedelta(seconds=5)
"""A change is found if its commit comes no later than this after the write."""
OLDEST: Final = timedelta(minutes=2)
"""Age up to which a position can be resumed from."""
MOST: Final = 2000
"""Changes of one poll at most; more become a resync."""
WALK: Final = 20_000
"""Rows that one poll reads of each index; if there are more, changes may be missed, so it is a resync."""
QUEUE: Final = 32
"""Batches that wait for a slow client; if more come, all are dropped and the client gets a resync."""
RESYNC: Final = "resync"


class FeedSubscriber:
    """One subscriber of the feed."""

    def __init__(self, feed: Feed, guard: Guard, wanted: FeedFilter, after: FeedPosition | None) -> None:
        self._feed, self.wanted, self._after = feed, wanted, after
        self.scope = _visibility(guard)
        """Which jobs the principal may see."""
        self.guards = {topic: guard.acting_with(need) for topic, need in _OF_CALLERS.items()}
        """What it may see of schedules and operations."""
        self._batches: deque[FeedBatch] = deque()
        self._slow: dict[Topic, FeedEvent] = {}
        self._last_sent_seq: dict[int, int] = {}
        self._dropped = False
        self.ready = asyncio.Event()
        self.position: FeedPosition | None = None

    @property
    def done(self) -> bool:
        """Whether the process is about to stop."""
        return self._feed.closed

    def give(self, batch: FeedBatch) -> None:
        """Add a batch; if too many wait, all are dropped."""
        if len(self._batches) >= QUEUE:
            self._batches.clear()
            self._dropped = True
        self._batches.append(batch)
        self.ready.set()

    def give_slow(self, topic: Topic, frame: FeedEvent) -> None:
        """Replace the newest frame of one of the slow topics."""
        self._slow[topic] = frame
        self.ready.set()

    async def next(self, timeout: float | None = None) -> list[FeedEvent]:
        """The next frames, as soon as there are any; none after the timeout or when the feed is closed."""
        frames: list[FeedEvent] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                if self._after is not None:
                    frames, self._after = await self._caught_up(self._after), None
                while not frames and not self.done:
                    await self.ready.wait()
                    self.ready.clear()
                    frames = self._take()
        return frames

    async def _caught_up(self, after: FeedPosition) -> list[FeedEvent]:
        while True:
            with contextlib.suppress(DatabaseError):
                return self._frames(await self._feed.since(after, self.scope))
            await asyncio.sleep(EVERY)

    def _take(self) -> list[FeedEvent]:
        frames = list(self._slow.values())
        self._slow.clear()
        if self._dropped:
            self._dropped = False
            frames.append(FeedEvent(RESYNC, {"reason": "read too slowly"}))
        while self._batches:
            frames += self._frames(self._batches.popleft())
        return frames

    def _frames(self, batch: FeedBatch) -> list[FeedEvent]:
        first, self.position = self.position is None, batch.position
        if batch.missed:
            return [FeedEvent(RESYNC, {"reason": "more changed than can be told"}, batch.position)]
        new = [change for change, scopes in batch.changes if self.scope in scopes and self._is_new(change)]
        if not new:
            # Only the position, from which a client that reconnects goes on.
            return [FeedEvent(None, {}, batch.position)] if first else []
        data = {"changes": [change.data for change in new], "lag": round(batch.lag, 3)}
        return [FeedEvent(Topic.JOBS, data, batch.position)]

    def _is_new(self, change: ChangedJob) -> bool:
        """False: the change was reported already; around a reconnect it may be found twice."""
        if (
            Topic.JOBS not in self.wanted.topics
            or not self.wanted.fits(change)
            or self._last_sent_seq.get(change.id, -1) >= change.seq
        ):
            return False
        self._last_sent_seq[change.id] = change.seq
        if len(self._last_sent_seq) > 2 * MOST:
            for known in list(self._last_sent_seq)[:MOST]:
                del self._last_sent_seq[known]
        return True

    def close(self) -> None:
        """Unsubscribe."""
        self._feed.leave(self)


class Feed:
    """The poll of one event loop; it sleeps while there are no subscribers."""

    def __init__(self, database: Database, overview: Callable[[], Awaitable[object]]) -> None:
        self.database, self._overview = database, overview
        self.closed = False
        self.looks = 0
        self._subscribers: set[FeedSubscriber] = set()
        self._looking = asyncio.Lock()
        self._position: FeedPosition | None = None
        self._running: set[int] = set()
        self._known: dict[tuple[Topic, str], object] = {}
        self._looked_at: dict[Topic, float] = {}
        self._task: asyncio.Task[None] | None = None

    def enter(self, guard: Guard, wanted: FeedFilter, after: FeedPosition | None) -> FeedSubscriber:
        """Subscribe from now on, or from a position."""
        subscriber = FeedSubscriber(self, guard, wanted, after)
        if self.closed:
            subscriber.ready.set()
            return subscriber
        self._subscribers.add(subscriber)
        for topic in wanted.topics & set(_SLOW):
            # The first poll after a new subscriber reports the slow topics to all of them.
            self._known = {key: known for key, known in self._known.items() if key[0] is not topic}
            self._looked_at.pop(topic, None)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock-feed")
        return subscriber

    def leave(self, subscriber: FeedSubscriber) -> None:
        """Unsubscribe."""
        self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End every subscription of this loop, now and from now on."""
        self.closed = True
        for subscriber in self._subscribers:
            subscriber.ready.set()

    async def stop(self) -> None:
        """Close, and end the task."""
        self.close()
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        outage = OutageLog(logger, "feeds wait for the database", "feeds go on")
        try:
            while self._subscribers and not self.closed:
                try:
                    await self._look_once()
                    outage.recovered()
                except (RowlockError, *TRANSIENT) as error:
                    outage.failed(error)
                except Exception as error:  # noqa: BLE001 - those who listen wait for the next look
                    outage.failed(error, unforeseen=True)
                await asyncio.sleep(EVERY)
        finally:
            if self._task is asyncio.current_task():
                # No subscribers: the next one begins with a poll of its own.
                self._task, self._position = None, None

    async def _look_once(self) -> None:
        self.looks += 1
        # A client that reconnects during this poll catches up after it, and takes part in the next one.
        async with self._looking:
            subscribers = [one for one in self._subscribers if Topic.JOBS in one.wanted.topics]
            batch = await self._jobs({one.scope for one in subscribers}) if subscribers else None
            if batch is not None:
                for subscriber in subscribers:
                    subscriber.give(batch)
        for topic, every in _SLOW.items():
            asking = [one for one in self._subscribers if topic in one.wanted.topics]
            if asking and time.monotonic() - self._looked_at.get(topic, -every) >= every:
                self._looked_at[topic] = time.monotonic()
                await self._slowly(topic, asking)

    async def _jobs(self, scopes: Iterable[Visibility]) -> FeedBatch:
        before = self._position
        if before is None:
            self._running = {row["id"] for row in await self.database.fetch("feed_running", n=MOST)}
        batch = await self._batch(before, list(scopes))
        self._position = batch.position
        for change, _ in batch.changes:
            # Two transitions have no index by time: the release of a blocked job, and a returned attempt.
            goes_on = change.state in (State.RUNNING, State.BLOCKED)
            (self._running.add if goes_on else self._running.discard)(change.id)
        if len(self._running) > 2 * MOST:
            self._running.clear()
        return _aged(batch, before)

    async def since(self, after: FeedPosition, scope: Visibility) -> FeedBatch:
        """The changes since a position; a resync if it is too old or in the future."""
        async with self._looking:
            if self._position is None:
                # The next poll has to go on from before this answer, not from its own beginning.
                await self._jobs([scope])
            return _aged(await self._batch(after, [scope]), after)

    async def _batch(self, before: FeedPosition | None, scopes: Sequence[Visibility]) -> FeedBatch:
        found = await self.database.fetch(
            "feed_look",
            since=None if before is None else before.at - _LATE,
            last_snapshot=None if before is None else before.snapshot,
            n=MOST,
            walk=WALK,
            seen=sorted(self._running),
            sees_all=[scope[0] for scope in scopes],
            tenants=[scope[1] for scope in scopes],
            subjects=[scope[2] for scope in scopes],
            grants=[scope[3] for scope in scopes],
        )
        changes = [
            (_change(row), frozenset(scopes[number - 1] for number in row["scopes"]))
            for row in found
            if row["id"] is not None
        ]
        missed = found[0]["cut"] or len(changes) >= MOST
        return FeedBatch(FeedPosition(found[0]["at"], found[0]["snapshot"]), changes, missed=missed)

    async def _slowly(self, topic: Topic, subscribers: Sequence[FeedSubscriber]) -> None:
        """All lanes or workers, say, whenever one changed: a client that missed a frame has missed nothing."""
        if topic is Topic.STATS:
            frame = FeedEvent(topic, {"overview": await self._overview()})
            for subscriber in subscribers:
                subscriber.give_slow(topic, frame)
            return
        alike: dict[str, list[FeedSubscriber]] = {}
        for subscriber in subscribers:
            guard = subscriber.guards.get(topic)
            alike.setdefault("" if guard is None else json.dumps(guard.visibility), []).append(subscriber)
        for part, those in alike.items():
            items, known = await self._whole(topic, those[0].guards.get(topic, TRUSTED))
            if self._known.get((topic, part)) != known:
                self._known[topic, part] = known
                for subscriber in those:
                    subscriber.give_slow(topic, FeedEvent(topic, {"items": items}))

    async def _whole(self, topic: Topic, guard: Guard) -> tuple[Sequence[object], object]:
        """The frame, and the part of it that counts as a change: beats and slot use do not."""
        match topic:
            case Topic.LANES:
                lanes = await lane_rows.read(self.database)
                return lanes, lanes
            case Topic.SCHEDULES:
                rows = await self.database.fetch("schedules", only=None, **guard.visibility)
                schedules = [schedule_of(row) for row in rows]
                return schedules, schedules
            case Topic.OPERATIONS:
                found = await self.database.fetch("operations_list", n=_OPERATIONS, **guard.visibility)
                operations = [operation_of(row) for row in found]
                return operations, operations
            case _:
                workers = await views(self.database)
                return workers, [replace(one, seen_at=one.started_at, running=0) for one in workers]


def _visibility(guard: Guard) -> Visibility:
    return guard.sees_all, guard.principal.tenant, guard.principal.subject, guard.granted


def _aged(batch: FeedBatch, before: FeedPosition | None) -> FeedBatch:
    """The batch with its lag; a resync if it lags more than can be resumed."""
    lag = timedelta(0) if before is None else batch.position.at - before.at
    return replace(batch, lag=lag.total_seconds(), missed=batch.missed or not timedelta(0) <= lag <= OLDEST)


def _change(row: Record) -> ChangedJob:
    names = ("id", "seq", "fence", "kind", "attempt", "priority", "lane", "tenant")
    moments = ("run_after", "created_at", "claimed_at", "finished_at")
    return ChangedJob(state=State(row["state"]), **{name: row[name] for name in (*names, *moments)})

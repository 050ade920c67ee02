"""Feed: what changes anywhere, from one look per event loop for everybody who listens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk.workers import views
from rowlock.errors import DatabaseError, RowlockError
from rowlock.model.feed import ChangedJob, FeedBatch, FeedEvent, FeedPosition, Topic
from rowlock.model.state import State
from rowlock.outage_log import OutageLog
from rowlock.store import lanes as lane_rows
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rowlock.desk.guard import Guard
    from rowlock.model.feed import FeedFilter, Visibility
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.stream")
EVERY: Final = 0.5
"""Seconds between two looks: a job that changes more often in between is told once, as it is then."""
_SLOW: Final = {Topic.LANES: 1.0, Topic.WORKERS: 1.0, Topic.STATS: 5.0}
"""Seconds between two looks at what changes seldom."""
_LATE: Final = timedelta(seconds=5)
"""How long a commit may come after what it wrote and still be found."""
OLDEST: Final = timedelta(minutes=2)
"""How far back a position can be resumed from."""
MOST: Final = 2000
"""Changes that one look tells; more are a resync."""
WALK: Final = 20_000
"""Rows of each index that one look reads; where there are more, changes may be among those not read: a resync."""
QUEUE: Final = 32
"""Looks that wait for a client that reads too slowly; more are dropped, and it is told so."""
RESYNC: Final = "resync"


class FeedSubscriber:
    """Somebody who listens to the feed."""

    def __init__(self, feed: Feed, scope: Visibility, wanted: FeedFilter, after: FeedPosition | None) -> None:
        self._feed, self.scope, self.wanted, self._after = feed, scope, wanted, after
        """scope: what they may see."""
        self._batches: deque[FeedBatch] = deque()
        self._slow: dict[Topic, FeedEvent] = {}
        self._told: dict[int, int] = {}
        self._dropped = False
        self.news = asyncio.Event()
        self.position: FeedPosition | None = None

    @property
    def done(self) -> bool:
        """Whether the process is about to stop."""
        return self._feed.closed

    def give(self, batch: FeedBatch) -> None:
        """Hand over a look; one too many, and all that wait are dropped."""
        if len(self._batches) >= QUEUE:
            self._batches.clear()
            self._dropped = True
        self._batches.append(batch)
        self.news.set()

    def give_slow(self, topic: Topic, frame: FeedEvent) -> None:
        """Hand over lanes, workers or statistics; only the newest counts."""
        self._slow[topic] = frame
        self.news.set()

    async def next(self, timeout: float | None = None) -> list[FeedEvent]:
        """What there is to tell, as soon as there is something; none after the timeout or when the feed is closed."""
        frames: list[FeedEvent] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                if self._after is not None:
                    frames, self._after = await self._caught_up(self._after), None
                while not frames and not self.done:
                    await self.news.wait()
                    self.news.clear()
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
        told = [change for change, scopes in batch.changes if self.scope in scopes and self._is_new(change)]
        if not told:
            # Only the position: a client that comes back goes on from here.
            return [FeedEvent(None, {}, batch.position)] if first else []
        data = {"changes": [change.data for change in told], "lag": round(batch.lag, 3)}
        return [FeedEvent(Topic.JOBS, data, batch.position)]

    def _is_new(self, change: ChangedJob) -> bool:
        """A change is told once, though it may be found twice around the moment a client came back."""
        if (
            Topic.JOBS not in self.wanted.topics
            or not self.wanted.fits(change)
            or self._told.get(change.id, -1) >= change.seq
        ):
            return False
        self._told[change.id] = change.seq
        if len(self._told) > 2 * MOST:
            for known in list(self._told)[:MOST]:
                del self._told[known]
        return True

    def close(self) -> None:
        """Listen no longer."""
        self._feed.leave(self)


class Feed:
    """Looks for those who listen on one event loop; sleeps while there are none."""

    def __init__(self, database: Database, overview: Callable[[], Awaitable[object]]) -> None:
        self.database, self._overview = database, overview
        self.closed = False
        self.looks = 0
        self._subscribers: set[FeedSubscriber] = set()
        self._looking = asyncio.Lock()
        self._position: FeedPosition | None = None
        self._running: set[int] = set()
        self._known: dict[Topic, object] = {}
        self._looked_at: dict[Topic, float] = {}
        self._task: asyncio.Task[None] | None = None

    def enter(self, guard: Guard, wanted: FeedFilter, after: FeedPosition | None) -> FeedSubscriber:
        """Listen from now on, or from a position."""
        visibility = guard.visibility
        scope: Visibility = (bool(visibility["sees_all"]), guard.principal.tenant, guard.principal.subject)
        subscriber = FeedSubscriber(self, scope, wanted, after)
        if self.closed:
            subscriber.news.set()
            return subscriber
        self._subscribers.add(subscriber)
        for topic in wanted.topics & set(_SLOW):
            # The first look after somebody came tells everybody anew.
            self._known.pop(topic, None)
            self._looked_at.pop(topic, None)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock-feed")
        return subscriber

    def leave(self, subscriber: FeedSubscriber) -> None:
        """Listen no longer."""
        self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End every feed of this loop, now and from now on."""
        self.closed = True
        for subscriber in self._subscribers:
            subscriber.news.set()

    async def stop(self) -> None:
        """Close, and let go of the connections."""
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
                # Nobody listens: whoever comes next begins with a look of its own.
                self._task, self._position = None, None

    async def _look_once(self) -> None:
        self.looks += 1
        # Whoever comes back while this look is under way catches up after it, and is among the listeners of the next.
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
            # What leads out of these two has no index by time: a release, or an attempt given back.
            goes_on = change.state in (State.RUNNING, State.BLOCKED)
            (self._running.add if goes_on else self._running.discard)(change.id)
        if len(self._running) > 2 * MOST:
            self._running.clear()
        return _aged(batch, before)

    async def since(self, after: FeedPosition, scope: Visibility) -> FeedBatch:
        """What somebody who comes back has missed; a position that is too old, or of another time, is a resync."""
        async with self._looking:
            if self._position is None:
                # The next look has to go on from before this answer, not from its own beginning.
                await self._jobs([scope])
            return _aged(await self._batch(after, [scope]), after)

    async def _batch(self, before: FeedPosition | None, scopes: Sequence[Visibility]) -> FeedBatch:
        found = await self.database.fetch(
            "feed_look",
            since=None if before is None else before.at - _LATE,
            told=None if before is None else before.snapshot,
            n=MOST,
            walk=WALK,
            seen=sorted(self._running),
            sees_all=[scope[0] for scope in scopes],
            tenants=[scope[1] for scope in scopes],
            subjects=[scope[2] for scope in scopes],
        )
        changes = [
            (_change(row), frozenset(scopes[number - 1] for number in row["scopes"]))
            for row in found
            if row["id"] is not None
        ]
        missed = found[0]["cut"] or len(changes) >= MOST
        return FeedBatch(FeedPosition(found[0]["at"], found[0]["snapshot"]), changes, missed=missed)

    async def _slowly(self, topic: Topic, subscribers: Sequence[FeedSubscriber]) -> None:
        """Lanes and workers as a whole when one of them changed: whoever missed one has missed nothing."""
        if topic is Topic.STATS:
            frame = FeedEvent(topic, {"overview": await self._overview()})
        else:
            items, known = await self._whole(topic)
            if self._known.get(topic) == known:
                return
            self._known[topic] = known
            frame = FeedEvent(topic, {"items": items})
        for subscriber in subscribers:
            subscriber.give_slow(topic, frame)

    async def _whole(self, topic: Topic) -> tuple[Sequence[object], object]:
        """What is shown, and what of it counts as a change: beats and slots taken do not."""
        if topic is Topic.LANES:
            lanes = await lane_rows.read(self.database)
            return lanes, lanes
        workers = await views(self.database)
        return workers, [replace(one, seen_at=one.started_at, running=0) for one in workers]


def _aged(batch: FeedBatch, before: FeedPosition | None) -> FeedBatch:
    """With its lag, unless that is longer than can be told for."""
    lag = timedelta(0) if before is None else batch.position.at - before.at
    return replace(batch, lag=lag.total_seconds(), missed=batch.missed or not timedelta(0) <= lag <= OLDEST)


def _change(row: Record) -> ChangedJob:
    names = ("id", "seq", "fence", "kind", "attempt", "priority", "lane", "tenant")
    moments = ("run_after", "created_at", "claimed_at", "finished_at")
    return ChangedJob(state=State(row["state"]), **{name: row[name] for name in (*names, *moments)})

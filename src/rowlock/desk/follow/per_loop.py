"""StreamsPerLoop: the polls that an application runs on each event loop, for streams of jobs and for the feed."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowlock.desk.follow.feed import Feed
from rowlock.desk.follow.job_poll import JobPoll
from rowlock.desk.guard import TRUSTED
from rowlock.desk.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.desk.follow.waiting import EndNotifications
    from rowlock.store.database import Database


@dataclass(frozen=True, slots=True)
class LoopStreams:
    """The two polls of one event loop; each sleeps while it has no client."""

    database: Database
    job_poll: JobPoll
    feed: Feed

    def close(self) -> None:
        """End every stream."""
        self.job_poll.close()
        self.feed.close()


class StreamsPerLoop:
    """The polls of every event loop, shared by all desks of an application."""

    def __init__(self, database: Callable[[], Database], end_notifications: EndNotifications) -> None:
        self._open, self._end_notifications = database, end_notifications
        self.closed = False
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopStreams] = weakref.WeakKeyDictionary()

    def current(self) -> LoopStreams:
        """The polls of the running loop."""
        loop, database = asyncio.get_running_loop(), self._open()
        current = self._loops.get(loop)
        if current is None or current.database is not database:
            overview = Stats(self._open, TRUSTED).overview
            current = self._loops[loop] = LoopStreams(
                database, JobPoll(database, self._end_notifications), Feed(database, overview)
            )
            if self.closed:
                # A stream opened just before the process stops must not delay it.
                current.close()
        return current

    async def leave(self) -> None:
        """End the streams of the running loop; later ones start new polls."""
        self.closed = False
        current = self._loops.pop(asyncio.get_running_loop(), None)
        if current is not None:
            await current.job_poll.stop()
            await current.feed.stop()

    def close(self) -> None:
        """End every stream, on every loop; safe in any thread and in a signal handler."""
        self.closed = True
        for loop, current in list(self._loops.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(current.close)

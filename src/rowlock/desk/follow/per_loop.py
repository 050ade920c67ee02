"""Lookouts: what one application has on each event loop for all who follow jobs or listen to the feed."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowlock.desk.follow.feed import Feed
from rowlock.desk.follow.job_poll import Lookout
from rowlock.desk.guard import TRUSTED
from rowlock.desk.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.desk.follow.waiting import Ears
    from rowlock.store.database import Database


@dataclass(frozen=True, slots=True)
class Here:
    """The two polls of one event loop; each sleeps while nobody needs it."""

    database: Database
    lookout: Lookout
    feed: Feed

    def close(self) -> None:
        """End every stream."""
        self.lookout.close()
        self.feed.close()


class Lookouts:
    """One of each per event loop, however many desks there are."""

    def __init__(self, database: Callable[[], Database], ears: Ears) -> None:
        self._open, self._ears = database, ears
        self.closed = False
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Here] = weakref.WeakKeyDictionary()

    def here(self) -> Here:
        """Those of the running loop."""
        loop, database = asyncio.get_running_loop(), self._open()
        here = self._loops.get(loop)
        if here is None or here.database is not database:
            overview = Stats(self._open, TRUSTED).overview
            here = self._loops[loop] = Here(database, Lookout(database, self._ears), Feed(database, overview))
            if self.closed:
                # A stream that was asked for just before the end must not hold it up.
                here.close()
        return here

    async def leave(self) -> None:
        """End the streams of the running loop; what comes later begins anew."""
        self.closed = False
        here = self._loops.pop(asyncio.get_running_loop(), None)
        if here is not None:
            await here.lookout.stop()
            await here.feed.stop()

    def close(self) -> None:
        """End every stream, on every loop; safe in any thread and in a signal handler."""
        self.closed = True
        for loop, here in list(self._loops.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(here.close)

"""Wake: tell hungry workers of new jobs after the commit, once per window at most, off everybody's transaction."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowlock.errors import RowlockError
from rowlock.store.connections.pool import before_loop_ends
from rowlock.store.jobs import workers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.wake")
WINDOW: Final = 0.02
_SAVED: Final = 9
"""Messages that may go out early after a pause: without them jobs that come every 20 ms would wait almost as long."""
_SOON: Final = 30.0
_LONGEST: Final = 7500
"""Bytes; PostgreSQL refuses payloads of 8000."""

Pair = tuple[str, int, int]
"""Kind, priority, share: what a claim probes."""


def payload(lows: dict[Pair, datetime]) -> str:
    """The message of a wake-up: the lowest run_after per pair, so that receivers lower their cursors to it."""
    lines = [[kind, priority, share, low.timestamp()] for (kind, priority, share), low in lows.items()]
    text = json.dumps({"wake": lines}, separators=(",", ":"))
    # Too many pairs for one message: receivers then look at all of theirs.
    return text if len(text.encode()) < _LONGEST else '{"wake":[]}'


def heard(message: dict[str, object]) -> dict[Pair, datetime] | None:
    """Read a wake-up; None: it is another message, empty: look everywhere."""
    lines = message.get("wake")
    if not isinstance(lines, list):
        return None
    return {(str(k), int(p), int(s)): datetime.fromtimestamp(float(low), UTC) for k, p, s, low in lines}


class Waker:
    """Collects wake-ups of one event loop and sends one message per window at most; the first few go out at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lows: dict[Pair, datetime] = {}
        self._task: asyncio.Task[None] | None = None
        self._anywhere = False
        self._due = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._leaving: AsyncGenerator[None, None] | None = None

    def insist(self) -> None:
        """Send once more what asyncio.run() cancels at its end: the last step of a program may be an enqueue."""
        self._leaving = before_loop_ends(self._send)

    def wake(self, pairs: Iterable[tuple[Pair, datetime]]) -> None:
        """Note new jobs; the message leaves within one window."""
        for pair, low in pairs:
            self._lows[pair] = min(low, self._lows.get(pair, low))
        self._begin()

    def note(self, pair: Pair, low: datetime) -> None:
        """Note one new job."""
        known = self._lows.get(pair)
        if known is None or low < known:
            self._lows[pair] = low
        if self._task is None or self._task.done():
            self._begin()

    def may_tell(self) -> bool:
        """Whether an enqueue may carry its own wake-up now; it is counted as sent."""
        now = asyncio.get_running_loop().time()
        if self._due - _SAVED * WINDOW > now or self._lows or self._anywhere:
            return False
        self._due = max(self._due, now) + WINDOW
        return True

    def look(self) -> None:
        """Ask workers to look everywhere: jobs became claimable without being enqueued."""
        self._anywhere = True
        self._begin()

    def look_in(self, seconds: float) -> None:
        """Ask it that much later. One such wish at a time, and none for long: polling finds the rest."""
        if seconds < _SOON and (self._later is None or self._later.when() < asyncio.get_running_loop().time()):
            self._later = asyncio.get_running_loop().call_later(seconds + WINDOW, self.look)

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send(), name="rowlock-wake")

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while self._lows or self._anywhere:
            pause = self._due - _SAVED * WINDOW - loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            lows, self._lows = ({} if self._anywhere else self._lows), {}
            anywhere, self._anywhere = self._anywhere, False
            self._due = max(self._due, loop.time()) + WINDOW
            try:
                if not await workers.wake(self._database, channel=self._database.channel, payload=payload(lows)):
                    # Nobody is hungry: nothing is gained by asking again before a whole window has passed.
                    self._due = loop.time() + (_SAVED + 1) * WINDOW
            except RowlockError as error:
                # The job is committed; workers find it by polling.
                logger.debug("wake-up not sent: %s", error)
            except asyncio.CancelledError:
                self._lows, self._anywhere = self._lows | lows, self._anywhere or anywhere
                raise

    async def flush(self, *, within: float | None = None) -> None:
        """Wait until what was noted is sent, for so many seconds at most; what was to be asked later is not asked."""
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await asyncio.gather(self._task, return_exceptions=True)

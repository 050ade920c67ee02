"""Wake: notify idle workers of new jobs after the commit, with one message per window at most.

Messages are sent outside of the enqueuing transactions, so that these never wait for each other's notifications.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import weakref
from typing import TYPE_CHECKING, Final, Protocol

from rowlock.errors import RowlockError
from rowlock.model import notify_messages
from rowlock.outage_log import OutageLog
from rowlock.store.database import TRANSIENT, notify_queue_full
from rowlock.store.driver.pool import before_loop_ends
from rowlock.store.jobs.wake import wake

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable
    from datetime import datetime

    from rowlock.bridge import Bridge
    from rowlock.model.queue_pair import Pair, PairStart
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.wake")
WINDOW: Final = 0.02
"""Seconds per message."""
_SAVED: Final = 9
"""Messages that may go out early after a pause: without them jobs that come every 20 ms would wait almost as long."""
_SOON: Final = 30.0
"""Seconds; a later wake-up is not scheduled, as polling finds the job."""


class CarrierWaker(Protocol):
    """Tells carriers of new jobs, where something else than PostgreSQL delivers them: rowlock.delivery.outbox."""

    def note(self, starts: Iterable[PairStart]) -> list[PairStart]:
        """Deliver new jobs of these pairs soon; returns the pairs that workers are to be woken for."""

    def look_soon(self) -> None:
        """Deliver whatever became due."""

    def look_in(self, seconds: float) -> None:
        """look_soon() after so many seconds."""

    def may_carry(self, kind: str) -> bool:
        """Whether jobs of this kind may need a carrier."""

    async def flush(self, *, within: float | None = None) -> None:
        """Wait until what was noted is sent."""


class Waker:
    """Collects the wake-ups of one event loop and sends one message per window at most, the first few at once."""

    def __init__(self, database: Database, outbox: CarrierWaker | None = None) -> None:
        """outbox: has the jobs that carriers deliver; None: PostgreSQL delivers all."""
        self._database, self.outbox = database, outbox
        self._lows: dict[Pair, datetime] = {}
        self._task: asyncio.Task[None] | None = None
        self._anywhere = False
        self._due = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._leaving: AsyncGenerator[None, None] | None = None
        self._full = OutageLog(logger, "workers find jobs by polling only", "workers are notified of jobs again")

    def send_before_loop_ends(self) -> None:
        """Send again what asyncio.run() cancels at its end: the last step of a program may be an enqueue."""
        self._leaving = before_loop_ends(self._send_last)

    async def _send_last(self) -> None:
        await self._send()
        if self.outbox is not None:
            await self.outbox.flush(within=2)

    def wake(self, pairs: Iterable[PairStart]) -> None:
        """Note new jobs; the message leaves within one window."""
        if self.outbox is not None:
            pairs = self.outbox.note(pairs)
            if not pairs:
                return
        for pair, low in pairs:
            self._lows[pair] = min(low, self._lows.get(pair, low))
        self._begin()

    def note(self, pair: Pair, low: datetime) -> None:
        """Note one new job."""
        if self.outbox is not None and not self.outbox.note([(pair, low)]):
            return
        known = self._lows.get(pair)
        if known is None or low < known:
            self._lows[pair] = low
        if self._task is None or self._task.done():
            self._begin()

    def may_carry(self, kind: str) -> bool:
        """Whether a carrier may have to hear of jobs of this kind."""
        return self.outbox is not None and self.outbox.may_carry(kind)

    def reserve_window(self) -> bool:
        """Count a message as sent, for an enqueue whose own statement notifies; False: it must not notify now."""
        now = asyncio.get_running_loop().time()
        if self._due - _SAVED * WINDOW > now or self._lows or self._anywhere:
            return False
        self._due = max(self._due, now) + WINDOW
        return True

    def look(self) -> None:
        """Ask workers to look everywhere: jobs became claimable without being enqueued."""
        if self.outbox is not None:
            self.outbox.look_soon()
        self._anywhere = True
        self._begin()

    def look_in(self, seconds: float) -> None:
        """look() after so many seconds. One is scheduled at a time, and none for later than half a minute."""
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
                payload = notify_messages.encode_wake_up(lows)
                woken = await wake(self._database, channel=self._database.channel, payload=payload)
                if woken != "notified":
                    # Nothing is gained by asking again before a whole window has passed.
                    self._due = loop.time() + (_SAVED + 1) * WINDOW
                if woken == "queue is full":
                    self._full.failed(notify_queue_full())
                elif woken == "notified" and self._full.ongoing:
                    self._full.recovered()
            except (RowlockError, *TRANSIENT) as error:
                # The job is committed; workers find it by polling.
                logger.debug("wake-up not sent: %s", error)
            except asyncio.CancelledError:
                self._lows, self._anywhere = self._lows | lows, self._anywhere or anywhere
                raise

    async def flush(self, *, within: float | None = None) -> None:
        """Wait until all noted jobs are announced, for so many seconds at most; a scheduled look() is dropped."""
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await asyncio.gather(self._task, return_exceptions=True)
        if self.outbox is not None:
            await self.outbox.flush(within=within)


class Wakers:
    """The waker of each event loop of one application, and the way to one from a thread without a loop."""

    def __init__(
        self, database: Callable[[], Database], bridge: Bridge, outbox: Callable[[], CarrierWaker | None] = lambda: None
    ) -> None:
        """outbox: makes the outbox of an event loop."""
        self._open, self._bridge, self._outbox = database, bridge, outbox
        self._flushed_at_exit = False
        self.forget()

    def forget(self) -> None:
        """Start over: the application uses another database from now on."""
        self._wakers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = weakref.WeakKeyDictionary()
        self._last: tuple[asyncio.AbstractEventLoop, Waker] | None = None

    def here(self) -> Waker:
        """The waker of the running event loop; RuntimeError without one."""
        loop, last = asyncio.get_running_loop(), self._last
        if last is not None and last[0] is loop:
            return last[1]
        waker = self._wakers.get(loop)
        if waker is None:
            for ended in [known for known in self._wakers if known.is_closed()]:
                del self._wakers[ended]
            waker = self._wakers[loop] = Waker(self._open(), self._outbox())
            waker.send_before_loop_ends()
        self._last = loop, waker
        return waker

    def wake(self, pairs: Iterable[PairStart]) -> None:
        """Announce claimable jobs; from any thread."""
        noted = list(pairs)
        if not noted:
            return
        try:
            self.here().wake(noted)
        except RuntimeError:
            self.flush_at_exit()
            self._bridge.call_soon(self._wake_soon(noted))

    async def _wake_soon(self, noted: list[PairStart]) -> None:
        self.here().wake(noted)

    async def flush(self, *, within: float | None = None) -> None:
        """Wait until the wake-ups of this loop are sent, for so many seconds at most; opens no database for it."""
        waker = self._wakers.get(asyncio.get_running_loop())
        if waker is not None:
            await waker.flush(within=within)

    def flush_at_exit(self) -> None:
        """Flush the bridge's loop at exit: a short program may end right after its last enqueue or commit."""
        if not self._flushed_at_exit:
            self._flushed_at_exit = True
            atexit.register(self._flush_bridge)

    def _flush_bridge(self) -> None:
        with contextlib.suppress(Exception):
            self._bridge.run(self.flush(within=1))


class NotifyWindow:
    """Lets one transaction per window notify by itself, from whatever thread or loop its caller uses."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._next = clock, 0.0

    def reserve(self) -> bool:
        """Whether this transaction may notify; the next one may a window later."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + WINDOW
        return True

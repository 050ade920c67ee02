"""Pool: a few connections of one event loop, opened on demand and reused."""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.store.driver.lock_wait import note_blockers
from rowlock.store.driver.statement_check import SILENCE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from types import TracebackType

FRESH: Final = 10.0
"""Seconds of idleness after which a connection is tested before it is lent."""
PATIENCE: Final = 2.0
"""Seconds for the answer to that test."""
_JUST_NOW: Final = 0.005
"""Seconds of idleness in which a connection is not expected to have ended: a busy pool looks at no socket."""


def before_loop_ends(work: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    """Await `work` when asyncio.run() ends the running loop, or earlier when the returned generator is closed.

    A program whose last step is an enqueue need not know that there is a pool to close. Event loops have no exit hook,
    but they close the asynchronous generators that were started in them.
    """

    async def waiting() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await work()

    generator = waiting()
    with contextlib.suppress(StopIteration):
        generator.asend(None).send(None)  # starts it without an await
    return generator


def _has_unread(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Whether its socket ended, or holds bytes that the event loop has not read yet."""
    transport = getattr(connection, "_transport", None)
    open_one = transport.get_extra_info("socket") if transport is not None else None
    if open_one is None:
        return False
    descriptor = open_one.fileno()
    if descriptor < 0:
        return True  # closed already
    arrived = select.poll()
    arrived.register(descriptor, select.POLLIN)
    return bool(arrived.poll(0))


class Pool:
    """At most `size` connections, opened on demand; one idle connection is kept for the next caller.

    asyncpg's own pool sends a reset query with every release: a wasted round trip, as no statement of ours leaves
    session state behind.

    A connection may be dead without the socket knowing. One that was idle for long is tested before a statement is sent
    that could be executed; so is one that received bytes while idle, which are the farewell of its server, unread by an
    event loop that was busy. For one that stays silent during a call, the server is asked. A busy pool pays for none.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[asyncpg.Connection[asyncpg.Record]]],
        size: int,
        check: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[str]] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """check: called after SILENCE seconds without an answer; closes a connection that the server has forgotten.

        It returns the sessions that a statement waits for, as text, which the error of that statement then names.
        """
        self._connect, self._check, self._clock = connect, check, clock
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[tuple[asyncpg.Connection[asyncpg.Record], float]] = []
        self._lent: dict[asyncpg.Connection[asyncpg.Record], float] = {}
        """Since when each lent connection has been silent."""
        self._checks: dict[asyncpg.Connection[asyncpg.Record], asyncio.Future[None]] = {}
        self._blockers: dict[asyncpg.Connection[asyncpg.Record], str] = {}
        """The sessions that a lent connection waits for, where a check has found some."""
        self._checking = False
        self._closed = False
        self._leaving = before_loop_ends(self._close)

    def lend(self, *, watched: bool = True) -> Loan:
        """Lend a connection for a block. One that is broken, or left in a transaction, is closed afterwards.

        watched: the block does nothing but run statements, so that a long silence is worth a check.
        """
        return Loan(self, watched=watched)

    def acquire_idle(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """A recently used idle connection, to be released; None: there is none, await acquire()."""
        if not self._free or not self._idle:
            return None
        connection, since = self._idle[-1]
        now = self._clock()
        if connection.is_closed() or not self._is_fresh(connection, now - since):
            return None
        self._free -= 1
        self._idle.pop()
        self._lent[connection] = now
        if not self._checking:
            self._check_later()
        return connection

    async def acquire(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection, to be released; waits while all are lent."""
        await self._acquire_slot()
        try:
            connection = await self._idle_and_alive() or await self._connect()
        except BaseException:
            self._release_slot()
            raise
        self._lent[connection] = self._clock()
        if not self._checking:
            self._check_later()
        return connection

    async def _idle_and_alive(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """An idle connection that is alive; None: there is none."""
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_closed():
                continue
            now = self._clock()
            if self._is_fresh(connection, now - since) or await self._is_alive(connection):
                return connection
            self._drop_idle(now)
        return None

    @staticmethod
    def _is_fresh(connection: asyncpg.Connection[asyncpg.Record], idle: float) -> bool:
        """Whether it may be lent without a test, after so many idle seconds."""
        return idle <= FRESH and (idle <= _JUST_NOW or not _has_unread(connection))

    def _drop_idle(self, before: float) -> None:
        """Close the connections idle since before then: they died of the same cause, and testing each takes time."""
        for connection, since in self._idle:
            if since < before:
                connection.terminate()

    @staticmethod
    async def _is_alive(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
        try:
            await connection.execute("SELECT 1", timeout=PATIENCE)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            connection.terminate()
            return False
        except BaseException:
            connection.terminate()
            raise
        return True

    def unwatch(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Do not check this lent connection: its holder may keep it without running statements."""
        del self._lent[connection]

    def _check_later(self) -> None:
        if self._check is not None:
            self._checking = True
            asyncio.get_running_loop().call_later(SILENCE / 4, self._check_silent)

    def _check_silent(self) -> None:
        """One timer for all lent connections, instead of one per call."""
        self._checking = False
        now = self._clock()
        for connection, since in self._lent.items():
            if now - since > SILENCE and connection not in self._checks and self._check is not None:
                self._checks[connection] = asyncio.ensure_future(self._check_one(connection, self._check))
        if self._lent and not self._closed:
            self._check_later()

    async def _check_one(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        check: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[str]],
    ) -> None:
        since = self._lent[connection]
        blockers = await check(connection)
        if connection.is_closed():
            self._drop_idle(since)
        elif connection in self._lent:
            self._lent[connection] = self._clock()  # alive: the next check comes after another SILENCE
            self._blockers[connection] = blockers
        self._checks.pop(connection, None)

    async def _acquire_slot(self) -> None:
        # Not a Semaphore: most enqueues find a free slot, and need no future for it.
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release_slot()  # granted and cancelled at once: pass it on
            raise

    def _release_slot(self) -> None:
        """Pass the slot to the caller that has waited longest, so that no newcomer overtakes."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def release(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Keep the connection for the next caller, if it is usable."""
        self._lent.pop(connection, None)
        if self._blockers:
            self._blockers.pop(connection, None)
        if self._checks and (check := self._checks.pop(connection, None)) is not None:
            check.cancel()
        if connection.is_closed() or connection.is_in_transaction() or self._closed:
            connection.terminate()
        else:
            self._idle.append((connection, self._clock()))
        self._release_slot()

    def call_failed(self, connection: asyncpg.Connection[asyncpg.Record], error: BaseException) -> None:
        """Close a connection whose last call left it unusable; note on the error who held a lock that it waited for."""
        if isinstance(error, asyncpg.LockNotAvailableError):
            note_blockers(error, self._blockers.get(connection, ""))
        if isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncio.CancelledError)):
            # A broken connection may not report itself closed yet; a cancelled statement may still be running.
            connection.terminate()

    async def close(self) -> None:
        """Close idle connections now, and lent ones when they are released."""
        await self._leaving.aclose()

    async def _close(self) -> None:
        self._closed = True
        while self._idle:
            with contextlib.suppress(Exception):
                await self._idle.pop()[0].close(timeout=2)


class Loan:
    """Lends a connection for a block.

    A class, not a generator: the last wake-up is sent while the loop ends, and a loop that ends warns of generators
    started then.
    """

    def __init__(self, pool: Pool, *, watched: bool) -> None:
        self._pool, self._watched = pool, watched

    async def __aenter__(self) -> asyncpg.Connection[asyncpg.Record]:
        self._connection = await self._pool.acquire()
        if not self._watched:
            self._pool.unwatch(self._connection)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._pool.call_failed(self._connection, error)
        self._pool.release(self._connection)

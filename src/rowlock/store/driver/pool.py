"""Pool: a few connections of one event loop, opened on demand and closed when idle."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.store.driver.statement_check import SILENCE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from types import TracebackType

FRESH: Final = 10.0
"""Seconds of idleness after which a connection is asked whether it lives."""
PATIENCE: Final = 2.0
"""Seconds for its answer."""


def before_loop_ends(work: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    """Have `work` awaited when asyncio.run() ends the running loop, or when what is returned here is closed before.

    A program whose last step is an enqueue need not know that there is a pool to close. Loops offer no such hook, but
    they close the asynchronous generators that were begun in them.
    """

    async def waiting() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await work()

    generator = waiting()
    with contextlib.suppress(StopIteration):
        generator.asend(None).send(None)  # begun, without having to be awaited
    return generator


class Pool:
    """At most `size` connections, opened on demand; one idle connection is kept for the next caller.

    asyncpg's own pool sends a reset query with every release: a round trip for nothing, as no statement of ours leaves
    session state behind.

    A connection may be dead without having said so. One that was idle for long is asked first, before anything is sent
    that could be executed; one that does not answer is doubted. A busy pool pays for neither.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[asyncpg.Connection[asyncpg.Record]]],
        size: int,
        doubt: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[None]] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """doubt: hangs up on a connection whose server is at nothing of ours; called after SILENCE."""
        self._connect, self._doubt, self._clock = connect, doubt, clock
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[tuple[asyncpg.Connection[asyncpg.Record], float]] = []
        self._lent: dict[asyncpg.Connection[asyncpg.Record], float] = {}
        """Since when they should have answered."""
        self._doubts: dict[asyncpg.Connection[asyncpg.Record], asyncio.Future[None]] = {}
        self._looking = False
        self._closed = False
        self._leaving = before_loop_ends(self._close)

    def lend(self, *, watched: bool = True) -> Loan:
        """Lend a connection; a broken one is thrown away, one left in a transaction too.

        watched: statements are all that happens to it meanwhile, so that its silence means something.
        """
        return Loan(self, watched=watched)

    def take_idle(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """A connection that give_back() must follow, if a fresh one is idle; None: await take()."""
        if not self._free or not self._idle:
            return None
        connection, since = self._idle[-1]
        now = self._clock()
        if now - since > FRESH or connection.is_closed():
            return None
        self._free -= 1
        self._idle.pop()
        self._lent[connection] = now
        if not self._looking:
            self._look_later()
        return connection

    async def take(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection that give_back() must follow."""
        await self._place()
        try:
            connection = await self._kept() or await self._connect()
        except BaseException:
            self._leave()
            raise
        self._lent[connection] = self._clock()
        if not self._looking:
            self._look_later()
        return connection

    async def _kept(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """One that was idle and lives."""
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_closed():
                continue
            now = self._clock()
            if now - since <= FRESH or await self._answers(connection):
                return connection
            self._drop_idle(now)
        return None

    def _drop_idle(self, before: float) -> None:
        """What took one took its neighbours, and each would take its time to be found out: none as old stays."""
        for connection, since in self._idle:
            if since < before:
                connection.terminate()

    @staticmethod
    async def _answers(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
        try:
            await connection.execute("SELECT 1", timeout=PATIENCE)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            connection.terminate()
            return False
        except BaseException:
            connection.terminate()
            raise
        return True

    def leave_alone(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Whoever has it may keep it without using it."""
        del self._lent[connection]

    def _look_later(self) -> None:
        if self._doubt is not None:
            self._looking = True
            asyncio.get_running_loop().call_later(SILENCE / 4, self._look)

    def _look(self) -> None:
        """One timer for all that are lent, instead of one for every call."""
        self._looking = False
        now = self._clock()
        for connection, since in self._lent.items():
            if now - since > SILENCE and connection not in self._doubts and self._doubt is not None:
                self._doubts[connection] = asyncio.ensure_future(self._asked(connection, self._doubt))
        if self._lent and not self._closed:
            self._look_later()

    async def _asked(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        doubt: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[None]],
    ) -> None:
        since = self._lent[connection]
        await doubt(connection)
        if connection.is_closed():
            self._drop_idle(since)
        elif connection in self._lent:
            self._lent[connection] = self._clock()  # it lives; it may still die
        self._doubts.pop(connection, None)

    async def _place(self) -> None:
        # Not a Semaphore: taking a free place without a coroutine is what most enqueues do.
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # the place came together with the cancellation: the next one's turn
            raise

    def _leave(self) -> None:
        """Hand the place to who has waited longest: nobody overtakes, as no place is free meanwhile."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def give_back(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Keep it for the next caller if it is fit for one."""
        self._lent.pop(connection, None)
        if self._doubts and (doubt := self._doubts.pop(connection, None)) is not None:
            doubt.cancel()
        if connection.is_closed() or connection.is_in_transaction() or self._closed:
            connection.terminate()
        else:
            self._idle.append((connection, self._clock()))
        self._leave()

    def spoil(self, connection: asyncpg.Connection[asyncpg.Record], error: BaseException) -> None:
        """Close a connection whose last call failed in a way that may go on."""
        if isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncio.CancelledError)):
            # A dying connection does not know yet that it is closed; a cancelled statement may still be running.
            connection.terminate()

    async def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        await self._leaving.aclose()

    async def _close(self) -> None:
        self._closed = True
        while self._idle:
            with contextlib.suppress(Exception):
                await self._idle.pop()[0].close(timeout=2)


class Loan:
    """A connection for the time of a block.

    Not a generator: a loop that ends warns of generators that are begun then, and the last wake-up is sent then.
    """

    def __init__(self, pool: Pool, *, watched: bool) -> None:
        self._pool, self._watched = pool, watched

    async def __aenter__(self) -> asyncpg.Connection[asyncpg.Record]:
        self._connection = await self._pool.take()
        if not self._watched:
            self._pool.leave_alone(self._connection)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._pool.spoil(self._connection, error)
        self._pool.give_back(self._connection)

"""Pool: a few connections of one event loop, opened on demand and closed when idle."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from types import TracebackType


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
    """

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection[asyncpg.Record]]], size: int) -> None:
        self._connect = connect
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncpg.Connection[asyncpg.Record]] = []
        self._closed = False
        self._leaving = before_loop_ends(self._close)

    def lend(self) -> Loan:
        """Lend a connection; a broken one is thrown away, one left in a transaction too."""
        return Loan(self)

    def take_idle(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """A connection that give_back() must follow, if one is idle; None: await take()."""
        if not self._free or not self._idle or self._idle[-1].is_closed():
            return None
        self._free -= 1
        return self._idle.pop()

    async def take(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection that give_back() must follow."""
        await self._place()
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
            return await self._connect()
        except BaseException:
            self._leave()
            raise

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
        if connection.is_closed() or connection.is_in_transaction() or self._closed:
            connection.terminate()
        else:
            self._idle.append(connection)
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
                await self._idle.pop().close(timeout=2)


class Loan:
    """A connection for the time of a block.

    Not a generator: a loop that ends warns of generators that are begun then, and the last wake-up is sent then.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> asyncpg.Connection[asyncpg.Record]:
        self._connection = await self._pool.take()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._pool.spoil(self._connection, error)
        self._pool.give_back(self._connection)

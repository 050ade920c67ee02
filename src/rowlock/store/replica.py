"""ReadReplica: reads on a streaming replica, and on the primary while the replica is away or too far behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from typing_extensions import override

from rowlock.errors import DatabaseError
from rowlock.outage_log import OutageLog
from rowlock.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import timedelta

    from rowlock.store.database import Record
    from rowlock.store.executor import SqlSession
    from rowlock.store.queries import Statement

T = TypeVar("T")
logger = logging.getLogger("rowlock")
CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at how far behind the replica is, while it is asked."""
_CHECK_SECONDS: Final = 3.0
"""Seconds that a look may take; a replica that is silent for longer counts as away."""


class ReadReplica(Database):
    """The database as the desk's lists, searches and statistics read it. Never for orders.

    While the primary is away, the replica is read however far it is behind: an old answer is better than none.
    """

    _session_attributes: ClassVar = "prefer-standby"

    def __init__(
        self, primary: Database, url: str, *, max_lag: timedelta, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(url, schema=primary.schema, pooled=primary.pooled, password=primary.password)
        self.primary, self._max_lag, self._clock = primary, max_lag.total_seconds(), clock
        self._serves, self._checked_at = True, float("-inf")
        self._position_before = 0
        """Where the primary was at the look before."""
        self._outage = OutageLog(logger, "reads go to the primary: the replica cannot be used", "reads use the replica")

    @override
    async def fetch(self, name: str, /, **values: object) -> list[Record]:
        own = super().fetch
        return await self._read(lambda: own(name, **values), lambda: self.primary.fetch(name, **values))

    @override
    async def fetch_in_order(self, statement: Statement, /, *values: object) -> list[Record]:
        own = super().fetch_in_order
        return await self._read(
            lambda: own(statement, *values), lambda: self.primary.fetch_in_order(statement, *values)
        )

    @override
    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqlSession]:
        async with contextlib.AsyncExitStack() as stack:
            own, primary = super().snapshot(), self.primary.snapshot()
            enter = stack.enter_async_context
            yield await self._read(lambda: enter(own), lambda: enter(primary))

    async def _read(self, here: Callable[[], Awaitable[T]], there: Callable[[], Awaitable[T]]) -> T:
        if self._clock() - self._checked_at >= CHECK_INTERVAL:
            self._checked_at = self._clock()  # the callers of meanwhile do not look, too
            await self._look()
        if self._serves:
            try:
                return await here()
            except DatabaseError as error:
                self._unusable(error)
        return await there()

    def _unusable(self, error: BaseException) -> None:
        self._serves = False
        self._outage.failed(error)

    async def _look(self) -> None:
        """Decide whether the replica is read until the next look."""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                (primary,) = await self.primary.fetch("wal_position")
        except (DatabaseError, TimeoutError):
            primary = None
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                (replica,) = await super().fetch("replay_position")
        except (DatabaseError, TimeoutError) as error:
            self._unusable(error)
            return
        if primary is not None and self._is_late(primary["position"], replica):
            behind = f"{replica['seconds']:.0f} s" if replica["seconds"] is not None else "unknown"
            message = f"it is behind the primary: {behind} since its last transaction, {self._max_lag:g} s are allowed"
            self._unusable(DatabaseError(message))
            return
        self._serves = True
        self._outage.recovered()

    def _is_late(self, position: int, replica: Record) -> bool:
        """Whether the replica lacks what the primary had at the look before, and for longer than is allowed."""
        before, self._position_before = self._position_before or position, position
        if not replica["recovering"] or replica["position"] >= before:
            return False
        # The age of its last transaction alone would call every replica late whose primary had nothing to do.
        return replica["seconds"] is None or replica["seconds"] > self._max_lag

"""SetAsideWrites: outcomes that the database does not take now are found in their batch and tried again.

A batch that failed is halved until the row that is to blame is alone. Its neighbours are written at once; the row is
tried again after pauses that grow, over a connection of its own, so that the outcomes of other jobs never wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import LOCKED, UNSERVED, UNSTORABLE
from rowlock.store.driver.lock_wait import LockWait, blockers_noted
from rowlock.store.jobs.held_rows import held_jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.model.job import Claim
    from rowlock.set_aside import SetAside
    from rowlock.store.database import Database

STEP: Final = "finish"
"""The step of a job's life that log lines and reports name."""
_LOCK_WAIT: Final = 0.3
"""Seconds that a try waits for a lock; a batch of 500 with one row to blame is halved nine times."""
_LOOK_AFTER: Final = 0.1
"""Seconds into that wait at which the blocking session is looked for."""
_MOST_SUBSTITUTES: Final = 2
"""The outcome in ASCII, then a failure that says why it cannot be stored."""
_PAUSES: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
_ROWS_PER_SECOND: Final = 50
"""Tries of single rows: with many of them the pauses grow."""


R = TypeVar("R")
"""What a write answers."""


class _Write(Protocol):
    @property
    def claim(self) -> Claim:
        """The claim under which it is written."""


W = TypeVar("W", bound=_Write)


@dataclass(slots=True)
class _Batch(Generic[W]):
    """Outcomes that are written together. due: when they are tried next, by the loop's clock."""

    writes: list[W]
    error: Exception
    due: float = 0.0
    failures: int = 0
    """Tries that failed since the row was alone."""
    substitutes: int = 0
    """Times its write was replaced by one that the database may store."""

    @property
    def alone(self) -> bool:
        return len(self.writes) == 1


class SetAsideWrites(Generic[W, R]):
    """The outcomes of one worker that are tried again."""

    def __init__(
        self,
        database: Database,
        *,
        flush: Callable[[WorkerConnection, list[W]], Awaitable[R]],
        on_flushed: Callable[[R], None],
        on_empty: Callable[[], None],
        substitute: Callable[[W, Exception], W],
        jobs: SetAside,
    ) -> None:
        """substitute: the write for an outcome whose value cannot be stored at all."""
        self._database, self._flush, self._on_flushed, self._on_empty = database, flush, on_flushed, on_empty
        self._substitute, self._jobs = substitute, jobs
        self._link = WorkerConnection(database, "set-aside", lock_wait=_LOCK_WAIT)
        self._batches: list[_Batch[W]] = []
        self._added = asyncio.Event()

    def add(self, writes: list[W], error: Exception) -> None:
        """Try these outcomes apart from now on; their batch failed with the error."""
        self._batches.append(_Batch(writes, error))
        self._added.set()

    def pending(self) -> list[W]:
        """The outcomes that are not written yet; may be called in another thread."""
        return [write for batch in list(self._batches) for write in batch.writes]

    async def run(self) -> None:
        """Try what is due, for ever."""
        clock = asyncio.get_running_loop().time
        while True:
            self._added.clear()
            if not self._batches:
                await self._link.close()
                self._on_empty()
                await self._added.wait()
            first = min(self._batches, key=lambda batch: batch.due)
            if (pause := first.due - clock()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._added.wait()
            else:
                await self._try(first)

    async def close(self) -> None:
        """Close the connection; run() has ended."""
        await self._link.close()
        for write in self.pending():
            self._jobs.end(write.claim.job_id, STEP)

    async def _try(self, batch: _Batch[W]) -> None:
        try:
            if isinstance(batch.error, LOCKED) and await self._is_held(batch):
                return
            flushed = await self._written(batch)
        except UNSERVED as error:
            self._put_off(batch, error)
        except Exception as error:  # noqa: BLE001 - an outcome is never dropped
            self._failed(batch, error)
        else:
            self._batches.remove(batch)
            for write in batch.writes:
                self._jobs.end(write.claim.job_id, STEP)
            self._on_flushed(flushed)

    async def _is_held(self, batch: _Batch[W]) -> bool:
        """Whether there is nothing to write yet; rows that other transactions hold are parted from the others."""
        held = await held_jobs(self._link, [write.claim.job_id for write in batch.writes])
        if not held:
            return False
        if batch.alone:
            # The first time it is tried all the same: while it waits, the session that blocks it is seen.
            known = (batch.writes[0].claim.job_id, STEP) in self._jobs
            if known:
                self._jobs.begin(batch.writes[0].claim.job_id, STEP, batch.error)
                self._put_off(batch, batch.error)
            return known
        free = [write for write in batch.writes if write.claim.job_id not in held]
        alone = [[write] for write in batch.writes if write.claim.job_id in held]
        self._replace(batch, [free, *alone] if free else alone)
        return True

    async def _written(self, batch: _Batch[W]) -> R:
        if not batch.alone:
            return await self._flush(self._link, batch.writes)
        async with LockWait(self._database, self._link.backend, after=_LOOK_AFTER):
            return await self._flush(self._link, batch.writes)

    def _failed(self, batch: _Batch[W], error: Exception) -> None:
        if not batch.alone:
            middle = len(batch.writes) // 2
            batch.error = error
            self._replace(batch, [batch.writes[:middle], batch.writes[middle:]])
        elif isinstance(error, UNSTORABLE) and batch.substitutes < _MOST_SUBSTITUTES:
            batch.writes, batch.substitutes = [self._substitute(batch.writes[0], error)], batch.substitutes + 1
        else:
            self._jobs.begin(batch.writes[0].claim.job_id, STEP, error, blockers_noted(error) or None)
            self._put_off(batch, error)

    def _replace(self, batch: _Batch[W], parts: list[list[W]]) -> None:
        self._batches.remove(batch)
        self._batches += [_Batch(part, batch.error, substitutes=batch.substitutes) for part in parts]

    def _put_off(self, batch: _Batch[W], error: Exception) -> None:
        pause = max(_PAUSES[min(batch.failures, len(_PAUSES) - 1)], len(self._batches) / _ROWS_PER_SECOND)
        batch.due = asyncio.get_running_loop().time() + pause
        batch.error, batch.failures = error, batch.failures + 1

"""Needs: which kinds a lane wants approved. Known to every producer within five seconds of the lane's edit."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowlock.errors import RowlockError
from rowlock.flow.enqueue import Batch, prepared
from rowlock.model.approval import Approval

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.flow.enqueue import Prepared
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.enqueue")
EVERY: Final = 5.0
"""Seconds between looks while jobs are enqueued: one small read per process, whatever the number of jobs."""
_ASKED: Final = Approval().code


class Needs:
    """What the lanes ask for, as read last; an enqueue looks at it in memory."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self.forget()

    def forget(self) -> None:
        """Another database from now on."""
        self._until = 0.0
        self._kinds, self._named, self._rest = frozenset[str](), frozenset[str](), False

    @property
    def are_old(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() >= self._until

    async def read(self) -> None:
        """Look; what cannot be read stays as it was."""
        self._until = time.monotonic() + EVERY
        try:
            (row,) = await self._open().fetch("approval_needs")
        except RowlockError as error:
            logger.debug("the lanes' approval cannot be read, what was known stays: %s", error)
        else:
            self._kinds, self._named, self._rest = frozenset(row["kinds"]), frozenset(row["named"]), row["rest"]

    def of(self, ready: Prepared) -> Prepared:
        """The job as its lane wants it."""
        if not (self._kinds or self._rest) or ready.job.approval or not self._asks(ready.job.kind):
            return ready
        return prepared(replace(ready.job, approval=_ASKED), ready.gate)

    def of_all(self, batch: Batch) -> Batch:
        """The same for a bulk."""
        return Batch(batch.texts, [self.of(ready) for ready in batch.jobs]) if self._kinds or self._rest else batch

    def _asks(self, kind: str) -> bool:
        return kind in self._kinds or (self._rest and kind not in self._named)

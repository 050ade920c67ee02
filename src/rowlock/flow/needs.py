"""Needs: which kinds a lane wants approved, or takes by turns. Producers know within five seconds of its edit."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowlock.errors import RowlockError
from rowlock.flow.enqueue import Batch, prepared
from rowlock.model.approval import Approval
from rowlock.model.share import share_of

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
        self._fair, self._fair_rest = frozenset[str](), False
        self._none = True

    @property
    def are_old(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() >= self._until

    async def read(self) -> None:
        """Look; what cannot be read stays as it was."""
        self._until = time.monotonic() + EVERY
        try:
            (row,) = await self._open().fetch("lane_needs")
        except RowlockError as error:
            logger.debug("what the lanes need cannot be read, what was known stays: %s", error)
        else:
            self._kinds, self._named, self._rest = frozenset(row["kinds"]), frozenset(row["named"]), row["rest"]
            self._fair, self._fair_rest = frozenset(row["fair_kinds"]), row["fair_rest"]
            self._none = not (self._kinds or self._rest or self._fair or self._fair_rest)

    def of(self, ready: Prepared) -> Prepared:
        """The job as its lane wants it."""
        if self._none:
            return ready
        job = ready.job
        if not job.approval and self._among(job.kind, self._kinds, rest=self._rest):
            job = replace(job, approval=_ASKED)
        if not job.share and job.tenant is not None and self._among(job.kind, self._fair, rest=self._fair_rest):
            job = replace(job, share=share_of(job.tenant))
        return ready if job is ready.job else prepared(job, ready.gate, ready.rates)

    def of_all(self, batch: Batch) -> Batch:
        """The same for a bulk."""
        return Batch(batch.texts, [self.of(ready) for ready in batch.jobs]) if not self._none else batch

    def _among(self, kind: str, kinds: frozenset[str], *, rest: bool) -> bool:
        return kind in kinds or (rest and kind not in self._named)

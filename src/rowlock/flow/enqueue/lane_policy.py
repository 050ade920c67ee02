"""Needs: which kinds a lane wants approved, or shared out; producers know within five seconds of the lane's edit."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import RowlockError
from rowlock.flow.enqueue.prepare import Batch, prepared
from rowlock.model.approval import Approval
from rowlock.model.tenant_share import share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rowlock.flow.enqueue.prepare import Prepared
    from rowlock.store.caller_transaction import Ask
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.enqueue")
EVERY: Final = 5.0
"""Seconds between looks while jobs are enqueued: one small read per process, whatever the number of jobs."""
_ASKED: Final = Approval().code


@dataclass(frozen=True, slots=True)
class Wishes:
    """The kinds whose lane asks for approval, or is fair; rest: so does the lane of all that no lane has in `named`."""

    kinds: frozenset[str] = frozenset()
    rest: bool = False
    named: frozenset[str] = frozenset()
    fair_kinds: frozenset[str] = frozenset()
    fair_rest: bool = False
    any: bool = False

    @classmethod
    def of(cls, row: Sequence[Any]) -> Wishes:
        """From the answer of lane_needs, whichever driver brings it."""
        kinds, rest, named, fair, fair_rest = row
        some = bool(kinds or rest or fair or fair_rest)
        return cls(frozenset(kinds), rest, frozenset(named), frozenset(fair), fair_rest, some)

    def asks(self, kind: str) -> bool:
        """Whether jobs of this kind are approved first."""
        return kind in self.kinds or (self.rest and kind not in self.named)

    def shares(self, kind: str) -> bool:
        """Whether tenants take turns with jobs of this kind."""
        return kind in self.fair_kinds or (self.fair_rest and kind not in self.named)


class Needs:
    """What the lanes ask for, as read last; an enqueue looks at it in memory."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self.forget()

    def forget(self) -> None:
        """Another database from now on."""
        self._until = 0.0
        self._wishes = Wishes()
        self.unsure = True
        """The last look failed: whoever enqueues looks by themselves, on the connection they write with."""

    @property
    def are_old(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() >= self._until

    async def read(self) -> None:
        """Look. Whoever writes on a connection of ours fails with it; a caller's own connection may still do."""
        self._until, self.unsure = time.monotonic() + EVERY, True
        try:
            await self.insist()
        except RowlockError as error:
            logger.debug("what the lanes need cannot be read here, every enqueue asks for itself: %s", error)

    async def insist(self) -> None:
        """Look, or fail: a job that needs approval is never let through because nobody could say so."""
        (row,) = await self._open().fetch("lane_needs")
        self._wishes, self.unsure = Wishes.of(tuple(row)), False

    def asked(self) -> Generator[Ask, list[Sequence[Any]], Wishes]:
        """What is known, as a plan: one more statement in the caller's transaction, only while it is not."""
        if not self.unsure:
            return self._wishes
        rows = yield "lane_needs", {}
        return Wishes.of(rows[0])

    def of(self, ready: Prepared, wishes: Wishes | None = None) -> Prepared:
        """The job as its lane wants it."""
        wishes = wishes or self._wishes
        if not wishes.any:
            return ready
        job = ready.job
        if not job.approval and wishes.asks(job.kind):
            job = replace(job, approval=_ASKED)
        if not job.share and job.tenant is not None and wishes.shares(job.kind):
            job = replace(job, share=share_of(job.tenant))
        return ready if job is ready.job else prepared(job, ready.gate, ready.rates)

    def of_all(self, batch: Batch, wishes: Wishes | None = None) -> Batch:
        """The same for a bulk."""
        wishes = wishes or self._wishes
        return Batch(batch.texts, [self.of(ready, wishes) for ready in batch.jobs]) if wishes.any else batch

"""Lane policy: which kinds their lane wants approved first, or shared out fairly between tenants.

An enqueue looks at the policy in memory. A process reads it again every five seconds while it enqueues, so an edit of a
lane counts within five seconds.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import RowlockError
from rowlock.flow.enqueue.prepare import prepared
from rowlock.model.approval import Approval
from rowlock.model.tenant_share import share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.store.caller_transaction import Ask
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.enqueue")
EVERY: Final = 5.0
"""Seconds between two reads while jobs are enqueued: one small read per process, whatever the number of jobs."""
_NEEDS_APPROVAL: Final = Approval().code


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """What lanes demand of the jobs of their kinds.

    The `rest` fields are about the lane of `*`, which has every kind that is not in `named`.
    """

    approved_kinds: frozenset[str] = frozenset()
    approved_rest: bool = False
    named: frozenset[str] = frozenset()
    fair_kinds: frozenset[str] = frozenset()
    fair_rest: bool = False
    demands_anything: bool = False
    """False: every job may be written as it is."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> LanePolicy:
        """From a row of the statement lane_needs, whichever driver brings it."""
        approved, approved_rest, named, fair, fair_rest = row
        anything = bool(approved or approved_rest or fair or fair_rest)
        return cls(frozenset(approved), approved_rest, frozenset(named), frozenset(fair), fair_rest, anything)

    def needs_approval(self, kind: str) -> bool:
        """Whether jobs of this kind are approved before they run."""
        return kind in self.approved_kinds or (self.approved_rest and kind not in self.named)

    def is_fair(self, kind: str) -> bool:
        """Whether tenants take turns with jobs of this kind."""
        return kind in self.fair_kinds or (self.fair_rest and kind not in self.named)

    def applied_to(self, prepared_job: PreparedJob) -> PreparedJob:
        """The job as its lane demands it."""
        job = prepared_job.job
        if not job.approval and self.needs_approval(job.kind):
            job = replace(job, approval=_NEEDS_APPROVAL)
        if not job.share and job.tenant is not None and self.is_fair(job.kind):
            job = replace(job, share=share_of(job.tenant))
        return prepared_job if job is prepared_job.job else prepared(job, prepared_job.gate, prepared_job.rates)


class LanePolicyCache:
    """The lane policy as this process read it last."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self.forget()

    def forget(self) -> None:
        """Start over: the application uses another database from now on."""
        self._until = 0.0
        self.policy = LanePolicy()
        self.is_unknown = True
        """The last read failed or has not ended: every enqueue reads the policy on the connection it writes with."""

    @property
    def is_stale(self) -> bool:
        """Whether it is time to read the policy again."""
        return time.monotonic() >= self._until

    async def refresh(self) -> None:
        """Read the policy; after a failure it is unknown, and the enqueue decides what that means."""
        self._until, self.is_unknown = time.monotonic() + EVERY, True
        try:
            await self.read()
        except RowlockError as error:
            logger.debug("the lane policy cannot be read here, so every enqueue reads it for itself: %s", error)

    async def read(self) -> None:
        """Read the policy or fail: without it, a job could escape the approval that its lane demands."""
        (row,) = await self._open().fetch("lane_needs")
        self.policy, self.is_unknown = LanePolicy.from_row(tuple(row)), False

    def plan(self) -> Generator[Ask, list[Sequence[Any]], LanePolicy]:
        """The policy, read in the caller's transaction as long as it is unknown."""
        if not self.is_unknown:
            return self.policy
        rows = yield "lane_needs", {}
        return LanePolicy.from_row(rows[0])

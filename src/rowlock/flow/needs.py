"""Needs: which kinds a lane wants approved. Known to every producer within five seconds of the lane's edit."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import RowlockError
from rowlock.flow.enqueue import Batch, prepared
from rowlock.model.approval import Approval

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rowlock.flow.enqueue import Prepared
    from rowlock.store.caller import Ask
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.enqueue")
EVERY: Final = 5.0
"""Seconds between looks while jobs are enqueued: one small read per process, whatever the number of jobs."""
_ASKED: Final = Approval().code


@dataclass(frozen=True, slots=True)
class Known:
    """The kinds whose lane asks for approval; rest: so does the lane of all that no lane has in `named`."""

    kinds: frozenset[str] = frozenset()
    rest: bool = False
    named: frozenset[str] = frozenset()

    @classmethod
    def of(cls, row: Sequence[Any]) -> Known:
        """From the answer of approval_needs, whichever driver brings it."""
        kinds, rest, named = row
        return cls(frozenset(kinds), rest, frozenset(named))

    def asks(self, kind: str) -> bool:
        """Whether jobs of this kind are approved first."""
        return kind in self.kinds or (self.rest and kind not in self.named)


class Needs:
    """What the lanes ask for, as read last; an enqueue looks at it in memory."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self.forget()

    def forget(self) -> None:
        """Another database from now on."""
        self._until = 0.0
        self._known = Known()
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
            logger.debug("the lanes' approval cannot be read here, every enqueue asks for itself: %s", error)

    async def insist(self) -> None:
        """Look, or fail: a job that needs approval is never let through because nobody could say so."""
        (row,) = await self._open().fetch("approval_needs")
        self._known, self.unsure = Known.of(tuple(row)), False

    def asked(self) -> Generator[Ask, list[Sequence[Any]], Known]:
        """What is known, as a plan: one more statement in the caller's transaction, only while it is not."""
        if not self.unsure:
            return self._known
        rows = yield "approval_needs", {}
        return Known.of(rows[0])

    def of(self, ready: Prepared, known: Known | None = None) -> Prepared:
        """The job as its lane wants it."""
        known = known or self._known
        if not (known.kinds or known.rest) or ready.job.approval or not known.asks(ready.job.kind):
            return ready
        return prepared(replace(ready.job, approval=_ASKED), ready.gate)

    def of_all(self, batch: Batch, known: Known | None = None) -> Batch:
        """The same for a bulk."""
        known = known or self._known
        return (
            Batch(batch.texts, [self.of(ready, known) for ready in batch.jobs]) if known.kinds or known.rest else batch
        )

"""Locks over the wire: who holds which, and who waits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rowlock.api.dependencies import Asked
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from rowlock.model.lock import LockUser, LockView

routes = Routes("locks")


class LockUserAnswer(Answer):
    """Who holds a lock or waits for it. job null: no job, or one that is not yours to see."""

    process: str
    job: str | None
    kind: str | None
    since: datetime

    @classmethod
    def of(cls, user: LockUser) -> LockUserAnswer:
        """From the desk's value."""
        return cls(process=user.process, job=user.public_id, kind=user.kind, since=user.since)


class LockAnswer(Answer):
    """A lock that is held or waited for. holder null: it changes hands at this moment; waiters: the first one first."""

    namespace: str
    key: str
    holder: LockUserAnswer | None
    waiters: list[LockUserAnswer]

    @classmethod
    def of(cls, lock: LockView) -> LockAnswer:
        """From the desk's value."""
        return cls(
            namespace=lock.namespace,
            key=lock.key,
            holder=None if lock.holder is None else LockUserAnswer.of(lock.holder),
            waiters=[LockUserAnswer.of(waiter) for waiter in lock.waiters],
        )


class LocksAnswer(Answer):
    """Every lock that somebody holds or waits for, by namespace and key."""

    items: list[LockAnswer]


@routes.get("/locks", needs=Permission.WORKERS_VIEW)
async def list_locks(desk: Asked) -> LocksAnswer:
    """Every lock that somebody holds or waits for, by namespace and key."""
    return LocksAnswer(items=[LockAnswer.of(lock) for lock in await desk.locks.list()])

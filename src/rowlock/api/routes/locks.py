"""Locks: which process holds which, and which ones wait."""

from __future__ import annotations

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.routing import Routes
from rowlock.api.schemas.limits import LockAnswer, LocksAnswer
from rowlock.model.access import Permission

routes = Routes("locks")


@routes.get("/locks", needs=Permission.WORKERS_VIEW)
async def list_locks(desk: CurrentDesk) -> LocksAnswer:
    """Every lock that is held or waited for, by namespace and key."""
    return LocksAnswer(items=[LockAnswer.of(lock) for lock in await desk.locks.list()])

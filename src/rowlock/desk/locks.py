"""app.locks: locks of the application with their holders and waiters."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.model.access import Permission
from rowlock.model.lock import LockUser, LockView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock.store.database import Database, Record


class Locks:
    """Locks that are held or waited for."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[LockView]:
        """Every lock that is held or waited for, by namespace and key."""
        rows = await self._open().fetch("lock_list", **self._guard.visibility)
        return [_view(list(users)) for _, users in groupby(rows, key=lambda row: row["key"])]


def _view(rows: list[Record]) -> LockView:
    first = rows[0]
    return LockView(
        first["namespace"],
        first["name"],
        first["now"],
        next(iter(_users(rows, held=True)), None),
        _users(rows, held=False),
    )


def _users(rows: Iterable[Record], *, held: bool) -> list[LockUser]:
    return [LockUser(row["process"], row["since"], row["job_id"], row["kind"]) for row in rows if row["held"] is held]

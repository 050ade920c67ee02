"""Calls that meet another transaction: DatabaseBusy for their errors, and LockWait, which names that transaction.

PostgreSQL ends a wait for a lock with an error that does not say who holds it, and afterwards it is too late to ask.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.errors import DatabaseBusy, DatabaseError
from rowlock.store.driver.statement_check import blockers_seen

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock.store.driver.statement_check import Connector

BRIEF: Final = 2.0
"""Seconds that a person's order waits for a row that another transaction holds."""
_NOTE: Final = "Held by "
_SAID: Final[dict[type[BaseException], str]] = {
    asyncpg.LockNotAvailableError: "Another transaction holds rows that this call needs: {blockers}. End it",
    asyncpg.DeadlockDetectedError: "Another transaction and this call waited for each other; PostgreSQL ended the call",
    asyncpg.SerializationError: "Another transaction changed the same rows at the same moment",
    asyncpg.QueryCanceledError: "PostgreSQL ended the statement: {error}. See what it waits for with rowlock doctor",
}
"""What the errors of a call that met another transaction say; the advice to try again follows."""
_NOT_AVAILABLE: Final = (asyncpg.LockNotAvailableError, DatabaseBusy)
CONFLICTS: Final = tuple(_SAID)
"""The driver's errors of a call that met another transaction."""


class LockWait:
    """A block that runs one statement; an error of a lock that was not available gets a note of the sessions."""

    def __init__(self, database: Connector, backend: int | None, *, after: float) -> None:
        """backend: the session of the statement, None: not known, so nobody is asked. after: seconds."""
        self._database, self._backend, self._after = database, backend, after
        self._looking: asyncio.Task[str] | None = None

    async def __aenter__(self) -> None:
        """Begin to wait."""
        if self._backend is not None:
            self._looking = asyncio.ensure_future(self._look(self._backend))

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Stop the look for blocking sessions, and add the sessions that it found to the error as a note."""
        looking, self._looking = self._looking, None
        if looking is None:
            return
        if isinstance(error, _NOT_AVAILABLE) and looking.done() and not looking.cancelled():
            note_blockers(error, looking.result())
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    async def _look(self, backend: int) -> str:
        await asyncio.sleep(self._after)
        return await blockers_of(self._database, backend)


async def blockers_of(database: Connector, backend: int) -> str:
    """The sessions that hold what this backend waits for, as text; empty: none, or the server cannot be asked."""
    with contextlib.suppress(DatabaseError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        other = await database.connect("doubt")
        try:
            return await blockers_seen(database, other, backend)
        finally:
            other.terminate()
    return ""


def lock_timeout(seconds: float) -> str:
    """The longest wait for a lock, as PostgreSQL's setting lock_timeout spells it."""
    return f"{seconds * 1000:.0f}ms"


def note_blockers(error: BaseException, blockers: str) -> None:
    """Keep with the error who held the lock."""
    if blockers:
        error.add_note(_NOTE + blockers)


def blockers_noted(error: BaseException) -> str:
    """The text that note_blockers() kept; empty: none."""
    notes = (note for note in getattr(error, "__notes__", ()) if note.startswith(_NOTE))
    return next(notes, _NOTE)[len(_NOTE) :]


def busy(error: BaseException) -> DatabaseBusy:
    """The error for a call that met another transaction. Its blockers were noted while it waited, if they could be."""
    blockers = blockers_noted(error)
    said = next(text for sort, text in _SAID.items() if isinstance(error, sort))
    said = said.format(blockers=blockers or "the server did not say which", error=error)
    return DatabaseBusy(f"{said}. Nothing was written; try again.", str(getattr(error, "sqlstate", "")), blockers)

"""Asks the server, over another connection, whether it still works on a statement that it does not answer.

A socket whose other end has forgotten it (after a failover, or behind a router or proxy) would otherwise stay silent
until the time limit of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Protocol

import asyncpg

from rowlock.errors import DatabaseError

if TYPE_CHECKING:
    from datetime import datetime

    from rowlock.store.queries import Statements

logger = logging.getLogger("rowlock.link")
SILENCE: Final = 4.0
"""Seconds without an answer before the server is asked."""


class Connector(Protocol):
    """Opens connections: the Database."""

    @property
    def statements(self) -> Statements:
        """The named SQL statements."""

    async def connect(self, role: str, /) -> asyncpg.Connection[asyncpg.Record]:
        """A new connection."""


async def check_statement(
    database: Connector,
    connection: asyncpg.Connection[asyncpg.Record],
    backend: int,
    what: str,
    pause: float,
    *,
    patient: bool,
) -> str:
    """Close the connection if the server works on no statement of it. pause: seconds between two looks.

    A statement that merely takes long is left alone; returns the sessions whose locks it waits for, as text. patient:
    the connection also stays open when the server does not answer here either; otherwise it is closed then.
    """
    try:
        other = await database.connect("doubt")
    except (DatabaseError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        if not patient and isinstance(error.__cause__, TimeoutError):
            logger.warning("no answer to a %s, and none to a new connection: %s", what, error)
            connection.terminate()
        return ""
    try:
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            if await _is_at_it(database, other, backend, pause):
                return await blockers_seen(database, other, backend)
            logger.warning("the server knows nothing of a %s under way: connecting again", what)
            connection.terminate()
    finally:
        other.terminate()
    return ""


async def blockers_seen(database: Connector, other: asyncpg.Connection[asyncpg.Record], backend: int) -> str:
    """The sessions that hold what this backend waits for, as text, asked over the other connection; empty: none."""
    return str(await other.fetchval(database.statements["blockers_of"].dollar, backend) or "")


async def _is_at_it(database: Connector, other: asyncpg.Connection[asyncpg.Record], backend: int, pause: float) -> bool:
    """Looks twice: an answer may be on its way, and a busy backend is idle for moments between two statements."""
    statement = database.statements["is_at_work"]
    before: datetime | None = None
    for first in (True, False):
        row = await other.fetchrow(statement.dollar, backend)
        if row is not None and (row["busy"] or not (first or row["since"] == before)):
            return True
        before = row["since"] if row is not None else None
        if first:
            await asyncio.sleep(pause)
    return False

"""Probes for `rowlock doctor`: whether NOTIFY arrives, and whether a pooler stands before the server."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

if TYPE_CHECKING:
    from rowlock.store.database import Database

_PATIENCE: Final = 3.0
"""Seconds for a message to come back."""


@dataclass(frozen=True, slots=True)
class PoolerCheck:
    """Whether there is a pooler, and whether it switches servers between transactions."""

    pooler: bool
    by_transaction: bool


async def round_trip(database: Database) -> float | None:
    """Seconds from a NOTIFY to its arrival, as a worker would receive it; None: it did not arrive."""
    channel, heard = f"{database.schema}_doctor", asyncio.Event()
    end_notifications = await database.connect("doctor", direct=True)
    try:
        await end_notifications.add_listener(channel, lambda *_: heard.set())
        began = time.monotonic()
        await database.fetch("notify", channel=channel, payload="{}")
        async with asyncio.timeout(_PATIENCE):
            await heard.wait()
        return time.monotonic() - began
    except TimeoutError:
        return None
    finally:
        end_notifications.terminate()


async def find_pooler(database: Database) -> PoolerCheck:
    """Compare the backend that serves a connection with the one of its handshake, and over two transactions."""
    first, second = await database.connect("doctor"), await database.connect("doctor")
    whoami = database.statements["serving"].dollar
    try:
        before = await first.fetchval(whoami)
        async with second.transaction():
            # A transaction pooler lends the first connection's server to the second; then the first must get another.
            taken, after = await second.fetchval(whoami), await first.fetchval(whoami)
        swapped = before == taken or before != after
        return PoolerCheck(swapped or before != first.get_server_pid(), swapped)
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        # The statement was prepared on one server and executed on another.
        return PoolerCheck(pooler=True, by_transaction=True)
    finally:
        first.terminate()
        second.terminate()

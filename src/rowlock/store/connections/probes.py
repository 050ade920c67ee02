"""Probes: whether a message comes back through LISTEN, and whether a pooler stands in front of the server."""

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
class Between:
    """What stands between: a pooler at all, and whether it changes the server between two transactions."""

    pooler: bool
    by_transaction: bool


async def round_trip(database: Database) -> float | None:
    """Seconds from a NOTIFY to its arrival, the way a worker hears of jobs; None: it never came."""
    channel, heard = f"{database.schema}_doctor", asyncio.Event()
    ears = await database.connect("doctor", direct=True)
    try:
        await ears.add_listener(channel, lambda *_: heard.set())
        began = time.monotonic()
        await database.fetch("notify", channel=channel, payload="{}")
        async with asyncio.timeout(_PATIENCE):
            await heard.wait()
        return time.monotonic() - began
    except TimeoutError:
        return None
    finally:
        ears.terminate()


async def between(database: Database) -> Between:
    """Ask the server who serves us, and compare it with who answered when we connected."""
    first, second = await database.connect("doctor"), await database.connect("doctor")
    whoami = database.statements["serving"].dollar
    try:
        before = await first.fetchval(whoami)
        async with second.transaction():
            # The second takes the first's server if that one was only lent to it; then the first must get another.
            taken, after = await second.fetchval(whoami), await first.fetchval(whoami)
        swapped = before == taken or before != after
        return Between(swapped or before != first.get_server_pid(), swapped)
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        # Prepared on one server, asked for on another.
        return Between(pooler=True, by_transaction=True)
    finally:
        first.terminate()
        second.terminate()

from __future__ import annotations

import pytest

from rowlock.errors import DatabaseUnreachable
from rowlock.store.database import Database


async def test_a_connection_that_dies_inside_a_transaction_is_an_outage(database_url: str) -> None:
    database = Database(database_url)

    async def die() -> None:
        async with database.connection() as connection, connection.transaction():
            await connection.fetchval("SELECT pg_terminate_backend(pg_backend_pid())")
            await connection.fetchval("SELECT 1")

    with pytest.raises(DatabaseUnreachable):
        await die()
    await database.close()

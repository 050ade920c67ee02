from __future__ import annotations

import asyncpg


async def tables(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE leftover ()")  # fails where a former test's database is handed out
        return int(await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'rowlock'"))
    finally:
        await connection.close()


async def test_a_test_gets_a_database_with_the_schema(database_url: str) -> None:
    assert await tables(database_url) > 0


async def test_the_next_test_gets_another_one(database_url: str) -> None:
    assert await tables(database_url) > 0


async def test_an_empty_database_has_no_schema(empty_database_url: str) -> None:
    assert await tables(empty_database_url) == 0


async def test_a_connection_left_open_does_not_keep_a_database(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT 1") == 1
    connection.terminate()

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import pytest

from rowlock.store.database import Database
from rowlock.store.driver import array_types

if TYPE_CHECKING:
    from asyncpg.connection import LoggedQuery

VALUES: dict[str, list[Any]] = {
    "boolean": [True, None],
    "smallint": [-1, 2],
    "integer": [3],
    "bigint": [2**60],
    "double precision": [0.5, None],
    "timestamptz": [datetime(2026, 1, 1, tzinfo=UTC)],
    "interval": [timedelta(seconds=90)],
    "uuid": [UUID(int=7)],
    "jsonb": ['{"a": 1}', None],
}


@pytest.mark.parametrize("kind", VALUES)
async def test_an_array_travels_both_ways_without_a_question_about_its_type(database_url: str, kind: str) -> None:
    connection = await Database(database_url).connect("test")
    asked: list[str] = []

    def heard(query: LoggedQuery) -> None:
        asked.append(query.query)

    connection.add_query_logger(heard)
    try:
        answer = await connection.fetchval(f"SELECT $1::{kind}[]", VALUES[kind])
    finally:
        await connection.close()
    assert answer == VALUES[kind]
    assert asked == [f"SELECT $1::{kind}[]"]


async def test_the_server_says_the_same_of_these_types(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "SELECT oid::bigint, typname::text, typelem::bigint, format_type(typelem, NULL) FROM pg_type "
            "WHERE oid = ANY ($1::oid[]) ORDER BY oid",
            [oid for oid, *_ in array_types._ARRAYS],
        )
    finally:
        await connection.close()
    assert [tuple(row) for row in rows] == list(array_types._ARRAYS)

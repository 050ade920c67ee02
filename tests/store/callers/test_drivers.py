from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from rowlock import InvalidOption, Rowlock, Task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


def greet(app: Rowlock) -> Task[[str], str]:
    @app.job
    async def greet(name: str) -> str:
        return name

    return greet


async def states(app: Rowlock) -> list[str]:
    return [job.state for job in await app.jobs.list()]


async def test_a_connection_lent_by_a_pool_of_asyncpg_is_joined(app: Rowlock, database_url: str) -> None:
    async with asyncpg.create_pool(database_url, min_size=1) as pool, pool.acquire() as connection:
        async with connection.transaction():
            await greet(app).options(connection=connection).enqueue("ada")
            assert await states(app) == []
        assert await states(app) == ["queued"]


async def test_json_codecs_of_the_caller_do_not_matter(app: Rowlock, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, schema="pg_catalog", encoder=lambda _: "1", decoder=lambda _: None)
    job = await greet(app).options(connection=connection, meta={"x": 1}).enqueue("ada")
    await connection.close()
    stored = await app.jobs.get(job.id)
    assert (stored.args, stored.meta) == ({"name": "ada"}, {"x": 1})


async def test_psycopg_opens_its_transaction_with_the_first_statement(app: Rowlock, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        greet(app).options(connection=connection).enqueue_sync("ada")
        assert await states(app) == []
    assert await states(app) == ["queued"]


async def test_a_failed_block_of_psycopg_leaves_nothing(app: Rowlock, database_url: str) -> None:
    async def request() -> None:
        connecting = psycopg.AsyncConnection.connect(database_url, autocommit=True)
        async with await connecting as connection, connection.transaction():
            await greet(app).options(connection=connection).enqueue("ada")
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        await request()
    assert await states(app) == []


@pytest.mark.parametrize("factory", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
async def test_cursor_and_row_factories_of_the_caller_do_not_matter(
    app: Rowlock, database_url: str, factory: type[psycopg.Cursor[Any]]
) -> None:
    with psycopg.connect(database_url, cursor_factory=factory, row_factory=dict_row) as connection:
        job = greet(app).options(connection=connection).enqueue_sync("ada")
    assert (await app.jobs.get(job.id)).args == {"name": "ada"}


async def test_psycopg_pipelines_are_joined(app: Rowlock, database_url: str) -> None:
    with psycopg.connect(database_url) as connection, connection.pipeline():
        job = greet(app).options(connection=connection).enqueue_sync("ada")
    assert (await app.jobs.get(job.id)).state == "queued"


async def test_a_cursor_is_no_connection(app: Rowlock, database_url: str) -> None:
    with psycopg.connect(database_url) as connection, pytest.raises(InvalidOption, match=r"got psycopg\.Cursor"):
        await greet(app).options(connection=connection.cursor()).enqueue("ada")


async def test_blocking_code_cannot_wait_for_asyncpg(app: Rowlock, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    with pytest.raises(InvalidOption, match="Connection, which is asynchronous"):
        greet(app).options(connection=connection).enqueue_sync("ada")
    await connection.close()


async def test_a_stranger_is_refused_with_the_list_of_friends(app: Rowlock) -> None:
    with pytest.raises(InvalidOption, match="asyncpg, psycopg or Django connection, or a SQLAlchemy Session"):
        await greet(app).options(session=object()).enqueue("ada")


async def test_connection_and_session_are_one_too_many(app: Rowlock) -> None:
    with pytest.raises(InvalidOption, match="both given"):
        greet(app).options(connection=object(), session=object())

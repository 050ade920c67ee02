from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from rowlock import Rowlock
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

QUICK = {"shutdown_after": timedelta(seconds=3)}


@pytest.fixture
async def make_app(database_url: str) -> AsyncIterator[Callable[..., Rowlock]]:
    """Makes apps on one database, whatever the environment says; keywords are settings."""
    made: list[Rowlock] = []

    def make(**settings: Any) -> Rowlock:  # noqa: ANN401 - the settings' own types
        made.append(Rowlock(database_url, settings=Settings(**{**QUICK, **settings})))
        return made[-1]

    yield make
    for app in made:
        await app.close()


@pytest.fixture
def app(make_app: Callable[..., Rowlock]) -> Rowlock:
    return make_app()


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A look behind the store."""
    connection = await asyncpg.connect(database_url, server_settings={"search_path": "rowlock"})
    try:
        yield connection
    finally:
        await connection.close(timeout=2)

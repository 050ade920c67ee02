from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowlock.store.connections import worker_connection as links
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import Database

if TYPE_CHECKING:
    import pytest


async def test_a_connection_whose_server_is_not_at_it_is_hung_up(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "SILENCE", 0.1)
    link = WorkerConnection(Database(database_url), "claim")
    async with asyncio.timeout(20), link.session() as session:
        while not session.connection.is_closed():  # noqa: ASYNC110 - as one waits for an answer that never comes
            await asyncio.sleep(0.01)
    async with link.session() as session:
        assert await session.connection.fetchval("SELECT 1") == 1
    assert link.reconnects == 2
    await link.close()


async def test_a_statement_that_takes_its_time_is_left_alone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "SILENCE", 0.05)
    link = WorkerConnection(Database(database_url), "claim")
    async with link.session() as session:
        assert await session.connection.fetchval("SELECT 1 FROM pg_sleep(0.5)") == 1
    assert link.reconnects == 1
    await link.close()


async def test_behind_a_pooler_nobody_asks(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "SILENCE", 0.02)
    link = WorkerConnection(Database(database_url, pooled=True), "claim")
    async with link.session() as session:
        await asyncio.sleep(0.3)
        assert not session.connection.is_closed()
    await link.close()

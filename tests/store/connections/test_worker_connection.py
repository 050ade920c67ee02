from __future__ import annotations

from typing import TYPE_CHECKING

from tests.waiting import eventually, nothing_happens_for

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
    async with link.session() as session:

        async def closed() -> bool:
            return session.connection.is_closed()

        await eventually(closed)  # as one waits for an answer that never comes
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
        await nothing_happens_for(0.3)
        assert not session.connection.is_closed()
    await link.close()

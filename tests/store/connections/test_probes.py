"""The pooler that the probes look for, played by connections that share their servers as a pooler's do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

import asyncpg
import pytest

from rowlock.store.connections.probes import PoolerCheck, find_pooler
from rowlock.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Pooled:
    """A connection. servers: free ones, the last used first; none: it has the server `own` for itself."""

    def __init__(self, own: int, servers: list[int] | None, *, told: int, prepared: bool) -> None:
        self.own, self.servers, self.told, self.prepared = own, servers, told, prepared
        self.held: int | None = None

    async def fetchval(self, _: str) -> int:
        if self.servers is None:
            return self.own
        if self.prepared and self.held is None and len(self.servers) == 1:
            raise asyncpg.InvalidSQLStatementNameError
        return self.held or self.servers[-1]

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self.held = self.servers.pop() if self.servers is not None else None
        yield

    def get_server_pid(self) -> int:
        return self.told

    def terminate(self) -> None: ...


@pytest.mark.parametrize(
    ("shared", "told", "prepared", "found"),
    [
        (False, (1, 2), False, PoolerCheck(pooler=False, by_transaction=False)),
        (False, (77, 78), False, PoolerCheck(pooler=True, by_transaction=False)),
        (True, (77, 78), False, PoolerCheck(pooler=True, by_transaction=True)),
        (True, (77, 78), True, PoolerCheck(pooler=True, by_transaction=True)),
    ],
    ids=["direct", "session mode", "transaction mode", "transaction mode, prepared statements lost"],
)
async def test_a_pooler_is_recognised_by_who_serves(
    monkeypatch: pytest.MonkeyPatch, shared: bool, told: tuple[int, int], prepared: bool, found: PoolerCheck
) -> None:
    servers = [2, 1] if shared else None
    connections = [Pooled(n, servers, told=told[n - 1], prepared=prepared) for n in (1, 2)]
    database = Database("postgresql://somewhere/jobs")

    async def connect(_: str) -> Any:  # noqa: ANN401 - stands for an asyncpg connection
        return connections.pop(0)

    monkeypatch.setattr(database, "connect", cast("Any", connect))
    assert await find_pooler(database) == found

"""Connections that are dead and have not said so."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.proxy import Proxy, between
from tests.waiting import busy_for, in_time, nothing_happens_for

from rowlock import DatabaseUnreachable, Rowlock
from rowlock.settings import Settings
from rowlock.store import database as databases
from rowlock.store.database import Database
from rowlock.store.driver import pool, tcp_timeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SOON = 25.0
"""Seconds: much longer than any check takes, however busy the machine, and shorter than the limit of a call (35)."""


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SILENCE", 0.4)
    monkeypatch.setattr(pool, "PATIENCE", 0.4)
    monkeypatch.setattr(databases, "SILENCE", 0.4)


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with between(database_url) as made:
        yield made


@pytest.fixture
async def app(proxy: Proxy) -> AsyncIterator[Rowlock]:
    made = Rowlock(proxy.url, settings=Settings(listen=False))

    @made.job("k")
    async def k(n: int) -> None: ...

    yield made
    await made.close()


@pytest.mark.parametrize("sync", [False, True])
async def test_an_idle_connection_that_died_is_found_out_before_anything_is_sent(
    app: Rowlock, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, *, sync: bool
) -> None:
    task = app.task("k")

    async def enqueue(n: int) -> None:
        await (asyncio.to_thread(task.enqueue_sync, n=n) if sync else task.enqueue(n=n))

    await enqueue(1)
    monkeypatch.setattr(pool, "FRESH", 0.0)
    proxy.silence()
    await in_time(enqueue(2))
    assert [job.args["n"] for job in await app.jobs.list()] == [2, 1]


@pytest.mark.parametrize("answers_only", [False, True])
async def test_a_call_without_an_answer_ends_soon_and_says_that_it_may_have_worked(
    app: Rowlock, proxy: Proxy, *, answers_only: bool
) -> None:
    task = app.task("k").options(idempotency_key="once")
    await app.task("k").options(idempotency_key="before").enqueue(n=1)  # prepares the statement
    proxy.silence(answers_only=answers_only)
    with pytest.raises(DatabaseUnreachable, match=r"may have been done.*idempotency_key"):
        # Not in a task of its own: a wake-up that is due would get the silent connection before it.
        async with asyncio.timeout(SOON):
            await task.enqueue(n=2)
    receipt = await task.enqueue(n=2)
    assert receipt.what == ("kept" if answers_only else "created")
    assert {job.args["n"] for job in await app.jobs.list()} == {1, 2}


async def test_a_server_that_answers_nobody_is_not_waited_for(
    app: Rowlock, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.task("k").enqueue(n=1)
    monkeypatch.setattr(databases, "_CONNECT_SECONDS", 0.5)
    proxy.closed_to_new = True
    proxy.silence()
    with pytest.raises(DatabaseUnreachable):
        await in_time(app.task("k").enqueue(n=2))


async def test_a_statement_that_takes_its_time_is_left_alone(proxy: Proxy) -> None:
    database = Database(proxy.url)
    async with database.connection(watched=True) as connection:
        assert await connection.fetchval("SELECT 1 FROM pg_sleep(2)") == 1
    assert proxy.opened > 1, "nobody asked"
    await database.close()


async def test_one_statement_after_another_is_no_silence(proxy: Proxy) -> None:
    database = Database(proxy.url)
    until = time.monotonic() + 2
    async with database.connection(watched=True) as connection:
        while time.monotonic() < until:
            assert await connection.fetchval("SELECT 1") == 1
            await busy_for(0.01)
    assert proxy.opened > 1, "nobody asked"
    await database.close()


async def test_a_connection_that_a_caller_keeps_for_itself_is_left_alone(proxy: Proxy) -> None:
    database = Database(proxy.url)
    async with database.connection() as connection:
        await nothing_happens_for(1.5)
        assert await connection.fetchval("SELECT 1") == 1
    assert proxy.opened == 1
    await database.close()


async def test_behind_a_pooler_nobody_asks(proxy: Proxy) -> None:
    database = Database(proxy.url, pooled=True)
    async with database.connection(watched=True) as connection:
        await connection.fetchval("SELECT 1 FROM pg_sleep(1.2)")
    assert proxy.opened == 1
    await database.close()


class Wire:
    """As much of a connection as is looked at: its transport, which knows its socket."""

    def __init__(self, open_one: socket.socket) -> None:
        self._open_one = open_one

    @property
    def _transport(self) -> Wire:
        return self

    def get_extra_info(self, _name: str) -> socket.socket:
        return self._open_one


async def test_both_kernels_are_told_how_long_to_wait(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        tcp_timeouts.apply(cast("Any", Wire(client)))
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert client.send(b"x") == 1, "it is still open"
    connection = await Database(database_url).connect("client")
    source = await connection.fetchval("SELECT source FROM pg_settings WHERE name = 'tcp_user_timeout'")
    assert source == "client"
    await connection.close()

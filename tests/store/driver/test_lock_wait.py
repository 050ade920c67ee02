"""Calls that wait for a lock: the error names the session that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.factories import several
from tests.waiting import in_time

from rowlock import DatabaseBusy, Rowlock
from rowlock.store.database import TRANSIENT, Database
from rowlock.store.driver import lock_wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.factories import Store


@pytest.fixture
async def stores(database_url: str) -> AsyncIterator[list[Store]]:
    async with several(database_url, 2) as opened:
        yield opened


async def test_the_sessions_that_a_statement_waits_for_are_named(stores: list[Store]) -> None:
    holder, waiter = stores
    job = await holder.enqueue()
    await holder.execute("SET application_name = 'the shop'")
    async with holder.connection.transaction():
        await holder.execute("SELECT 1 FROM {s}.jobs FOR UPDATE")
        waiting = await holder.blocked(waiter, waiter.cancel_waiting(job))
        named = await lock_wait.blockers_of(holder.database, waiter.pid)
    assert await in_time(waiting) == [job]
    assert named.startswith(f"process {holder.pid} (the shop, ")
    assert " transaction open for " in named
    assert await lock_wait.blockers_of(holder.database, waiter.pid) == ""


async def test_an_enqueue_that_waits_for_another_transaction_says_whose_it_is(
    stores: list[Store], database_url: str
) -> None:
    app = Rowlock(database_url)

    @app.job
    async def work() -> None: ...

    holder = stores[0]
    async with app, holder.connection.transaction():
        await holder.execute("INSERT INTO {s}.jobs (kind, unique_key, unique_scope) VALUES ('work', 'work:a', 'live')")
        with pytest.raises(DatabaseBusy, match=f"process {holder.pid} .*Nothing was written; try again") as busy:
            await work.options(unique_key="a").enqueue()
    assert busy.value.sqlstate == "55P03"
    assert isinstance(busy.value, TRANSIENT)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncpg.DeadlockDetectedError("deadlock detected"), "waited for each other"),
        (asyncpg.SerializationError("could not serialize access"), "changed the same rows"),
        (asyncpg.QueryCanceledError("canceling statement due to statement timeout"), "due to statement timeout"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_race_with_another_transaction_has_an_error_with_advice(error: Exception, said: str) -> None:
    translated = Database("postgresql://u@h/d").translate(error)
    assert isinstance(translated, DatabaseBusy)
    assert said in str(translated)
    assert "try again" in str(translated)

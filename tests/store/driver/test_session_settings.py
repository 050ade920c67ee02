"""Rowlock's own sessions do the same whatever the database or the role sets for all sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx
import pytest
from tests.waiting import eventually, in_time

from rowlock import Context, DatabaseUnreachable, Retry, Rowlock, chain
from rowlock.api import RowlockAPI
from rowlock.store.database import Database
from rowlock.store.driver.session_settings import LIMITS, PINNED
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Mapping

HOSTILE = {
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1s",
    "transaction_timeout": "2s",
    "search_path": "nowhere",
    "client_encoding": "LATIN1",
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Pacific/Kiritimati",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "row_security": "off",
    "session_replication_role": "replica",
    "quote_all_identifiers": "on",
    "gin_fuzzy_search_limit": "1",
    "jit": "on",
    "jit_above_cost": "0",
    "plan_cache_mode": "force_custom_plan",
    "work_mem": "64kB",
    "join_collapse_limit": "1",
    "from_collapse_limit": "1",
    "synchronous_commit": "off",
    "xmloption": "document",
    "lc_messages": "C",
    "client_min_messages": "error",
    "check_function_bodies": "off",
    "plpgsql.variable_conflict": "use_variable",
    "plpgsql.extra_errors": "all",
    **{f"enable_{plan}": "off" for plan in ("indexscan", "indexonlyscan", "nestloop", "sort", "hashagg", "seqscan")},
}
"""What somebody may set for all sessions of a database or a role."""
LEVELS = {
    "database": "ALTER DATABASE {database} SET {name} = {value}",
    "role": "ALTER ROLE CURRENT_USER IN DATABASE {database} SET {name} = {value}",
}


async def make_hostile(url: str, level: str, settings: Mapping[str, str]) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("LOAD 'plpgsql'")
        known = {row[0].lower() for row in await connection.fetch("SELECT name FROM pg_settings")}
        database = await connection.fetchval("SELECT quote_ident(current_database())")
        for name, value in settings.items():
            if name in known:
                said = f"'{value}'" if "," not in value else value
                await connection.execute(LEVELS[level].format(database=database, name=name, value=said))
    finally:
        await connection.close()


@pytest.mark.parametrize("level", LEVELS)
async def test_hostile_defaults_change_nothing_in_the_life_of_jobs(database_url: str, level: str) -> None:
    await make_hostile(database_url, level, HOSTILE)
    app = Rowlock(database_url)

    @app.job
    async def child(number: int) -> int:
        return number + 1

    @app.job(retry=Retry(attempts=3))
    async def parent(ctx: Context, number: int) -> None:
        await ctx.progress(1, 2)
        await child.options(unique_key=f"{number % 5}", on_conflict="keep").enqueue(number)

    async with app, app.worker():
        spawned = await parent.enqueue_many([{"number": n} for n in range(30)])
        keyed = await child.options(unique_key=lambda number: f"k{number}").enqueue_many(
            [{"number": n} for n in range(9)]
        )
        flow = await chain(child.step(1), child).enqueue()
        await in_time(asyncio.gather(*(job.wait() for job in (*spawned, *keyed))))
        assert await in_time(flow.wait()) == 3
        assert {(await app.jobs.get(job.id)).attempt for job in spawned} == {1}
        await app.schedules.create("often", "child", every="1s", args={"number": 5})

        async def fired() -> Any:  # noqa: ANN401 - the schedule's last job
            return (await app.schedules.get("often")).last_job

        assert await eventually(fired)
        await ordered_over_rest(app)
    assert await migrate.verify(database_url) == []


async def ordered_over_rest(app: Rowlock) -> None:
    api = RowlockAPI(app)
    assert api.loopback is not None
    transport = httpx.ASGITransport(api.asgi, raise_app_exceptions=False)
    bearer = {"Authorization": f"Bearer {api.loopback.token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1", headers=bearer) as client:
        made = await client.post(
            "/jobs", json={"kind": "child", "args": {"number": 1}, "run_in": "1h", "tags": ["\\é"]}
        )
        assert made.status_code == 202, made.text
        assert made.json()["tags"] == ["\\é"]
        cancelled = await client.post(f"/jobs/{made.json()['id']}/cancel")
        assert cancelled.json()["state"] == "cancelled", cancelled.text


async def test_a_session_has_the_settings_that_its_statements_are_written_for(database_url: str) -> None:
    await make_hostile(database_url, "database", HOSTILE)
    connection = await Database(database_url).connect("test")
    try:
        now = {row[0].lower(): row[1] for row in await connection.fetch("SELECT name, setting FROM pg_settings")}
        limits = {name: await connection.fetchval("SELECT current_setting($1)", name) for name in LIMITS}
        assert {name: now[name] for name in PINNED} == PINNED
        assert now["default_transaction_isolation"] == "read committed"
        assert now.get("transaction_timeout", "0") == "0"
        assert {name: limits[name] for name in LIMITS if not name.startswith("tcp")} == {
            name: value for name, value in LIMITS.items() if not name.startswith("tcp")
        }
    finally:
        connection.terminate()


async def test_a_database_that_is_closed_for_writing_counts_as_an_outage(database_url: str) -> None:
    app = Rowlock(database_url)

    @app.job
    async def work() -> None: ...

    await make_hostile(database_url, "database", {"default_transaction_read_only": "on"})
    async with app:
        with pytest.raises(DatabaseUnreachable, match="read-only transaction"):
            await work.enqueue()

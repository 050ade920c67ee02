"""Migrations on real databases: there and back, by hand and by code, at once and against locks."""

from __future__ import annotations

import asyncio
import re
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from tests.databases import client_program, psql
from tests.factories import Store, opened
from tests.waiting import eventually

from rowlock.errors import ConfigurationError, DatabaseError, SchemaAhead, SchemaBehind, SchemaMissing
from rowlock.store.database import Database
from rowlock.store.queries import checked_schema
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASED = 2
"""The newest step that a release has; those after it come together with the next one."""
ODD = ["My Jobs", "select", "работы", "s", "jobs", 'quo"ted', "100%", "a.b", "UPPER", "x" * 50]

OTHER_BODY = """
CREATE OR REPLACE FUNCTION rowlock.gate_promote(p_key text, p_free integer) RETURNS integer LANGUAGE sql AS 'SELECT 0'
"""

OTHER_VIEW = """
CREATE OR REPLACE VIEW rowlock.stats_ended AS SELECT 'failed' AS state, 0::bigint AS ended, false AS capped
"""


async def run(url: str, sql: str) -> Any:  # noqa: ANN401 - whatever the query says
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def run_all(url: str, script: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def tables(url: str, schema: str = "rowlock") -> int:
    return int(await run(url, f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'"))


async def test_up_down_and_up_again(empty_database_url: str) -> None:
    url = empty_database_url
    assert await migrate.upgrade(url) == [step.version for step in migrate.migrations()]
    assert await migrate.upgrade(url) == []
    assert await migrate.verify(url) == []
    assert await migrate.downgrade(url) == [step.version for step in reversed(migrate.migrations())]
    assert await migrate.downgrade(url) == []
    assert await migrate.upgrade(url) != []
    assert await migrate.verify(url) == []


async def test_down_to_nothing_leaves_nothing(empty_database_url: str) -> None:
    everything = (
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
    )
    functions = (
        "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
        "WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
    )
    await migrate.upgrade(empty_database_url)
    assert await run(empty_database_url, everything) > 30
    await migrate.downgrade(empty_database_url)
    assert await run(empty_database_url, everything) == 0
    assert await run(empty_database_url, functions) == 0
    assert await run(empty_database_url, "SELECT to_regnamespace('rowlock') IS NULL")


async def test_down_keeps_a_schema_that_holds_something_else(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url)
    await run(empty_database_url, "CREATE TABLE rowlock.mine ()")
    await migrate.downgrade(empty_database_url)
    assert await tables(empty_database_url) == 1
    await migrate.upgrade(empty_database_url)
    assert await migrate.status(empty_database_url) == await migrate.status(empty_database_url)
    assert (await migrate.verify(empty_database_url)) == []


async def test_status_says_what_is_applied_and_when(empty_database_url: str) -> None:
    before = await migrate.status(empty_database_url)
    assert (before.version, before.newest) == (0, migrate.newest())
    assert all(at is None for _, _, at in before.steps)
    await migrate.upgrade(empty_database_url)
    after = await migrate.status(empty_database_url)
    assert after.version == after.newest
    assert all(at is not None for _, _, at in after.steps)
    assert [version for version, _, _ in after.steps] == [step.version for step in migrate.migrations()]


@pytest.mark.parametrize("schema", ODD)
async def test_any_schema_name_works(empty_database_url: str, schema: str) -> None:
    await migrate.upgrade(empty_database_url, schema)
    assert await migrate.verify(empty_database_url, schema) == []
    async with opened(Database(empty_database_url, schema=schema)) as store:
        await a_job_is_run(store)
    await migrate.downgrade(empty_database_url, schema)
    assert (await migrate.status(empty_database_url, schema)).version == 0


async def a_job_is_run(store: Store) -> None:
    await store.gate("g", 1)
    job = await store.enqueue(gate_key="g", statement="enqueue_once", idempotency_key="i", keep_key=timedelta(1))
    (claim,) = await store.claim(await store.worker(), job)
    assert await store.complete(claim) == [job]


@pytest.mark.parametrize("name", ["", "a:b", "it's", "{take}", "a$$b", "nul\x00", "x" * 51, "я" * 26])
def test_a_schema_name_that_cannot_be_carried_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema name"):
        checked_schema(name)


async def test_two_schemas_live_side_by_side(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url, "one")
    await migrate.upgrade(empty_database_url, "two")
    await migrate.downgrade(empty_database_url, "one")
    assert await migrate.verify(empty_database_url, "two") == []
    assert await tables(empty_database_url, "one") == 0


async def test_the_printed_script_makes_what_upgrade_makes(empty_database_url: str) -> None:
    for schema in ("rowlock", "My Jobs", "100%"):
        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            connection.execute(migrate.sql(schema).encode())
        assert await migrate.verify(empty_database_url, schema) == []
        assert await migrate.upgrade(empty_database_url, schema) == []


async def test_the_printed_downgrade_lets_the_next_upgrade_in(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url)
    await psql(empty_database_url, migrate.sql(since=migrate.newest(), to=0))
    assert await tables(empty_database_url) == 0
    assert await migrate.upgrade(empty_database_url) != []


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("DROP INDEX rowlock.jobs_claim", "missing: index CREATE INDEX jobs_claim"),
        ("ALTER TABLE rowlock.jobs ADD COLUMN mine integer", "unexpected: column jobs.mine"),
        ("ALTER TABLE rowlock.lanes ALTER COLUMN slots DROP NOT NULL", "missing: column lanes.slots"),
        ("ALTER TABLE rowlock.jobs DROP CONSTRAINT finished_iff_final", "missing: constraint jobs CHECK"),
        ("DROP FUNCTION rowlock.gates_repair", "missing: function gates_repair"),
        (OTHER_BODY, "unexpected: function gate_promote"),
        ("DROP TABLE rowlock.pairs", "missing: column pairs.kind"),
        ("ALTER VIEW rowlock.stats_slow RENAME TO slow", "missing: view stats_slow"),
        (OTHER_VIEW, "unexpected: view stats_ended"),
    ],
)
async def test_verify_names_what_differs(database_url: str, damage: str, found: str) -> None:
    assert await migrate.verify(database_url) == []
    await run(database_url, damage)
    assert any(line.startswith(found) for line in await migrate.verify(database_url))


async def test_verify_leaves_nothing_behind(database_url: str) -> None:
    await run(database_url, "CREATE SCHEMA rowlock_verify")
    assert await migrate.verify(database_url) == []
    assert await run(database_url, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rowlock_%'") == 1


async def test_verify_without_tables_says_how_to_make_them(empty_database_url: str) -> None:
    with pytest.raises(SchemaMissing, match="rowlock schema upgrade"):
        await migrate.verify(empty_database_url)


async def test_two_upgrades_at_once_apply_each_step_once(empty_database_url: str) -> None:
    applied = await asyncio.gather(*(migrate.upgrade(empty_database_url) for _ in range(4)))
    assert sorted(version for versions in applied for version in versions) == [
        step.version for step in migrate.migrations()
    ]
    assert await migrate.verify(empty_database_url) == []


async def test_a_lock_held_by_somebody_is_not_waited_for_but_tried_again(database_url: str) -> None:
    """Behind a waiting migration every enqueue would wait too."""
    async with opened(database_url) as holder, opened(database_url) as watcher:
        transaction = holder.connection.transaction()
        await transaction.start()
        await holder.execute("LOCK TABLE {s}.jobs IN ROW EXCLUSIVE MODE")
        waiting = (
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE d.datname = current_database() AND NOT l.granted AND l.relation = 'rowlock.jobs'::regclass"
        )
        task = asyncio.ensure_future(migrate.downgrade(database_url))
        await eventually(lambda: watcher.value(f"SELECT ({waiting}) = 1"))
        await eventually(lambda: watcher.value(f"SELECT ({waiting}) = 0"))  # after lock_timeout, with nobody's help
        assert not task.done()
        assert await asyncio.wait_for(watcher.enqueue(), 1)
        await transaction.rollback()
        assert await task == [step.version for step in reversed(migrate.migrations())]


async def test_a_table_in_use_beyond_all_patience_is_told_with_its_user(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_LOCK_TRIES", 1)
    async with opened(database_url) as holder:
        async with holder.connection.transaction():
            await holder.execute("LOCK TABLE {s}.jobs IN ROW EXCLUSIVE MODE")
            with pytest.raises(DatabaseError, match=rf"in use by process {holder.pid} \(rowlock:test"):
                await migrate.downgrade(database_url, to=1)
        assert await migrate.downgrade(database_url, to=1) != []


def test_tables_in_use_get_their_indexes_while_they_are_used() -> None:
    """Any other index makes everybody who writes wait for a scan of the whole table."""
    made: set[str] = set()
    for step in migrate.migrations():
        for table in re.findall(r"^CREATE (?:UNIQUE )?INDEX \w+ ON \{schema\}\.(\w+)", step.up, re.MULTILINE):
            assert table not in made, f"{step.name}: CREATE INDEX CONCURRENTLY"
        made |= set(re.findall(r"^CREATE TABLE \{schema\}\.(\w+)", step.up, re.MULTILINE))
        # Built before its step: nothing the step makes is there yet.
        for index in step.indexes:
            columns = re.findall(r"ADD COLUMN (\w+)", step.up)
            assert not set(columns) & set(re.findall(r"\w+", index.text))
        assert not re.search(r"^CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)", step.down, re.MULTILINE), step.name
    assert "CONCURRENTLY" not in migrate.sql()


async def test_an_index_that_a_downgrade_puts_back_holds_nobody_up(empty_database_url: str) -> None:
    url, insert = empty_database_url, "INSERT INTO {s}.jobs (kind) VALUES ('k')"
    await migrate.upgrade(url, to=5)
    async with opened(url) as holder, opened(url) as other:
        transaction = holder.connection.transaction()
        await transaction.start()
        await holder.execute(insert)
        task = asyncio.ensure_future(migrate.downgrade(url, to=4))
        building = "SELECT count(*) > 0 FROM pg_stat_progress_create_index WHERE datname = current_database()"
        await eventually(lambda: other.value(building))
        await asyncio.wait_for(other.execute(insert), 1)
        await transaction.rollback()
        assert await task == [5]
    assert await migrate.verify(url) == []


async def test_code_of_the_release_before_may_start_again(database_url: str) -> None:
    """It knows the first ledger only, and refuses what is two versions ahead there: it sees steps it does not fit."""
    seen = "SELECT max(version) FROM rowlock.migrations"
    assert await run(database_url, seen) == RELEASED
    breaking = migrate.Migration(9000, "breaks", "-- For code made for version 9000 or later.\nSELECT 1;", "SELECT 1;")
    await run_all(database_url, breaking.sql("rowlock", up=True))
    assert await run(database_url, seen) == 9000
    with pytest.raises(SchemaAhead, match="for code made for 9000 or later"):
        await required(database_url)
    await run_all(database_url, breaking.sql("rowlock", up=False))
    assert await run(database_url, seen) == RELEASED
    await required(database_url)


async def test_an_interrupted_index_holds_nobody_up_and_is_built_again(empty_database_url: str) -> None:
    url = empty_database_url
    await migrate.upgrade(url, to=3)
    async with opened(url) as holder, opened(url) as other:
        insert = "INSERT INTO {s}.jobs (kind, tenant) VALUES ('k', 'acme')"
        transaction = holder.connection.transaction()
        await transaction.start()
        await holder.execute(insert)
        task = asyncio.ensure_future(migrate.upgrade(url))
        await eventually(lambda: other.value("SELECT NOT indisvalid FROM pg_index WHERE NOT indisvalid"))
        await asyncio.wait_for(other.execute(insert), 1)
        await other.value(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowlock:schema' "
            "AND datname = current_database()"
        )
        with pytest.raises(DatabaseError):
            await task
        await transaction.commit()
    assert (await migrate.status(url)).version == 3
    (invalid, *_) = await migrate.verify(url)
    assert invalid.startswith("invalid: index jobs_owner")
    assert await migrate.upgrade(url) == list(range(4, migrate.newest() + 1))
    assert await migrate.verify(url) == []


async def test_an_index_that_broke_later_is_repaired_by_the_next_upgrade(database_url: str) -> None:
    await run(database_url, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'rowlock.jobs_owner'::regclass")
    (found,) = await migrate.verify(database_url)
    assert "rowlock schema upgrade" in found
    assert await migrate.upgrade(database_url) == []
    assert await migrate.verify(database_url) == []


async def test_the_printed_upgrade_of_tables_in_use_runs_in_psql(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url, to=2)
    await psql(empty_database_url, migrate.sql(since=2))
    assert await migrate.verify(empty_database_url) == []
    await psql(empty_database_url, migrate.sql(since=migrate.newest(), to=2))
    assert (await migrate.status(empty_database_url)).version == 2
    assert await migrate.verify(empty_database_url) == []


async def test_a_restored_dump_has_no_differences(database_url: str, empty_database_url: str) -> None:
    dump = await client_program("pg_dump", database_url)
    assert "CREATE VIEW rowlock.stats_ended" in dump
    await psql(empty_database_url, dump)
    assert await migrate.verify(empty_database_url) == []
    await run_all(empty_database_url, OTHER_VIEW)
    assert any(line.startswith("unexpected: view stats_ended") for line in await migrate.verify(empty_database_url))


async def required(url: str, schema: str = "rowlock") -> None:
    async with opened(Database(url, schema=schema)) as store:
        await migrate.require(store.connection, schema)


async def test_require_accepts_the_schema_it_was_written_for_and_one_ahead(database_url: str) -> None:
    await required(database_url)
    await run(database_url, f"INSERT INTO rowlock.schema_steps VALUES ({migrate.newest() + 1}, 'next')")
    await required(database_url)
    assert (await migrate.status(database_url)).version == migrate.newest() + 1


async def test_require_refuses_two_ahead(database_url: str) -> None:
    await run(database_url, f"INSERT INTO rowlock.schema_steps VALUES ({migrate.newest() + 2}, 'next but one')")
    with pytest.raises(SchemaAhead, match="newer rowlock"):
        await required(database_url)


async def test_require_refuses_what_is_behind(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = migrate.newest()
    monkeypatch.setattr(migrate, "newest", lambda: newest + 1)
    with pytest.raises(SchemaBehind, match="rowlock schema upgrade"):
        await required(database_url)


async def test_require_names_the_missing_schema(empty_database_url: str) -> None:
    with pytest.raises(SchemaMissing, match="'elsewhere'"):
        await required(empty_database_url, "elsewhere")


@pytest.mark.parametrize("target", [-1, 10_000])
async def test_a_version_that_does_not_exist_is_refused(empty_database_url: str, target: int) -> None:
    with pytest.raises(ConfigurationError, match="schema version"):
        await migrate.upgrade(empty_database_url, to=target)


@pytest.fixture
def stranger(administrator: psycopg.Connection[Any]) -> Iterator[str]:
    """A role that may connect and nothing else."""
    name = f"stranger_{uuid.uuid4().hex}"
    administrator.execute(f"CREATE ROLE {name}")
    yield name
    administrator.execute(f"DROP ROLE {name}")


@pytest.fixture
def as_stranger(stranger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection of the code under test is that role's."""
    connect = Database.connect

    async def connected(self: Database, role: str, **options: bool) -> Any:  # noqa: ANN401 - a connection
        connection = await connect(self, role, **options)
        await connection.execute(f"SET ROLE {stranger}")
        return connection

    monkeypatch.setattr(Database, "connect", connected)


@pytest.mark.usefixtures("as_stranger")
async def test_missing_privileges_are_told_with_the_way_out(empty_database_url: str) -> None:
    with pytest.raises(DatabaseError, match="rowlock schema sql"):
        await migrate.upgrade(empty_database_url)


@pytest.mark.usefixtures("as_stranger")
async def test_a_worker_that_may_not_use_the_schema_is_told_what_to_grant(database_url: str) -> None:
    with pytest.raises(DatabaseError, match="grant it USAGE"):
        await required(database_url)


async def test_steps_say_which_code_runs_with_them(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything between two releases is upgraded under workers of the older one."""
    steps = {step.version: step.compatible_since for step in migrate.migrations()}
    assert {version: since for version, since in steps.items() if version > RELEASED} == {
        version: RELEASED for version in steps if version > RELEASED
    }, f"say in each step: -- For code made for version {RELEASED} or later."
    newest = migrate.newest()
    monkeypatch.setattr(migrate, "newest", lambda: RELEASED)
    await required(database_url)
    assert (await migrate.status(database_url)).compatible_since == RELEASED
    monkeypatch.setattr(migrate, "newest", lambda: RELEASED - 1)
    with pytest.raises(SchemaAhead, match=f"for code made for {RELEASED} or later; this code was made for 1"):
        await required(database_url)
    await run(database_url, f"INSERT INTO rowlock.schema_steps VALUES ({newest + 1}, 'breaks', now(), {newest})")
    monkeypatch.setattr(migrate, "newest", lambda: RELEASED)
    with pytest.raises(SchemaAhead, match=f"for code made for {newest} or later"):
        await required(database_url)

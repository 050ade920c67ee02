from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

import pytest
from tests.factories import opened

from rowlock.errors import ConfigurationError, DatabaseUnreachable, SchemaMissing, WriteRefused
from rowlock.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_connection_that_dies_inside_a_transaction_is_an_outage(database_url: str) -> None:
    database = Database(database_url)

    async def die() -> None:
        async with database.connection() as connection, connection.transaction():
            await connection.fetchval("SELECT pg_terminate_backend(pg_backend_pid())")
            await connection.fetchval("SELECT 1")

    with pytest.raises(DatabaseUnreachable):
        await die()
    await database.close()


BROKEN = """
CREATE FUNCTION public.audited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.no_such_table VALUES (1); RETURN NEW; END $$;
CREATE TRIGGER audited BEFORE INSERT ON rowlock.jobs FOR EACH ROW EXECUTE FUNCTION public.audited()
"""


async def test_the_error_of_a_trigger_is_told_as_that(database_url: str) -> None:
    """Not as tables of Rowlock that are missing, though the trigger misses one of its own."""
    async with opened(database_url) as store:
        await store.execute(BROKEN)
        says = r"no_such_table.*PL/pgSQL function (public\.)?audited\(\)"
        with pytest.raises(WriteRefused, match=says), store.database.translated():
            await store.enqueue()


async def test_the_error_of_a_constraint_names_it(database_url: str) -> None:
    async with opened(database_url) as store:
        await store.execute("ALTER TABLE {s}.jobs ADD CONSTRAINT cheap CHECK (priority < 5)")
        with pytest.raises(WriteRefused, match="constraint cheap of table jobs") as raised, store.database.translated():
            await store.enqueue(priority=9, tenant="a secret of the row")
        assert "secret" not in str(raised.value)


async def test_tables_that_are_missing_are_still_told_as_that(empty_database_url: str) -> None:
    database = Database(empty_database_url)
    with pytest.raises(SchemaMissing):
        await database.fetch("workers")
    await database.close()


CLOSED = "postgresql://ada@127.0.0.1:1/shop"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PGPASSWORD", ""),
        ("PGPASSFILE", "127.0.0.1:1:shop:ada:hunter2pw"),
        ("PGPASSFILE", "hunter2pw"),
        ("PGSERVICEFILE", "[shop]\nhost=127.0.0.1\nport=1\npassword=hunter2pw"),
        ("PGSERVICEFILE", "password=hunter2pw"),
        ("PGSERVICEFILE", "[shop]\npassword=100%hunter2pw"),
        ("PGSERVICEFILE", "[shop]\npassword=hunter2pw\npassword=hunter2pw"),
    ],
)
async def test_passwords_from_the_environment_and_its_files_reach_no_error_and_no_log(
    variable: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    file.chmod(0o600)
    monkeypatch.setenv(variable, str(file) if text else "hunter2pw")
    database = Database(f"{CLOSED}?service=shop" if variable == "PGSERVICEFILE" else CLOSED)
    with caplog.at_level(logging.DEBUG), pytest.raises((DatabaseUnreachable, ConfigurationError)) as raised:
        await database.fetch("workers")
    assert "hunter2pw" not in "".join(traceback.format_exception(raised.value))
    assert "hunter2pw" not in caplog.text
    await database.close()

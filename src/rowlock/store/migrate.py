"""Migrations: numbered SQL files, applied online, printable, reversible, verifiable.

The files are named NNNN_name.up.sql and NNNN_name.down.sql; {schema}.migrations records what was applied.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.errors import ConfigurationError, DatabaseError, SchemaAhead, SchemaBehind, SchemaMissing
from rowlock.store.database import Database, schema_missing
from rowlock.store.queries import checked_schema, quoted

if TYPE_CHECKING:
    from datetime import datetime

    from rowlock.store.database import Connection, Record

_FILE: Final = re.compile(r"(\d{4})_(\w+)\.up\.sql")
_LOCK_TRIES: Final = 30
# Two upgraders at once: the second waits for this lock, then finds nothing to do. "rowlock" in ASCII.
_UPGRADE_LOCK: Final = 0x726F776C6F636B


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step."""

    version: int
    name: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class Status:
    """Where a schema stands. version 0: no tables; applied_at of steps that are not applied is None."""

    version: int
    newest: int
    steps: tuple[tuple[int, str, datetime | None], ...]


def migrations() -> list[Migration]:
    """Every step this code ships, in order."""
    folder = resources.files("rowlock.store").joinpath("migrations")
    steps = []
    for file in folder.iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            down = folder.joinpath(file.name.replace(".up.", ".down.")).read_text(encoding="utf-8")
            steps.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"), down))
    return sorted(steps, key=lambda step: step.version)


def newest() -> int:
    """The schema version this code was written for."""
    return migrations()[-1].version


def sql(schema: str = "rowlock", *, since: int = 0, to: int | None = None) -> str:
    """The upgrade (or, with to < since, the downgrade) as one script for a DBA to read and run."""
    target = newest() if to is None else to
    head = [f"CREATE SCHEMA IF NOT EXISTS {quoted(checked_schema(schema))};", _ledger(schema)] if since == 0 else []
    parts = [_step_sql(step, schema, up=up) for step, up in _path(since, target)]
    # Without its ledger a schema counts as empty; an empty ledger left behind would stop the next upgrade.
    tail = [f"DROP TABLE {quoted(schema)}.migrations;"] if target == 0 < since else []
    return "\n\n".join(["BEGIN;", *head, *parts, *tail, "COMMIT;"]) + "\n"


async def upgrade(url: str, schema: str = "rowlock", *, to: int | None = None) -> list[int]:
    """Bring the schema to the newest (or the given) version; returns the versions applied now."""
    return await _move(url, schema, newest() if to is None else to, up=True)


async def downgrade(url: str, schema: str = "rowlock", *, to: int = 0) -> list[int]:
    """Undo the steps above `to`; returns the versions undone. Version 0 drops every table with its jobs."""
    return await _move(url, schema, to, up=False)


async def status(url: str, schema: str = "rowlock") -> Status:
    """Say which steps are applied."""
    connection = await Database(url, schema=schema).connect("schema", patient=True)
    try:
        applied = {row["version"]: row for row in await _applied(connection, schema)}
    finally:
        await connection.close()
    known = {step.version: step.name for step in migrations()}
    known |= {version: row["name"] for version, row in applied.items()}
    steps = tuple(
        (version, name, applied[version]["applied_at"] if version in applied else None)
        for version, name in sorted(known.items())
    )
    return Status(max(applied, default=0), newest(), steps)


async def index_args(url: str, schema: str = "rowlock", *, drop: bool = False) -> None:
    """Build the optional index on arguments, or drop it, while everybody works on; a broken one is built anew."""
    database = Database(url, schema=schema)
    connection = await database.connect("schema", direct=True, patient=True)
    try:
        await connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        valid = await connection.fetchval(database.statements["args_index"].dollar)
        if drop or valid is False:
            await connection.execute(database.statements["drop_args_index"].dollar)
        if not drop:
            await connection.execute(database.statements["create_args_index"].dollar)
    finally:
        await connection.close()


async def require(connection: Connection[Record], schema: str) -> None:
    """Refuse to work on a schema this code does not fit. One version ahead is fine: upgrades are made for it."""
    try:
        rows = await _applied(connection, schema)
    except asyncpg.InsufficientPrivilegeError as error:
        message = (
            f"The database user may not use schema {schema!r}: {error}. Let its owner grant it USAGE on the schema "
            "and SELECT, INSERT, UPDATE and DELETE on the tables in it."
        )
        raise DatabaseError(message) from error
    if not rows:
        raise schema_missing(schema)
    version = max(row["version"] for row in rows)
    if version < newest():
        message = (
            f"The schema {schema!r} is at version {version}, this code needs {newest()}. Upgrade it with: "
            "rowlock schema upgrade"
        )
        raise SchemaBehind(message)
    if version > newest() + 1:
        message = (
            f"The schema {schema!r} is at version {version}; this code knows {newest()} and runs on "
            f"{newest() + 1} at most. "
            "Install a newer rowlock."
        )
        raise SchemaAhead(message)


async def _move(url: str, schema: str, target: int, *, up: bool) -> list[int]:
    if not 0 <= target <= newest():
        message = f"A schema version from 0 to {newest()} is expected, got {target}."
        raise ConfigurationError(message)
    connection = await Database(url, schema=schema).connect("schema", patient=True)
    try:
        for left in range(_LOCK_TRIES, 0, -1):
            try:
                return await _move_once(connection, schema, target, up=up)
            except asyncpg.LockNotAvailableError:
                # Somebody's long transaction holds a table. Waiting behind it would make every enqueue wait behind us.
                if left == 1:
                    raise
                await asyncio.sleep(1)
    except asyncpg.InsufficientPrivilegeError as error:
        message = (
            f"The database user may not change schema {schema!r}: {error}. Print the SQL for your DBA with: "
            "rowlock schema sql"
        )
        raise DatabaseError(message) from error
    finally:
        await connection.close()
    return []


async def _move_once(connection: Connection[Record], schema: str, target: int, *, up: bool) -> list[int]:
    async with connection.transaction():
        await connection.execute(
            "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = warning"
        )
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _UPGRADE_LOCK)
        version = max((row["version"] for row in await _applied(connection, schema)), default=0)
        path = [(step, step_up) for step, step_up in _path(version, target) if step_up == up]
        if path and up and version == 0:
            if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quoted(schema)):
                await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
            await connection.execute(_ledger(schema))
        for step, step_up in path:
            await connection.execute(_step_sql(step, schema, up=step_up))
        if path and not up and target == 0:
            await connection.execute(f"DROP TABLE {quoted(schema)}.migrations")
            await _drop_if_empty(connection, schema)
        return [step.version for step, _ in path]


async def _drop_if_empty(connection: Connection[Record], schema: str) -> None:
    """Take the schema away too, unless somebody else made it or has something in it."""
    own = await connection.fetchval(
        "SELECT pg_get_userbyid(nspowner) = current_user FROM pg_namespace WHERE nspname = $1", schema
    )
    if own and schema != "public":
        with contextlib.suppress(asyncpg.DependentObjectsStillExistError):
            async with connection.transaction():
                await connection.execute(f"DROP SCHEMA {quoted(schema)}")


def _path(version: int, target: int) -> list[tuple[Migration, bool]]:
    if target >= version:
        return [(step, True) for step in migrations() if version < step.version <= target]
    return [(step, False) for step in reversed(migrations()) if target < step.version <= version]


def _step_sql(step: Migration, schema: str, *, up: bool) -> str:
    text = (step.up if up else step.down).replace("{schema}", quoted(schema)).strip()
    ledger = f"{quoted(schema)}.migrations"
    mark = (
        f"INSERT INTO {ledger} (version, name) VALUES ({step.version}, '{step.name}');"
        if up
        else f"DELETE FROM {ledger} WHERE version = {step.version};"
    )
    return f"{text}\n\n{mark}"


def _ledger(schema: str) -> str:
    return (
        f"CREATE TABLE {quoted(schema)}.migrations "
        "(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());"
    )


async def _applied(connection: Connection[Record], schema: str) -> list[Record]:
    ledger = f"{quoted(schema)}.migrations"
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", ledger):
        return []
    return await connection.fetch(f"SELECT version, name, applied_at FROM {ledger} ORDER BY version")


async def verify(url: str, schema: str = "rowlock") -> list[str]:
    """What differs between this schema and a freshly made one; empty: nothing.

    The fresh one is built in a transaction that is rolled back, so the comparison needs no second database.
    """
    connection = await Database(url, schema=schema).connect("schema", patient=True)
    try:
        rows = await _applied(connection, schema)
        if not rows:
            raise schema_missing(schema)
        transaction = connection.transaction()
        await transaction.start()
        try:
            fresh = f"{schema[:20]}_{uuid.uuid4().hex[:12]}"  # nobody's schema, and at most 63 bytes
            await connection.execute(f"SET LOCAL client_min_messages = warning; CREATE SCHEMA {quoted(fresh)}")
            await connection.execute(_ledger(fresh))
            for step, _ in _path(0, min(newest(), max(row["version"] for row in rows))):
                await connection.execute(_step_sql(step, fresh, up=True))
            found, wanted = await _shape(connection, schema), await _shape(connection, fresh)
        finally:
            await transaction.rollback()
    finally:
        await connection.close()
    return [f"missing: {item}" for item in sorted(wanted - found)] + [
        f"unexpected: {item}" for item in sorted(found - wanted)
    ]


async def _shape(connection: Connection[Record], schema: str) -> set[str]:
    await connection.execute(f"SET LOCAL search_path = {quoted(schema)}")
    rows = await connection.fetch(Database("postgresql://-", schema=schema).statements["shape"].dollar, schema)
    return {row["item"] for row in rows}


__all__ = [
    "Migration",
    "SchemaMissing",
    "Status",
    "downgrade",
    "index_args",
    "migrations",
    "newest",
    "require",
    "sql",
    "status",
    "upgrade",
    "verify",
]

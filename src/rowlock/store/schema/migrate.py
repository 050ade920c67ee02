"""Migrations: the numbered steps of the schema, applied online, printable, reversible, verifiable.

The table schema_steps records which were applied. A step waits only briefly for its locks and tries again, so that no
enqueue queues up behind it; indexes that it adds to tables in use are built beforehand, concurrently.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from rowlock.errors import ConfigurationError, DatabaseError, SchemaAhead, SchemaBehind, SchemaMissing
from rowlock.store.database import Database, schema_missing
from rowlock.store.queries import quoted
from rowlock.store.schema.migration_files import (
    FIRST_LEDGER,
    LEDGER,
    LOCK_WAIT,
    Migration,
    ledger,
    migrations,
    newest,
    path,
    removal,
)
from rowlock.store.schema.migration_files import script as sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime

    from rowlock.store.database import Connection, Record
    from rowlock.store.schema.migration_files import Index

logger = logging.getLogger("rowlock.schema")
_LOCK_TRIES: Final = 90
_PAUSE: Final = 0.8
_CONNECTION_CHECK: Final = "2s"
"""How soon the server notices that the client of an upgrade is gone."""
_AGAIN: Final = "again"
"""The name of a view while its definition is parsed once more."""
_TIMES_PARSED: Final = 2
"""How often: after that PostgreSQL prints what it was given."""
_WARN_AFTER: Final = 10
"""Tries after which a warning names the transaction that is waited for."""
# Two upgraders at once: the second waits for this lock, then finds nothing to do. "rowlock" in ASCII.
UPGRADE_LOCK: Final = 0x726F776C6F636B


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The version of a schema. version 0: no tables; steps: (version, name, applied_at), None: not applied."""

    version: int
    newest: int
    compatible_since: int
    """The oldest code that runs on it, by the schema version which that code was made for."""
    steps: tuple[tuple[int, str, datetime | None], ...]


async def upgrade(url: str | Database, schema: str = "rowlock", *, to: int | None = None) -> list[int]:
    """Bring the schema to the newest (or the given) version; returns the versions applied now."""
    return await _move(url, schema, newest() if to is None else to, up=True)


async def downgrade(url: str | Database, schema: str = "rowlock", *, to: int = 0) -> list[int]:
    """Undo the steps above `to`; returns the versions undone. Version 0 drops every table with its jobs."""
    return await _move(url, schema, to, up=False)


async def status(url: str | Database, schema: str = "rowlock") -> SchemaStatus:
    """Say which steps are applied."""
    database = _located(url, schema)
    connection = await database.connect("schema", patient=True)
    try:
        applied = {row["version"]: row for row in await _applied(connection, database.schema)}
    finally:
        await connection.close()
    known = {step.version: step.name for step in migrations()}
    known |= {version: row["name"] for version, row in applied.items()}
    steps = tuple(
        (version, name, applied[version]["applied_at"] if version in applied else None)
        for version, name in sorted(known.items())
    )
    since = max((row["compatible_since"] for row in applied.values()), default=0)
    return SchemaStatus(max(applied, default=0), newest(), since, steps)


async def index_args(url: str | Database, schema: str = "rowlock", *, drop: bool = False) -> None:
    """Build the optional index on arguments, or drop it, without blocking anybody; an invalid one is rebuilt."""
    database = _located(url, schema)
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


async def version_of(connection: Connection[Record], schema: str) -> int:
    """The version of the schema's tables; 0: there are none."""
    return max((row["version"] for row in await _applied(connection, schema)), default=0)


async def require(connection: Connection[Record], schema: str) -> None:
    """Refuse a schema that does not fit this code. A newer one is fine if its steps allow code of this version."""
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
    since = max(row["compatible_since"] for row in rows)
    if since > newest():
        raise ahead(schema, since)


def ahead(schema: str, since: int) -> SchemaAhead:
    """The error for a schema that needs newer code."""
    message = (
        f"The schema {schema!r} is for code made for {since} or later; this code was made for {newest()}. "
        "Install a newer rowlock."
    )
    return SchemaAhead(message)


def _located(url: str | Database, schema: str) -> Database:
    """The database by its URL and schema, or one that is known, with its own schema and past its pooler."""
    return Database(url, schema=schema) if isinstance(url, str) else url.past_pooler()


async def _move(url: str | Database, schema: str, target: int, *, up: bool) -> list[int]:
    if not 0 <= target <= newest():
        message = f"A schema version from 0 to {newest()} is expected, got {target}."
        raise ConfigurationError(message)
    database = _located(url, schema)
    connection = await database.connect("schema", patient=True)
    try:
        await connection.execute("SET statement_timeout = 0; SET lock_timeout = 0; SET client_min_messages = warning")
        with contextlib.suppress(asyncpg.PostgresError):  # not supported on every platform
            # Else an upgrade that was killed would keep waiting for a lock, and the next upgrade for that one.
            await connection.execute(f"SET client_connection_check_interval = '{_CONNECTION_CHECK}'")
        with database.translated():
            async with _one_upgrader(connection):
                return await _Mover(database, connection).move(target, up=up)
    except asyncpg.InsufficientPrivilegeError as error:
        message = (
            f"The database user may not change schema {database.schema!r}: {error}. Print the SQL for your DBA with: "
            "rowlock schema sql"
        )
        raise DatabaseError(message) from error
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _one_upgrader(connection: Connection[Record]) -> AsyncIterator[None]:
    """Let one upgrader work at a time.

    The others poll: while a statement of theirs waited for a lock, no index could be built concurrently.
    """
    tries = 0
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", UPGRADE_LOCK):
        tries += 1
        if tries % 100 == _WARN_AFTER:
            logger.warning("another upgrade is under way; waiting for its end")
        await asyncio.sleep(0.2)
    try:
        yield
    finally:
        # The session's end would release it, but a pooler may keep the session.
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.execute(f"SELECT pg_advisory_unlock({UPGRADE_LOCK})")


class _Mover:
    """Applies step after step on one connection; after an interruption the next upgrade continues there."""

    def __init__(self, database: Database, connection: Connection[Record]) -> None:
        self._database, self._connection, self._schema = database, connection, database.schema

    async def move(self, target: int, *, up: bool) -> list[int]:
        version = max((row["version"] for row in await _applied(self._connection, self._schema)), default=0)
        steps = [step for step, step_up in path(version, target) if step_up == up]
        if up and version == 0:
            await self._with_short_locks(lambda: self._create_all(steps))
            return [step.version for step in steps]
        if up:
            # Indexes of earlier steps, too: the next upgrade repairs one that became invalid.
            for step, _ in path(0, version):
                await self._build(step.indexes)
        for step in steps:
            await self._build(step.indexes if up else step.restored)
            await self._with_short_locks(lambda step=step: self._apply(step, up=up, last=target == 0))  # type: ignore[misc]
        return [step.version for step in steps]

    async def _create_all(self, steps: Sequence[Migration]) -> None:
        """Create everything in one transaction where there are no tables yet: nobody uses them."""
        if not steps:
            return
        if not await self._connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quoted(self._schema)):
            await self._connection.execute(f"CREATE SCHEMA {quoted(self._schema)}")
        await self._connection.execute(ledger(self._schema))
        for step in steps:
            await self._connection.execute(step.sql(self._schema, up=True, whole=True))

    async def _apply(self, step: Migration, *, up: bool, last: bool) -> None:
        await self._connection.execute(step.sql(self._schema, up=up))
        if last and not up and step.version == 1:
            await self._connection.execute(removal(self._schema))
            await _drop_if_empty(self._connection, self._schema)

    async def _with_short_locks(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run in a transaction that waits only briefly for locks: every enqueue would queue up behind it."""
        for tried in range(1, _LOCK_TRIES + 1):
            try:
                async with self._connection.transaction():
                    await self._connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
                    return await work()
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
                if tried == _LOCK_TRIES:
                    message = (
                        f"The tables of schema {self._schema!r} are in use by {await self._holders()}. The step was "
                        "not applied. End that transaction, then try again."
                    )
                    raise DatabaseError(message) from error
                if tried == _WARN_AFTER:
                    logger.warning("the tables are in use by %s; trying again", await self._holders())
                await asyncio.sleep(_PAUSE)
        return None

    async def _holders(self) -> str:
        rows = await self._connection.fetch(self._database.statements["lock_holders"].dollar, self._schema)
        return ", ".join(f"process {row['pid']} ({row['who']}, for {row['age']})" for row in rows) or "a transaction"

    async def _build(self, indexes: Sequence[Index]) -> None:
        """Build the indexes that are missing; an invalid one, left by an interruption, is dropped and rebuilt."""
        for index in indexes:
            while (valid := await self._valid(index)) is not True:
                if valid is False:
                    name = f"{quoted(self._schema)}.{quoted(index.name)}"
                    await self._connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
                await self._connection.execute(index.sql(self._schema))

    async def _valid(self, index: Index) -> bool | None:
        """Whether the index is valid; None: there is no such index."""
        valid: bool | None = await self._connection.fetchval(
            self._database.statements["index_valid"].dollar, self._schema, index.name
        )
        return valid


async def _drop_if_empty(connection: Connection[Record], schema: str) -> None:
    """Drop the schema, unless another role owns it or it holds other objects."""
    own = await connection.fetchval(
        "SELECT pg_get_userbyid(nspowner) = current_user FROM pg_namespace WHERE nspname = $1", schema
    )
    if own and schema != "public":
        with contextlib.suppress(asyncpg.DependentObjectsStillExistError):
            async with connection.transaction():
                await connection.execute(f"DROP SCHEMA {quoted(schema)}")


async def _applied(connection: Connection[Record], schema: str) -> list[Record]:
    newer, first = (f"{quoted(schema)}.{name}" for name in (LEDGER, FIRST_LEDGER))
    there = await connection.fetchrow("SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL", newer, first)
    if there is None or not any(there):
        return []
    since = "coalesce(m.compatible_since, m.version - 1)" if there[0] else "m.version - 1"
    return await connection.fetch(
        f"SELECT m.version, m.name, m.applied_at, {since} AS compatible_since "
        f"FROM {newer if there[0] else first} m ORDER BY m.version"
    )


async def verify(url: str | Database, schema: str = "rowlock") -> list[str]:
    """The differences between this schema and a freshly made one; empty: none.

    The fresh one is built in a transaction that is rolled back, so the comparison needs no second database.
    """
    database = _located(url, schema)
    schema = database.schema
    connection = await database.connect("schema", patient=True)
    try:
        rows = await _applied(connection, schema)
        if not rows:
            raise schema_missing(schema)
        transaction = connection.transaction()
        await transaction.start()
        try:
            fresh = f"{schema[:20]}_{uuid.uuid4().hex[:12]}"  # unused, and at most 63 bytes
            await connection.execute(f"SET LOCAL client_min_messages = warning; CREATE SCHEMA {quoted(fresh)}")
            await connection.execute(ledger(fresh))
            for step, _ in path(0, min(newest(), max(row["version"] for row in rows))):
                await connection.execute(step.sql(fresh, up=True, whole=True))
            invalid = await connection.fetch(database.statements["invalid_indexes"].dollar, schema)
            found = await _shape(connection, schema) | await _views(connection, schema, fresh)
            wanted = await _shape(connection, fresh) | await _views(connection, fresh, fresh)
        finally:
            await transaction.rollback()
    finally:
        await connection.close()
    return [
        *(f"invalid: index {row['name']}, whose building broke off; {_repair(row['name'])}" for row in invalid),
        *(f"missing: {item}" for item in sorted(wanted - found)),
        *(f"unexpected: {item}" for item in sorted(found - wanted)),
    ]


def _repair(index: str) -> str:
    if index == "jobs_args":
        return "rowlock schema index args"
    own = {index.name for step in migrations() for index in step.indexes}
    return "rowlock schema upgrade" if index in own else "REINDEX INDEX CONCURRENTLY it, or drop it"


async def _shape(connection: Connection[Record], schema: str) -> set[str]:
    await connection.execute(f"SET LOCAL search_path = {quoted(schema)}")
    rows = await connection.fetch(Database("postgresql://-", schema=schema).statements["shape"].dollar, schema)
    return {row["item"] for row in rows}


async def _views(connection: Connection[Record], schema: str, scratch: str) -> set[str]:
    """One line per view, made from its definition in a normal form.

    PostgreSQL prints the view that a dump restored with other casts and brackets than the one that was dumped: it
    parsed its own text. So both are printed after PostgreSQL has parsed its own text, in the schema `scratch`.
    """
    await connection.execute(f"SET LOCAL search_path = {quoted(schema)}")
    found = set()
    for row in await connection.fetch(Database("postgresql://-", schema=schema).statements["views_of"].dollar, schema):
        again, definition = f"{quoted(scratch)}.{quoted(_AGAIN)}", row["definition"]
        for _ in range(_TIMES_PARSED):
            await connection.execute(f"CREATE VIEW {again} AS {definition}")
            definition = await connection.fetchval("SELECT pg_get_viewdef($1::text::regclass)", again)
            await connection.execute(f"DROP VIEW {again}")
        found.add(f"view {row['name']} {hashlib.md5(definition.encode(), usedforsecurity=False).hexdigest()}")
    return found


__all__ = [
    "Migration",
    "SchemaMissing",
    "SchemaStatus",
    "ahead",
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

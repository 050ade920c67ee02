"""Rowlock's tables as revisions of Alembic, inside Alembic's own transaction.

    from rowlock.contrib import alembic as rowlock_tables

    def upgrade() -> None:
        rowlock_tables.upgrade(to=23)

    def downgrade() -> None:
        rowlock_tables.downgrade(since=23, to=0)

`rowlock schema status` prints the version that the installed code needs: a later one is one further revision, with
upgrade(since=23, to=25) and downgrade(since=25, to=23). create_lane() and set_role() seed lanes and roles. In env.py,
include_name() keeps autogenerate off the tables.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final, cast

from rowlock.desk import lanes
from rowlock.errors import ConfigurationError, DatabaseError, MissingExtra
from rowlock.model.access import permissions_of
from rowlock.settings import Settings
from rowlock.store import caller_transaction
from rowlock.store.lanes import columns_of
from rowlock.store.queries import Statements, quoted
from rowlock.store.schema import migration_files
from rowlock.store.schema.migrate import UPGRADE_LOCK
from rowlock.store.schema.migration_files import FIRST_LEDGER, LEDGER, LOCK_WAIT

try:
    from alembic import context, op
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "alembic":
        raise
    raise MissingExtra("alembic", "alembic") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from alembic.runtime.migration import MigrationContext

    from rowlock.model.lane import LaneOrder
    from rowlock.model.options import Span
    from rowlock.store.callers.protocol import SyncCaller
    from rowlock.store.schema.migration_files import Index, Migration

logger = logging.getLogger("rowlock.schema")
_TRIES: Final = 90
_PAUSE: Final = 0.8
_LOCKED: Final = frozenset({"55P03", "40P01"})
"""SQLSTATE of a lock that was not granted in time, and of a deadlock."""


def upgrade(to: int | None = None, *, since: int = 0, schema: str = "rowlock", concurrently: bool = True) -> None:
    """Bring the tables to version `to`, None for the newest. Finds nothing to do where they are there already.

    since: the version before, for offline SQL; online the database is asked. concurrently: indexes on tables that are
    in use are built outside the transaction, which Alembic ends before and begins anew after; False: inside it, and
    writers wait.
    """
    target = _checked(migration_files.newest() if to is None else to)
    move = _Move(schema, concurrently=concurrently)
    version = move.version(_checked(since))
    if version < target:
        move.create(target) if version == 0 else move.steps(version, target)


def downgrade(to: int = 0, *, since: int | None = None, schema: str = "rowlock", concurrently: bool = True) -> None:
    """Undo the steps above version `to`; 0 removes the tables with their jobs, and the schema if it is empty then.

    since: the version before, None for the newest; as in upgrade().
    """
    target = _checked(to)
    # A table that is about to be dropped needs no index that spares its writers.
    move = _Move(schema, concurrently=concurrently and target > 0)
    version = move.version(_checked(migration_files.newest() if since is None else since))
    if version > target:
        move.steps(version, target)
        if target == 0:
            move.remove()


def include_name(
    schema: str = "rowlock", own: Callable[[str | None, Any, Mapping[Any, str | None]], bool] | None = None
) -> Callable[[str | None, Any, Mapping[Any, str | None]], bool]:
    """For context.configure(include_name=…): autogenerate leaves Rowlock's schema alone.

    Where the schema is that of your own tables too, Rowlock's are left alone by their names. own: your function of that
    sort, asked about everything else.
    """
    tables = migration_files.tables()

    def included(name: str | None, type_: str, parents: Mapping[Any, str | None]) -> bool:
        # Alembic names the schema that comes first in the search path None.
        default = context.get_context().dialect.default_schema_name
        ours = name == schema if type_ == "schema" else type_ == "table" and name in tables
        if ours and schema == (name if type_ == "schema" else parents.get("schema_name") or default):
            return False
        return own is None or own(name, type_, parents)

    return included


def create_lane(
    name: str,
    *,
    kinds: Sequence[str] = (),
    slots: int = 10,
    max_total: int | None = None,
    order: LaneOrder = "fast",
    poll_interval: Span = "5s",
    heartbeat_timeout: Span = "60s",
    progress_timeout: Span | None = None,
    schema: str = "rowlock",
) -> None:
    """Create a lane if it is absent, with the keywords of `app.lanes.define()`; operators edit it afterwards.

    A lane of this name in ROWLOCK_LANES is created as the environment has it, as by a starting worker.
    """
    lane = lanes.new_lane(
        name,
        kinds,
        slots=slots,
        max_total=max_total,
        order=order,
        poll_interval=poll_interval,
        heartbeat_timeout=heartbeat_timeout,
        progress_timeout=progress_timeout,
        rate=None,
        aging_interval=None,
    )
    given = {each.name: each for each in Settings.from_env(os.environ).lanes}
    seed = _Seed(schema)
    created = given.get(name, lane)
    if seed.run("lane_add", **columns_of(created)):
        seed.run("lane_drop_kinds", name=name, kinds=list(created.kinds))
        seed.run("lane_cap", name=name)


def delete_lane(name: str, *, schema: str = "rowlock") -> None:
    """Remove a lane, for downgrade(). One in which jobs run stays."""
    _Seed(schema).run("lane_delete", name=name)


def set_role(name: str, permissions: Iterable[str], *, schema: str = "rowlock") -> None:
    """Create a role, or replace its permissions."""
    _Seed(schema).run("role_set", name=name, permissions=sorted(permissions_of(permissions)))


def delete_role(name: str, *, schema: str = "rowlock") -> None:
    """Remove a role and its grants, for downgrade()."""
    _Seed(schema).run("role_delete", name=name)


class _Seed:
    """Rows of Rowlock's tables, written in Alembic's transaction."""

    def __init__(self, schema: str) -> None:
        if op.get_context().as_sql:
            message = "Lanes and roles are seeded online: run alembic upgrade without --sql."
            raise ConfigurationError(message)
        self._statements = Statements(schema)

    def run(self, statement: str, **values: object) -> list[Sequence[object]]:
        caller = cast("SyncCaller", caller_transaction.join(op.get_bind()))
        return caller.run(self._statements[statement], values)


def _checked(version: int) -> int:
    if not 0 <= version <= migration_files.newest():
        message = (
            f"A schema version from 0 to {migration_files.newest()} is expected, got {version}. A newer one needs a "
            "newer rowlock."
        )
        raise ConfigurationError(message)
    return version


class _Move:
    """The steps of one revision, run on Alembic's connection or, offline, written to its output."""

    def __init__(self, schema: str, *, concurrently: bool) -> None:
        self._statements, self._schema, self._concurrently = Statements(schema), schema, concurrently
        try:
            self._context: MigrationContext = op.get_context()
        except (NameError, AttributeError) as error:  # Alembic's own ways to say it, before and after a revision
            message = (
                "upgrade() and downgrade() of rowlock.contrib.alembic run inside a revision: call them in its "
                "upgrade() and downgrade(), and run `alembic upgrade head`. Without Alembic: rowlock schema upgrade."
            )
            raise ConfigurationError(message) from error
        if self._context.dialect.name != "postgresql":
            message = f"Rowlock's tables are for PostgreSQL; this revision runs on {self._context.dialect.name}."
            raise ConfigurationError(message)

    @property
    def _offline(self) -> bool:
        return self._context.as_sql

    def version(self, offline: int) -> int:
        """The version of the tables: 0 for none. Lets no other upgrade run meanwhile."""
        if self._offline:
            return offline
        self._become_the_upgrader()
        names = {key: f"{quoted(self._schema)}.{name}" for key, name in (("newer", LEDGER), ("first", FIRST_LEDGER))}
        ((newer, first),) = self._ask("ledgers_there", **names)
        if not newer and not first:
            return 0
        ((version,),) = self._ask("newest_step" if newer else "newest_first_step")
        return cast("int", version) or 0

    def create(self, target: int) -> None:
        """Make everything at once where there is nothing yet."""
        self._with_short_locks(migration_files.creation(self._schema, target))

    def steps(self, version: int, target: int) -> None:
        """Apply or undo one step after the other."""
        for step, up in migration_files.path(version, target):
            indexes = step.indexes if up else step.restored
            if self._concurrently and indexes:
                self._build_online(indexes)
            self._with_short_locks(self._texts(step, up=up))

    def _texts(self, step: Migration, *, up: bool) -> list[str]:
        indexes = () if self._concurrently else step.indexes if up else step.restored
        return [*(index.plain_sql(self._schema) for index in indexes), step.sql(self._schema, up=up)]

    def remove(self) -> None:
        """Drop the ledger, and the schema unless other objects are in it."""
        self._run([migration_files.removal(self._schema)])
        droppable = not self._offline and bool(self._ask("schema_droppable", schema=self._schema)[0][0])
        if droppable:
            self._run([f"DROP SCHEMA {quoted(self._schema)};"])

    def _build_online(self, indexes: Sequence[Index]) -> None:
        with self._context.autocommit_block():
            for index in indexes:
                found = [] if self._offline else self._ask("index_valid", schema=self._schema, index=index.name)
                if found and not found[0][0]:
                    name = f"{quoted(self._schema)}.{quoted(index.name)}"
                    self._run([f"DROP INDEX CONCURRENTLY IF EXISTS {name};"])
                self._run([index.online_sql(self._schema)])
        if not self._offline:
            self._become_the_upgrader()  # the commit before the block has released the lock

    def _become_the_upgrader(self) -> None:
        for tried in range(10 * _TRIES):
            if self._ask("try_upgrade_lock", key=UPGRADE_LOCK)[0][0]:
                return
            if tried == _TRIES:
                logger.warning("another upgrade is under way; waiting for its end")
            time.sleep(0.1)
        message = "Another upgrade of Rowlock's tables is under way and does not end. Try again after it."
        raise DatabaseError(message)

    def _with_short_locks(self, texts: Sequence[str]) -> None:
        """Run in a savepoint that waits only briefly for locks: every enqueue would queue up behind it."""
        if self._offline:
            return self._run(texts)
        for tried in range(1, _TRIES + 1):
            try:
                with self._lock_timeout(), op.get_bind().begin_nested():
                    return self._run(texts)
            except Exception as error:
                if _state(error) not in _LOCKED:
                    raise
                if tried == _TRIES:
                    message = (
                        f"The tables of schema {self._schema!r} are in use by a transaction that does not end. The "
                        "revision was not applied. End that transaction, then try again."
                    )
                    raise DatabaseError(message) from error
            time.sleep(_PAUSE)
        return None

    @contextlib.contextmanager
    def _lock_timeout(self) -> Iterator[None]:
        """LOCK_WAIT for the block; then what the rest of the revision had before."""
        (row,) = op.get_bind().exec_driver_sql("SELECT current_setting('lock_timeout')").all()
        op.get_bind().exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
        try:
            yield
        finally:
            op.get_bind().exec_driver_sql(f"SET LOCAL lock_timeout = '{row[0]}'")

    def _run(self, texts: Sequence[str]) -> None:
        for text in texts:
            for statement in migration_files.statements(text):
                if self._offline:
                    self._context.impl.static_output(f"{statement};\n")
                else:
                    # Without parameters: then no driver reads % or $1 in a function's body.
                    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})

    def _ask(self, name: str, **values: object) -> list[Sequence[Any]]:
        caller = cast("SyncCaller", caller_transaction.join(op.get_bind()))
        return caller.run(self._statements[name], values)


def _state(error: BaseException) -> str | None:
    """The SQLSTATE of a driver's error, which SQLAlchemy wraps."""
    driver = getattr(error, "orig", error)
    return getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)

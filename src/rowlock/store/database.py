"""Database: one PostgreSQL database and schema. Opens connections per role, keeps a small pool per event loop."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import os
import re
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

import asyncpg

from rowlock.errors import (
    ConfigurationError,
    DatabaseBusy,
    DatabaseUnreachable,
    NotifyQueueFull,
    SchemaBehind,
    SchemaMissing,
    Unstorable,
    WriteRefused,
)
from rowlock.model import redact
from rowlock.model.database_url import plain_url, shown, without_passwords
from rowlock.store.driver import array_types, session_settings, tcp_timeouts
from rowlock.store.driver import password as passwords
from rowlock.store.driver.hosts import Hosts
from rowlock.store.driver.lock_wait import BRIEF, CONFLICTS, LockWait, busy, lock_timeout
from rowlock.store.driver.pinned_connection import PinnedConnection
from rowlock.store.driver.pool import Pool
from rowlock.store.driver.server_warnings import ServerWarnings
from rowlock.store.driver.statement_check import SILENCE, check_statement
from rowlock.store.executor import SqlSession
from rowlock.store.queries import Statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rowlock.store.driver.password import Password
    from rowlock.store.queries import Statement

T = TypeVar("T")
Connection = asyncpg.Connection
Record = asyncpg.Record

_CALL_SECONDS: Final = 35.0
_CONNECT_SECONDS: Final = 10.0
_POOL_SIZE: Final = 4
_UPKEEP_LOCK_WAIT: Final = 0.5
"""Seconds that a statement for many rows waits for one of them; it is run in parts then."""
_LONGEST_REASON: Final = 300
_FUNCTION: Final = re.compile(r"[^:]*\bPL/\w+|SQL function")
"""A line of an error's context that names a function, in whatever language the server speaks."""

# The server went away, refuses connections, or turned read-only after a failover: worth another try elsewhere or later.
OUTAGE: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
    # asyncpg raises it on a connection whose server has just gone away.
    asyncpg.InternalClientError,
    DatabaseUnreachable,
)
# The connection broke, or time ran out, before the answer came: the statement may or may not have been executed.
_UNANSWERED: Final = (OSError, TimeoutError, asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError)
RACES: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.UniqueViolationError)
"""Another transaction came first: the same statement finds its result."""
LOCKED: Final = (asyncpg.LockNotAvailableError, DatabaseBusy)
"""Another transaction held a lock for longer than this session waits."""
# The statement lost a race: running it again is right.
TRANSIENT: Final = (*RACES, *LOCKED, asyncpg.QueryCanceledError)

_NO_SCHEMA: Final = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError)
_UNFIT: Final = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)
UNSTORABLE: Final = (*_UNFIT, Unstorable)
"""The database cannot store a value: the same statement will never succeed."""
UNSERVED: Final = (*OUTAGE, NotifyQueueFull, SchemaMissing, SchemaBehind)
"""No statement of this sort succeeds now, whatever its rows: worth waiting for, and nothing is gained by other rows."""


def _first_outage(error: BaseException) -> BaseException:
    """Why a connection closed, behind the ends of (nested) transactions that failed because it is closed."""
    cause: BaseException | None = error
    while isinstance(cause, asyncpg.InterfaceError):
        cause = cause.__context__
    return cause if isinstance(cause, OUTAGE) else error


class Database:
    """Connections to one database and schema, for any number of event loops."""

    _session_attributes: ClassVar = "read-write"
    """Which server is wanted where the URL names several."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "rowlock",
        direct_url: str | None = None,
        pooled: bool = False,
        password: Password | None = None,
    ) -> None:
        """password: a function that is asked for every new connection; it wins over the URL, and may be a string."""
        self.url = plain_url(url)
        self.direct_url = plain_url(direct_url) if direct_url else self.url
        self.password = password
        self._hosts = Hosts(self.url, self._session_attributes)
        self._direct_hosts = Hosts(self.direct_url, self._session_attributes)
        self.pooled = pooled
        self.statements = Statements(schema)
        self.schema = schema
        self.channel = self.statements.channel
        self.warnings = ServerWarnings()
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = weakref.WeakKeyDictionary()
        self._last: tuple[asyncio.AbstractEventLoop, Pool] | None = None
        self._companions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[type, object]]
        self._companions = weakref.WeakKeyDictionary()
        self._pid = os.getpid()
        self._behind_pooler = pooled
        """Whether the server cannot be asked about our connections, because a pooler stands in between."""

    async def connect(
        self,
        role: str,
        *,
        guarded: bool = False,
        direct: bool = False,
        patient: bool = False,
        lock_wait: float | None = None,
    ) -> Connection[Record]:
        """Open a connection. role: shown in application_name; guarded: with GUARDS, for a worker's statements.

        direct: past the pooler, for LISTEN and locks; patient: without a time limit per call, for migrations;
        lock_wait: seconds that a statement waits for a lock at most.
        """
        through_pooler = self.pooled and not direct
        settings = {} if through_pooler else session_settings.at_start(role, guarded=guarded)
        longest = None if lock_wait is None else lock_timeout(lock_wait)
        if longest is not None and not through_pooler:
            settings["lock_timeout"] = longest
        try:
            connection = await self._dial(
                self._direct_hosts if direct else self._hosts,
                command_timeout=None if patient else _CALL_SECONDS,
                statement_cache_size=0 if through_pooler else 100,
                server_settings=settings,
                connection_class=PinnedConnection if through_pooler else asyncpg.Connection,
            )
        except asyncpg.exceptions.ClientConfigurationError as error:
            message = f"The database URL {shown(self.url)!r} cannot be used: {without_passwords(str(error), self.url)}."
            raise ConfigurationError(message) from None
        except DatabaseUnreachable:
            raise
        except (*OUTAGE, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
            raise unreachable(self.url, error) from error
        except (configparser.Error, ValueError) as error:
            # Their texts may quote a line with the password; so would the traceback.
            message = (
                f"The database URL {shown(self.url)!r} cannot be used, or the service file or password file for it "
                f"cannot be read: {type(error).__name__}. Check the port, PGSERVICEFILE and PGPASSFILE; a % in a "
                "service file is written %%."
            )
            raise ConfigurationError(message) from None
        if through_pooler:
            # Not isinstance(), to which asyncpg answers that every connection is one.
            cast("PinnedConnection", connection).pin(longest)
        connection.add_log_listener(self.warnings)
        array_types.register(connection)
        tcp_timeouts.apply(connection)
        if not through_pooler:
            try:
                await session_settings.complete(connection)
            except BaseException as error:
                connection.terminate()
                if isinstance(error, (*OUTAGE, asyncpg.InterfaceError)):
                    raise unreachable(self.url, error) from error
                raise
        return connection

    async def _dial(self, hosts: Hosts, **options: Any) -> Connection[Record]:  # noqa: ANN401 - the driver's
        """Connect to the first of the hosts that fits, within _CONNECT_SECONDS for all of them together."""
        if self.password is not None:
            async with asyncio.timeout(_CONNECT_SECONDS):
                options["password"] = await passwords.current(self.password)
        for left in reversed(range(len(hosts))):
            try:
                return await asyncpg.connect(hosts.url, timeout=_CONNECT_SECONDS / len(hosts), **options)
            except TimeoutError:
                hosts.pass_on()
                if not left:
                    raise
        raise AssertionError

    def past_pooler(self) -> Database:
        """The same database without the pooler: a migration holds a session's lock."""
        return Database(self.direct_url, schema=self.schema, password=self.password)

    @contextlib.asynccontextmanager
    async def connection(self, *, watched: bool = False) -> AsyncIterator[Connection[Record]]:
        """Lend a connection of this loop's pool; database errors come out translated.

        watched: the block does nothing but run statements, so that a long silence is checked with the server.
        """
        pool = self._pool()
        with self.translated():
            async with pool.lend(watched=watched) as connection:
                yield connection

    async def fetch(self, name: str, /, **values: object) -> list[Record]:
        """Run one named statement on a pooled connection."""
        statement = self.statements[name]
        bound = statement.bind(values)
        try:
            with self.translated():
                async with self._pool().lend() as connection:
                    return await connection.fetch(statement.dollar, *bound)
        except NotifyQueueFull:
            return await self._fetch_quietly(statement, bound)

    async def _fetch_quietly(self, statement: Statement, values: Sequence[object]) -> list[Record]:
        """Run the statement again: the queue was filled since it looked for room, so now it does not notify."""
        async with self.connection(watched=True) as connection:
            return await connection.fetch(statement.dollar, *values)

    async def fetch_for_upkeep(self, name: str, /, **values: object) -> list[Record]:
        """fetch() that waits for each lock for half a second at most: for statements that serve many rows."""
        statement = self.statements[name]
        async with self.connection(watched=True) as connection, connection.transaction():
            await SqlSession(self.statements, connection).limit_lock_wait(_UPKEEP_LOCK_WAIT)
            return await connection.fetch(statement.dollar, *statement.bind(values))

    async def fetch_in_order(self, statement: Statement, /, *values: object) -> list[Record]:
        """fetch() with positional values in the statement's order, for statements run thousands of times a second."""
        pool = self._pool()
        try:
            connection = pool.acquire_idle() or await pool.acquire()
            try:
                return await connection.fetch(statement.dollar, *values)
            except BaseException as error:
                pool.call_failed(connection, error)
                raise
            finally:
                pool.release(connection)
        except Exception as error:
            if (translated := self.translate(error)) is error:
                raise
            if isinstance(translated, NotifyQueueFull):
                return await self._fetch_quietly(statement, values)
            raise translated from error

    async def fetch_briefly(self, name: str, /, **values: object) -> list[Record]:
        """fetch() that waits BRIEF seconds at most for rows that another transaction holds; DatabaseBusy names it."""
        async with self.connection(watched=True) as connection, connection.transaction():
            return await SqlSession(self.statements, connection, lock_wait=self.lock_wait).fetch_briefly(name, **values)

    def lock_wait(self, connection: Connection[Record]) -> LockWait:
        """A block in which the connection waits for a lock: its error names the sessions that hold it."""
        backend = None if self._behind_pooler else connection.get_server_pid()
        return LockWait(self, backend, after=BRIEF / 2)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlSession]:
        """A transaction: its statements take effect together or not at all, notifications included."""
        async with self.connection(watched=True) as connection, connection.transaction():
            yield SqlSession(self.statements, connection)

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqlSession]:
        """A read-only transaction in which every statement sees the same state of the database."""
        block = self.connection(watched=True)
        async with block as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            yield SqlSession(self.statements, connection)

    def translated(self, *, races: bool = True) -> _ErrorTranslation:
        """A block whose driver errors are raised as Rowlock's own, where there is one.

        races False: the driver's own TRANSIENT errors pass, for callers that run the statement again by themselves.
        """
        return _ErrorTranslation(self, races=races)

    def translate(self, error: BaseException) -> BaseException:  # noqa: PLR0911 - one return per sort of error
        """Rowlock's own error for a driver's error; the error itself where there is none."""
        error = _first_outage(error)
        if isinstance(error, CONFLICTS):
            return busy(error)
        if isinstance(error, asyncpg.ProgramLimitExceededError) and error.server_source_filename == "async.c":
            return notify_queue_full()
        if (refusal := self._refusal(error)) is not None:
            return refusal
        if isinstance(error, _NO_SCHEMA):
            return schema_missing(self.schema)
        if isinstance(error, asyncpg.UndefinedColumnError):
            return SchemaBehind(
                f"The schema {self.schema!r} is older than this code: {error}. Upgrade it with: rowlock schema upgrade"
            )
        if isinstance(error, _UNANSWERED):
            return unanswered(self.url, error)
        if isinstance(error, OUTAGE) and not isinstance(error, DatabaseUnreachable):
            return unreachable(self.url, error)
        if isinstance(error, _UNFIT):
            why = redact.storable(_reason(error))[:_LONGEST_REASON]
            return Unstorable(f"The database can neither store nor compare a value that was given: {why}.")
        return error

    def _refusal(self, error: BaseException) -> WriteRefused | None:
        """The error of a trigger, function or constraint that is not Rowlock's; None: it is of another sort."""
        if not isinstance(error, asyncpg.PostgresError) or isinstance(error, (*OUTAGE, *TRANSIENT)):
            return None
        # The innermost function comes first, behind values that are quoted (JSON data, a line of COPY). Functions of
        # the schema are Rowlock's own.
        where = next((line for line in (error.context or "").splitlines() if _FUNCTION.match(line)), "")
        if where and f"{self.schema}." not in where:
            source = f"it comes from {where}"
        elif isinstance(error, asyncpg.IntegrityConstraintViolationError) and not where:
            source = f"constraint {error.constraint_name or '(unnamed)'} of table {error.table_name or '(unknown)'}"
        else:
            return None
        # Without the DETAIL, which shows the whole row: arguments may be secret.
        why = redact.storable(str(error.args[0]))[:_LONGEST_REASON]
        return WriteRefused(f"The database refused the write: {why} ({source}). Mend that trigger or constraint.")

    async def _client(self) -> Connection[Record]:
        connection = await self.connect("client")
        if not self.pooled:
            try:
                backend = await connection.fetchval(self.statements["my_backend"].dollar)
            except BaseException as error:
                connection.terminate()
                if isinstance(error, (*OUTAGE, asyncpg.InterfaceError)):
                    # Nothing of the caller's was sent, so it cannot have been executed.
                    raise unreachable(self.url, error) from error
                raise
            # In the handshake a pooler gives a process id of its own.
            self._behind_pooler = backend != connection.get_server_pid()
        return connection

    async def _check_silent(self, connection: Connection[Record]) -> str:
        if self._behind_pooler:
            return ""
        pause = SILENCE / 4
        return await check_statement(self, connection, connection.get_server_pid(), "call", pause, patient=False)

    def _pool(self) -> Pool:
        if self._pid != os.getpid():
            self._forget_parent()
        loop, last = asyncio.get_running_loop(), self._last
        if last is not None and last[0] is loop:
            return last[1]
        pool = self._pools.get(loop)
        if pool is None:
            for ended in [known for known in self._pools if known.is_closed()]:
                del self._pools[ended]  # a pool refers to its loop, so the weak entry would never vanish by itself
            pool = self._pools[loop] = Pool(self._client, _POOL_SIZE, self._check_silent)
        self._last = loop, pool
        return pool

    def _forget_parent(self) -> None:
        # A forked child must not speak on its parent's sockets; its own loops make their own pools.
        self._pools, self._last, self._pid = weakref.WeakKeyDictionary(), None, os.getpid()
        self._companions = weakref.WeakKeyDictionary()

    def companion(self, sort: type[T], make: Callable[[], T]) -> T:
        """The one object of this sort that belongs to the running loop and this database; made when there is none."""
        if self._pid != os.getpid():
            self._forget_parent()
        loop = asyncio.get_running_loop()
        if loop not in self._companions:
            for ended in [known for known in self._companions if known.is_closed()]:
                del self._companions[ended]  # a companion refers to its loop, as a pool does
        companions = self._companions.setdefault(loop, {})
        found = companions.get(sort)
        if not isinstance(found, sort):
            found = companions[sort] = make()
        return found

    def dismiss_companion(self, sort: type[T]) -> T | None:
        """Forget the running loop's object of this sort and return it, to be closed; None: there is none."""
        found = self._companions.get(asyncio.get_running_loop(), {}).pop(sort, None)
        return found if isinstance(found, sort) else None

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """The event loops that have a pool here and are not closed."""
        return [loop for loop in self._pools if not loop.is_closed()]

    async def close(self) -> None:
        """Close this loop's pool."""
        self._last = None
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()


class _ErrorTranslation:
    """A class, not a generator: it surrounds every statement, and must cost nothing while no error occurs."""

    __slots__ = ("_database", "_races")

    def __init__(self, database: Database, *, races: bool) -> None:
        self._database, self._races = database, races

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, _trace: object) -> None:
        if error is None or (isinstance(error, CONFLICTS) and not self._races):
            return
        if (translated := self._database.translate(error)) is not error:
            raise translated from error


def _reason(error: BaseException) -> str:
    """The reason without the value that asyncpg quotes before it, which may be a secret."""
    text = str(error)
    return text[text.rfind("(") + 1 : -1] if text.startswith("invalid input for query argument") else text


def unreachable(url: str, error: BaseException) -> DatabaseUnreachable:
    """The error for a database that does not answer."""
    reason = without_passwords(str(error), url) or type(error).__name__
    message = (
        f"PostgreSQL at {shown(url)} cannot be reached: {reason}. Is it running, and is ROWLOCK_DATABASE_URL right?"
    )
    return DatabaseUnreachable(message)


def unanswered(url: str, error: BaseException) -> DatabaseUnreachable:
    """The error for a call that was sent and not answered."""
    reason = without_passwords(str(error), url) or type(error).__name__
    message = (
        f"PostgreSQL at {shown(url)} cannot be reached: {reason}. The call may have been done all the same: "
        "with an idempotency_key it is safe to try again."
    )
    return DatabaseUnreachable(message)


def notify_queue_full() -> NotifyQueueFull:
    """The error for a NOTIFY that finds no room."""
    return NotifyQueueFull(
        "PostgreSQL's queue of notifications is full: a session that listens, perhaps in another database of the "
        "server, has been in one transaction for too long. Find it with: SELECT pid, datname, application_name, state, "
        "xact_start FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' ORDER BY xact_start; and end it "
        "with: SELECT pg_terminate_backend(pid)"
    )


def schema_missing(schema: str) -> SchemaMissing:
    """The error for a schema without Rowlock's tables."""
    return SchemaMissing(
        f"Rowlock's tables are not in schema {schema!r} of this database. Create them with: rowlock schema upgrade"
    )

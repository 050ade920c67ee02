"""SQLAlchemy: runs statements in the transaction of a session or connection, over any driver of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session
from typing_extensions import override

from rowlock.errors import ConfigurationError, InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy.orm import SessionTransaction

    from rowlock.store.callers.protocol import Caller
    from rowlock.store.queries import Statement

_CALLBACKS: Final = "rowlock:after_commit"
"""Key in Session.info: the functions to call after the commit of the open transaction."""
_PORTABLE: Final = frozenset({"host", "port", "application_name", "options", "passfile", "target_session_attrs"})
"""Parameters of a URL that mean the same to every driver, beside those that begin with ssl."""


class _ConnectionTransaction:
    """The transaction of a connection. Its commit event fires before the commit, so it cannot be used."""

    _used: Connection | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether statements already run wait for a commit; SQLAlchemy reports a transaction in AUTOCOMMIT mode too."""
        return self._used is not None and self._used.in_transaction() and not _autocommits(self._used)

    @property
    def commits_unseen(self) -> bool:
        """False: before the first statement the connection is not known yet."""
        return False

    @property
    def may_notify(self) -> bool:
        """Always: the commit of a connection cannot be observed."""
        return True

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """In AUTOCOMMIT mode the statement has committed by itself; otherwise the commit cannot be observed."""
        if self._used is None or not _autocommits(self._used):
            return False
        callback()
        return True


class ConnectionCaller(_ConnectionTransaction):
    """A Connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    @override
    def commits_unseen(self) -> bool:
        """Unless every statement commits by itself."""
        return not _autocommits(self._connection)

    def run(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        self._used = self._connection
        return _run(self._used, statement, values)


class AsyncConnectionCaller(_ConnectionTransaction):
    """An AsyncConnection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    @override
    def commits_unseen(self) -> bool:
        """Unless every statement commits by itself."""
        used = self._connection.sync_connection
        return used is not None and not _autocommits(used)

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        self._used = self._connection.sync_connection
        return await self._connection.run_sync(_run, statement, values)


class _SessionTransaction(_ConnectionTransaction):
    """The transaction of a session, which reports when its outermost transaction has committed."""

    def __init__(self, session: Session) -> None:
        self._sync = session

    @property
    @override
    def may_notify(self) -> bool:
        """Unless the session commits in two phases."""
        return not self._sync.twophase

    @override
    def on_commit(self, callback: Callable[[], None]) -> bool:
        """Call back after the commit of the outermost transaction; a rollback drops the callback."""
        if super().on_commit(callback):
            return True
        if isinstance(self._sync.get_bind(), Connection):
            # The session was bound to a connection whose owner commits later, or never.
            return False
        if not event.contains(self._sync, "after_commit", _committed):
            event.listen(self._sync, "after_commit", _committed)
            event.listen(self._sync, "after_transaction_end", _ended)
        self._sync.info.setdefault(_CALLBACKS, []).append(callback)
        return True


class SessionCaller(_SessionTransaction):
    """A Session, or the current one of a scoped_session."""

    def run(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        self._used = self._sync.connection()
        return _run(self._used, statement, values)


class AsyncSessionCaller(_SessionTransaction):
    """An AsyncSession, or the current one of an async_scoped_session."""

    def __init__(self, session: AsyncSession) -> None:
        super().__init__(session.sync_session)
        self._session = session

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""
        connection = await self._session.connection()
        self._used = connection.sync_connection
        return await connection.run_sync(_run, statement, values)


def _run(connection: Connection, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
    dialect = connection.dialect
    if dialect.name != "postgresql":
        message = (
            f"A job can join a transaction of PostgreSQL only; this one belongs to {dialect.name}. Leave out session= "
            "and connection=, or pass those of the database that Rowlock's tables are in."
        )
        raise InvalidOption(message)
    return [tuple(row) for row in connection.exec_driver_sql(*_rendered(statement, values, dialect.paramstyle)).all()]


def _rendered(statement: Statement, values: Mapping[str, object], style: str) -> tuple[str, Any]:
    match style:
        case "pyformat":
            return statement.pyformat, {name: values[name] for name in statement.parameters}
        case "format":
            return statement.format, tuple(values[name] for name in statement.occurrences)
        case "numeric_dollar":
            return statement.dollar, tuple(statement.bind(values))
        case _:
            message = f"Expected a driver with %(name)s, %s or $1 placeholders, got {style!r}. Use psycopg or asyncpg."
            raise InvalidOption(message)


def _autocommits(connection: Connection) -> bool:
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _committed(session: Session) -> None:
    # The event comes for a released savepoint too.
    if not session.in_nested_transaction():
        for callback in session.info.pop(_CALLBACKS, ()):
            callback()


def _ended(session: Session, transaction: SessionTransaction) -> None:
    # A commit has called and removed the callbacks; any left belong to a rollback, or to a close without either.
    if transaction.parent is None:
        session.info.pop(_CALLBACKS, None)


def join(connection: object) -> Caller | None:
    """Wrap a session or connection; None for any other object of SQLAlchemy."""
    if isinstance(connection, (scoped_session, async_scoped_session)):
        connection = connection()
    match connection:
        case Session():
            return SessionCaller(connection)
        case AsyncSession():
            return AsyncSessionCaller(connection)
        case Connection():
            return ConnectionCaller(connection)
        case AsyncConnection():
            return AsyncConnectionCaller(connection)
        case _:
            return None


def url_of(engine: object) -> str | None:
    """The database URL of an Engine or AsyncEngine, password included; None for any other object of SQLAlchemy."""
    if not isinstance(engine, (Engine, AsyncEngine)):
        return None
    url = engine.url
    if url.get_backend_name() != "postgresql":
        message = f"Rowlock(engine=…) takes an engine of PostgreSQL; this one is for {url.get_backend_name()}."
        raise ConfigurationError(message)
    # A parameter that only one driver knows would be sent to the server as a setting by another.
    query = {
        "sslmode" if name == "ssl" else name: value if isinstance(value, str) else ",".join(value)
        for name, value in url.query.items()
        if name in _PORTABLE or name.startswith("ssl")
    }
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=False)

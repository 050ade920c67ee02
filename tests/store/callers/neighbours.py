"""The connections and sessions users enqueue with, behind one face."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg
import psycopg
import sqlalchemy
import sqlmodel
from psycopg.rows import dict_row
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as ModelSession
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rowlock import Enqueued, Task

TABLE = "CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY)"
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
AUTOCOMMIT = "AUTOCOMMIT"


class Neighbour(Protocol):
    """One open connection or session. isolation: one of LEVELS, or AUTOCOMMIT."""

    joins: object
    """What options(session=…) or options(connection=…) is given."""

    async def write(self, number: int) -> None:
        """Insert the business row."""

    async def enqueue(self, task: Task[..., Any], number: object) -> Enqueued[Any]:
        """Enqueue a job in the same transaction."""

    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    def savepoint(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Released at the end of the block, rolled back by an exception, which is swallowed if it is Undo."""
        ...

    async def close(self) -> None: ...


class Undo(Exception):
    """Rolls a savepoint back."""


def dialect(url: str, driver: str) -> str:
    """The URL as SQLAlchemy wants it."""
    made = make_url(url).set(drivername=f"postgresql+{driver}")
    if driver == "pg8000":
        folder, port = made.query["host"], made.query.get("port", made.port or 5432)
        made = made.set(query={"unix_sock": f"{folder}/.s.PGSQL.{port}"})
    return made.render_as_string(hide_password=False)


class Awaited:
    """asyncpg, psycopg's AsyncConnection: SQL all the way."""

    def __init__(self, connection: object, isolation: str) -> None:
        self.joins: Any = connection
        self._isolation, self._begun = isolation, False

    async def _do(self, text: str) -> None:
        await self.joins.execute(text)

    async def _begin(self) -> None:
        if not self._begun and self._isolation != AUTOCOMMIT:
            self._begun = True
            await self._do(f"BEGIN ISOLATION LEVEL {self._isolation}")

    async def write(self, number: int) -> None:
        await self._begin()
        await self._do(f"INSERT INTO orders VALUES ({number})")

    async def enqueue(self, task: Task[..., Any], number: object) -> Enqueued[Any]:
        await self._begin()
        return await task.options(connection=self.joins).enqueue(number)

    async def commit(self) -> None:
        self._begun = False
        await self._do("COMMIT")

    async def rollback(self) -> None:
        self._begun = False
        await self._do("ROLLBACK")

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        await self._begin()
        await self._do("SAVEPOINT here")
        try:
            yield
        except Undo:
            await self._do("ROLLBACK TO SAVEPOINT here")
        else:
            await self._do("RELEASE SAVEPOINT here")

    async def close(self) -> None:
        await self.joins.close()


class Blocking(Awaited):
    """psycopg's Connection."""

    @override
    async def _do(self, text: str) -> None:
        self.joins.execute(text)

    @override
    async def enqueue(self, task: Task[..., Any], number: object) -> Enqueued[Any]:
        await self._begin()
        return task.options(connection=self.joins).enqueue_sync(number)

    @override
    async def close(self) -> None:
        self.joins.close()


class Alchemy:
    """Session, scoped_session, Connection."""

    def __init__(self, joins: object, dispose: Callable[[], None]) -> None:
        self.joins: Any = joins
        self._dispose = dispose

    async def write(self, number: int) -> None:
        self.joins.execute(sqlalchemy.text(f"INSERT INTO orders VALUES ({number})"))

    async def enqueue(self, task: Task[..., Any], number: object) -> Enqueued[Any]:
        return task.options(session=self.joins).enqueue_sync(number)

    async def commit(self) -> None:
        self.joins.commit()

    async def rollback(self) -> None:
        self.joins.rollback()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with contextlib.suppress(Undo), self.joins.begin_nested():
            yield

    async def close(self) -> None:
        self.joins.close()
        self._dispose()


class AsyncAlchemy:
    """AsyncSession, async_scoped_session, AsyncConnection."""

    def __init__(self, joins: object, engine: AsyncEngine) -> None:
        self.joins: Any = joins
        self._engine = engine

    async def write(self, number: int) -> None:
        run = getattr(self.joins, "exec", self.joins.execute)  # SQLModel's name for it
        await run(sqlalchemy.text(f"INSERT INTO orders VALUES ({number})"))

    async def enqueue(self, task: Task[..., Any], number: object) -> Enqueued[Any]:
        return await task.options(session=self.joins).enqueue(number)

    async def commit(self) -> None:
        await self.joins.commit()

    async def rollback(self) -> None:
        await self.joins.rollback()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with contextlib.suppress(Undo):
            async with self.joins.begin_nested():
                yield

    async def close(self) -> None:
        await self.joins.close()
        await self._engine.dispose()


async def _asyncpg(url: str, isolation: str) -> Neighbour:
    return Awaited(await asyncpg.connect(url), isolation)


async def _psycopg(url: str, isolation: str) -> Neighbour:
    # Rows as dictionaries and autocommit: BEGIN is ours, and the adapter must not depend on the connection's factories.
    return Blocking(psycopg.connect(url, autocommit=True, row_factory=dict_row), isolation)


async def _psycopg_async(url: str, isolation: str) -> Neighbour:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, row_factory=dict_row)
    return Awaited(connection, isolation)


def _alchemy(driver: str, make: Callable[[sqlalchemy.Engine], Any]) -> Callable[[str, str], Any]:
    async def opened(url: str, isolation: str) -> Neighbour:
        engine = sqlalchemy.create_engine(dialect(url, driver), isolation_level=isolation)
        return Alchemy(make(engine), engine.dispose)

    return opened


def _async_alchemy(driver: str, make: Callable[[Any], Any]) -> Callable[[str, str], Any]:
    async def opened(url: str, isolation: str) -> Neighbour:
        engine = create_async_engine(dialect(url, driver), isolation_level=isolation)
        made = make(engine)
        return AsyncAlchemy(await made if isinstance(made, AsyncConnection) else made, engine)

    return opened


def _async_scoped(engine: AsyncEngine) -> async_scoped_session[AsyncSession]:
    return async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: "one")


NEIGHBOURS: dict[str, Callable[[str, str], Any]] = {
    "asyncpg": _asyncpg,
    "psycopg": _psycopg,
    "psycopg-async": _psycopg_async,
    "session-psycopg": _alchemy("psycopg", Session),
    "session-psycopg2": _alchemy("psycopg2", Session),
    "session-pg8000": _alchemy("pg8000", Session),
    "scoped-session": _alchemy("psycopg", lambda engine: scoped_session(sessionmaker(engine))),
    "connection-psycopg": _alchemy("psycopg", lambda engine: engine.connect()),
    "sqlmodel-session": _alchemy("psycopg", sqlmodel.Session),
    "sqlmodel-async-session": _async_alchemy("asyncpg", ModelSession),
    "async-session-asyncpg": _async_alchemy("asyncpg", AsyncSession),
    "async-session-psycopg": _async_alchemy("psycopg", AsyncSession),
    "async-scoped-session": _async_alchemy("asyncpg", _async_scoped),
    "async-connection-asyncpg": _async_alchemy("asyncpg", lambda engine: engine.connect()),
}


@contextlib.asynccontextmanager
async def neighbour(name: str, url: str, isolation: str = "READ COMMITTED") -> AsyncIterator[Neighbour]:
    """Open one of NEIGHBOURS."""
    opened = await NEIGHBOURS[name](url, isolation)
    try:
        yield opened
    finally:
        await opened.close()

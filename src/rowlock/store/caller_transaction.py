"""The caller's own connection: how an enqueue joins a transaction that is not ours.

An adapter per neighbour lives in contrib/ and is loaded only when an object of that neighbour is met, so that none of
them becomes a dependency.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.store.database import schema_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import ModuleType

    from typing_extensions import TypeIs

    from rowlock.store.queries import Statement, Statements

T = TypeVar("T")
Ask = tuple[str, "Mapping[str, object]"]
"""A named statement and its values; a plan yields it and is sent the rows."""


class Joined(Protocol):
    """What every adapter can do."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, so that what was run is not committed yet."""

    @property
    def commits_unseen(self) -> bool:
        """Whether it is known, before a statement is run, that on_commit() will answer False after it."""

    @property
    def may_notify(self) -> bool:
        """Whether a notification may stand in the transaction: one that is prepared (two phases) cannot have any."""

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """Have callback run after the caller's commit; False: the commit cannot be observed, so notify inside."""


@runtime_checkable
class SyncCaller(Joined, Protocol):
    """A connection that blocks."""

    def run(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""


@runtime_checkable
class AsyncCaller(Joined, Protocol):
    """A connection that is awaited."""

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction."""


Caller = SyncCaller | AsyncCaller

# The package an object's class comes from -> the adapter that knows it.
_ADAPTERS: Final = {
    "asyncpg": "rowlock.contrib.asyncpg",
    "psycopg": "rowlock.contrib.psycopg",
    "sqlalchemy": "rowlock.contrib.sqlalchemy",
}


_NO_SCHEMA: Final = frozenset({"42P01", "3F000"})
"""SQLSTATE of an undefined table and of an undefined schema."""


def _adapters(thing: object) -> Iterator[ModuleType]:
    for base in type(thing).__mro__:
        adapter = _ADAPTERS.get(base.__module__.partition(".")[0])
        if adapter is not None:
            yield importlib.import_module(adapter)


def blocks(caller: Caller) -> TypeIs[SyncCaller]:
    """Whether it is used without awaiting; isinstance() of a protocol would take longer than all else of a join."""
    return hasattr(caller, "run")


def join(connection: object) -> Caller:
    """Wrap a caller's connection or session; InvalidOption for what nobody knows."""
    for adapter in _adapters(connection):
        joined: Caller | None = adapter.join(connection)
        if joined is not None:
            return joined
    message = (
        "connection= and session= take an asyncpg or psycopg connection, or a SQLAlchemy Session, "
        "AsyncSession, Connection or "
        f"AsyncConnection; got {type(connection).__module__}.{type(connection).__qualname__}."
    )
    raise InvalidOption(message)


def url_of(engine: object) -> str:
    """The database URL of a SQLAlchemy engine; ConfigurationError for anything else."""
    for adapter in _adapters(engine):
        if hasattr(adapter, "url_of") and (url := adapter.url_of(engine)) is not None:
            return str(url)
    message = (
        "Rowlock(engine=…) takes a SQLAlchemy Engine or AsyncEngine; "
        f"got {type(engine).__module__}.{type(engine).__qualname__}."
    )
    raise ConfigurationError(message)


def _told(error: Exception, statements: Statements) -> Exception:
    """Tables that are not there are told like everywhere else; all else is the caller's driver's to tell."""
    driver = getattr(error, "orig", error)  # SQLAlchemy wraps the driver's
    state = getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)
    return schema_missing(statements.schema) if state in _NO_SCHEMA else error


async def drive_async(
    plan: Generator[Ask, list[Sequence[object]], T], statements: Statements, caller: AsyncCaller
) -> T:
    """Run a plan of statements on an awaited connection."""
    try:
        name, values = next(plan)
        while True:
            name, values = plan.send(await caller.run_async(statements[name], values))
    except StopIteration as end:
        result: T = end.value
        return result
    except Exception as error:
        told = _told(error, statements)
        if told is error:
            raise
        raise told from error


def drive(plan: Generator[Ask, list[Sequence[object]], T], statements: Statements, caller: SyncCaller) -> T:
    """Run a plan of statements on a blocking connection."""
    try:
        name, values = next(plan)
        while True:
            name, values = plan.send(caller.run(statements[name], values))
    except StopIteration as end:
        result: T = end.value
        return result
    except Exception as error:
        told = _told(error, statements)
        if told is error:
            raise
        raise told from error

"""The caller's own connection: how an enqueue joins a transaction that is not ours.

An adapter per neighbour lives in contrib/ and is loaded only when an object of that neighbour is met, so that none of
them becomes a dependency.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.store.database import schema_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import ModuleType

    from rowlock.store.queries import Statement, Statements

T = TypeVar("T")
Ask = tuple[str, "Mapping[str, object]"]
"""A named statement and its values; a plan yields it and is sent the rows."""


class Joined(Protocol):
    """What every adapter can do."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, so that what was run is not committed yet."""

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


def join(connection: object) -> Caller:
    """Wrap a caller's connection or session; InvalidOption for what nobody knows."""
    for adapter in _adapters(connection):
        joined = adapter.join(connection)
        if isinstance(joined, (SyncCaller, AsyncCaller)):
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


@contextlib.contextmanager
def _translated(statements: Statements) -> Iterator[None]:
    """Tables that are not there are told like everywhere else; all else is the caller's driver's to tell."""
    try:
        yield
    except Exception as error:
        told = getattr(error, "orig", error)  # SQLAlchemy wraps the driver's
        state = getattr(told, "sqlstate", None) or getattr(told, "pgcode", None)
        if state in _NO_SCHEMA:
            raise schema_missing(statements.schema) from error
        raise


async def drive_async(
    plan: Generator[Ask, list[Sequence[object]], T], statements: Statements, caller: AsyncCaller
) -> T:
    """Run a plan of statements on an awaited connection."""
    try:
        name, values = next(plan)
        while True:
            with _translated(statements):
                rows = await caller.run_async(statements[name], values)
            name, values = plan.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def drive(plan: Generator[Ask, list[Sequence[object]], T], statements: Statements, caller: SyncCaller) -> T:
    """Run a plan of statements on a blocking connection."""
    try:
        name, values = next(plan)
        while True:
            with _translated(statements):
                rows = caller.run(statements[name], values)
            name, values = plan.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result

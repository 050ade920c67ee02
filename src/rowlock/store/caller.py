"""The caller's own connection: how an enqueue joins a transaction that is not ours.

An adapter per neighbour lives in contrib/ and is loaded only when an object of that neighbour is met, so that none of
them becomes a dependency.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

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


def join(connection: object) -> Caller:
    """Wrap a caller's connection or session; InvalidOption for what nobody knows."""
    for base in type(connection).__mro__:
        adapter = _ADAPTERS.get(base.__module__.partition(".")[0])
        if adapter is not None:
            joined = importlib.import_module(adapter).join(connection)
            if isinstance(joined, (SyncCaller, AsyncCaller)):
                return joined
    message = (
        "connection= and session= take an asyncpg or psycopg connection, or a SQLAlchemy Session, "
        "AsyncSession, Connection or "
        f"AsyncConnection; got {type(connection).__module__}.{type(connection).__qualname__}."
    )
    raise InvalidOption(message)


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


def drive(plan: Generator[Ask, list[Sequence[object]], T], statements: Statements, caller: SyncCaller) -> T:
    """Run a plan of statements on a blocking connection."""
    try:
        name, values = next(plan)
        while True:
            name, values = plan.send(caller.run(statements[name], values))
    except StopIteration as end:
        result: T = end.value
        return result

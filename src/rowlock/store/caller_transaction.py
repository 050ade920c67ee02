"""The caller's transaction: picks the adapter of a caller's connection, and runs plans of statements with it.

A plan is a generator. It yields what is to be done next, is sent the answer, and returns its result:
- a statement's name and values, to be run on the caller's connection; the answer is its rows;
- a coroutine function, for work on connections of the library's own; the answer is its result.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from rowlock.errors import ConfigurationError, DatabaseBusy, InvalidOption, RowlockError
from rowlock.store.callers.protocol import AsyncCaller, Caller, SyncCaller
from rowlock.store.database import schema_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence

    from typing_extensions import TypeIs

    from rowlock.store.queries import Statement, Statements

__all__ = [
    "Ask",
    "AsyncCaller",
    "Caller",
    "OwnWork",
    "SyncCaller",
    "blocks",
    "caller_errors",
    "drive",
    "drive_async",
    "join",
    "url_of",
]

T = TypeVar("T")
Ask: TypeAlias = "tuple[str, Mapping[str, object]]"
"""A statement's name and values; the plan that yields it is sent the rows."""
OwnWork: TypeAlias = "Callable[[], Coroutine[object, object, object]]"
"""Work on connections of the library's own, between two statements of a plan."""
_NO_SCHEMA: Final = frozenset({"42P01", "3F000"})
"""SQLSTATE of an undefined table and of an undefined schema."""
_CONFLICTS: Final = {
    "40001": "Another transaction changed the same rows, and yours is REPEATABLE READ or SERIALIZABLE",
    "40P01": "Your transaction and another one waited for each other, so PostgreSQL ended yours",
    "55P03": "Another transaction holds rows that this call needs, for longer than the lock_timeout of your connection",
}
"""What the SQLSTATEs of a transaction that met another one mean."""


class Runner(Protocol):
    """The least that drive_async() needs of a connection."""

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement."""


def _packages(thing: object) -> Iterator[str]:
    """The top-level packages that an object's class and its bases come from."""
    return (base.__module__.partition(".")[0] for base in type(thing).__mro__)


def blocks(caller: Caller | Runner) -> TypeIs[SyncCaller]:
    """Whether it is used without awaiting; isinstance() of a protocol would take longer than the whole join()."""
    return hasattr(caller, "run")


def join(connection: object) -> Caller:
    """Wrap a caller's connection or session; InvalidOption for an object of any other library."""
    for package in _packages(connection):
        joined = _adapted(package, connection)
        if joined is not None:
            return joined
    message = (
        "connection= and session= take an asyncpg, psycopg or Django connection, or a SQLAlchemy Session, "
        "AsyncSession, Connection or "
        f"AsyncConnection; got {type(connection).__module__}.{type(connection).__qualname__}."
    )
    raise InvalidOption(message)


def _adapted(package: str, connection: object) -> Caller | None:
    # The caller has imported the library already, so its adapter costs next to nothing; nobody else pays for it.
    match package:
        case "asyncpg":
            from rowlock.store.callers import asyncpg  # noqa: PLC0415 - as above

            return asyncpg.join(connection)
        case "psycopg":
            from rowlock.store.callers import psycopg  # noqa: PLC0415 - as above

            return psycopg.join(connection)
        case "sqlalchemy":
            from rowlock.store.callers import sqlalchemy  # noqa: PLC0415 - as above

            return sqlalchemy.join(connection)
        case "django":
            from rowlock.store.callers import django  # noqa: PLC0415 - as above

            return django.join(connection)
        case _:
            return None


def url_of(engine: object) -> str:
    """The database URL of a SQLAlchemy engine; ConfigurationError for anything else."""
    if "sqlalchemy" in _packages(engine):
        from rowlock.store.callers import sqlalchemy  # noqa: PLC0415 - only with an engine

        url = sqlalchemy.url_of(engine)
        if url is not None:
            return url
    message = (
        "Rowlock(engine=…) takes a SQLAlchemy Engine or AsyncEngine; "
        f"got {type(engine).__module__}.{type(engine).__qualname__}."
    )
    raise ConfigurationError(message)


@contextlib.contextmanager
def caller_errors(statements: Statements) -> Iterator[None]:
    """A block that runs statements on a caller's connection: errors that its program can act on are Rowlock's own.

    Every other error is the one of the caller's driver, with which the caller's transaction fails.
    """
    try:
        yield
    except RowlockError:
        raise
    except Exception as error:
        state = _sqlstate(error)
        if state in _NO_SCHEMA:
            raise schema_missing(statements.schema) from error
        if state in _CONFLICTS:
            message = (
                f"{_CONFLICTS[state]}. Your transaction has failed: roll it back and run all of it again, as "
                f"PostgreSQL asks of every transaction that ends with SQLSTATE {state}."
            )
            raise DatabaseBusy(message, str(state)) from error
        raise


def _sqlstate(error: BaseException) -> object:
    """The SQLSTATE of a driver's error, which SQLAlchemy has as .orig and Django as the cause; None: it has none."""
    for each in (getattr(error, "orig", error), error.__cause__):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if state is not None:
            return state
    return None


async def drive_async(plan: Generator[Ask | OwnWork, Any, T], statements: Statements, connection: Caller | Runner) -> T:
    """Run a plan from asynchronous code, on a connection that is awaited or blocks."""
    try:
        step = next(plan)
        while True:
            if callable(step):
                answer: object = await step()
            elif blocks(connection):
                answer = connection.run(statements[step[0]], step[1])
            else:
                answer = await connection.run_async(statements[step[0]], step[1])
            step = plan.send(answer)
    except StopIteration as end:
        return cast("T", end.value)


def drive(
    plan: Generator[Ask | OwnWork, Any, T],
    statements: Statements,
    caller: SyncCaller,
    wait: Callable[[Coroutine[object, object, object]], object],
) -> T:
    """Run a plan from blocking code. wait: runs a coroutine to its end, as Bridge.run does."""
    try:
        step = next(plan)
        while True:
            answer = wait(step()) if callable(step) else caller.run(statements[step[0]], step[1])
            step = plan.send(answer)
    except StopIteration as end:
        return cast("T", end.value)

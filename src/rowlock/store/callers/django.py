"""Django: runs statements in the transaction of a database connection, over psycopg 3 or psycopg2."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.core.exceptions import SynchronousOnlyOperation
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rowlock.store.callers.protocol import SyncCaller
    from rowlock.store.queries import Statement


@contextlib.contextmanager
def _blocking() -> Iterator[None]:
    """A block that uses the connection, which Django refuses where an event loop runs."""
    try:
        yield
    except SynchronousOnlyOperation as error:
        message = (
            "Django's connections cannot be used in async code. Call the blocking method in Django's thread: "
            "await sync_to_async(task.options(connection=connection).enqueue_sync)(…), or leave out connection=; "
            "the job is then committed at once."
        )
        raise InvalidOption(message) from error


class DjangoCaller:
    """A connection of Django's, such as django.db.connection. It blocks, and belongs to one thread."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - a DatabaseWrapper, or the proxy of one
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        """Whether an atomic block is open, or the program has switched autocommit off."""
        return bool(self._connection.in_atomic_block) or self.commits_unseen

    @property
    def commits_unseen(self) -> bool:
        """Whether the program commits by itself: Django calls nothing back then."""
        with _blocking():
            return not self._connection.in_atomic_block and not self._connection.get_autocommit()

    @property
    def may_notify(self) -> bool:
        """Always: Django does not commit in two phases."""
        return True

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """Call back after the commit of the outermost atomic block; at once outside of one."""
        if self.commits_unseen:
            return False
        self._connection.on_commit(callback)
        return True

    def run(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        """Run the statement in the caller's transaction, seen by Django's query log and its wrappers."""
        with _blocking(), self._connection.cursor() as cursor:
            cursor.execute(statement.pyformat, {name: values[name] for name in statement.parameters})
            return [self._aware(row) for row in cursor.fetchall()]

    def _aware(self, row: Sequence[object]) -> Sequence[object]:
        """With USE_TZ = False Django's times are naive, in the time zone of the connection."""
        if not any(isinstance(value, datetime) and value.tzinfo is None for value in row):
            return row
        zone = ZoneInfo(self._connection.timezone_name)
        return tuple(
            value.replace(tzinfo=zone) if isinstance(value, datetime) and value.tzinfo is None else value
            for value in row
        )


def join(connection: object) -> SyncCaller | None:
    """Wrap a connection of PostgreSQL; None for any other object of Django."""
    if not isinstance(connection, (BaseDatabaseWrapper, ConnectionProxy)):
        return None
    vendor = getattr(connection, "vendor", None)
    if vendor is None:
        return None
    if vendor != "postgresql":
        message = (
            f"A job can join a transaction of PostgreSQL only; this one belongs to {vendor}. Leave out connection=, or "
            "pass that of the database that Rowlock's tables are in: connections[alias]."
        )
        raise InvalidOption(message)
    return DjangoCaller(connection)

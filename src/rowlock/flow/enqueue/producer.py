"""Producer: the one path of every enqueue.

    lane policy  ->  registration of pairs, gates and rates  ->  write  ->  wake-up  ->  event

The jobs come prepared, as an Insert. They are written on a connection of the library's own, or in the caller's
transaction; both ways are here, one below the other. Blocking code reaches the first over the bridge.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from rowlock.errors import DatabaseBusy, InvalidOption
from rowlock.flow.enqueue import wake
from rowlock.flow.enqueue.insert import BulkReceipt, SingleInsert, first_state
from rowlock.flow.enqueue.lane_policy import LanePolicyCache
from rowlock.flow.enqueue.registered import RegisteredKeys
from rowlock.model.notify_messages import encode_wake_up
from rowlock.store.bulk import copy_jobs
from rowlock.store.caller_transaction import blocks, caller_errors, drive, drive_async, join
from rowlock.store.executor import SqlSession
from rowlock.store.jobs import enqueue as verbs
from rowlock.store.own_transaction import OwnTransaction
from rowlock.telemetry import Events, JobEnqueued

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from datetime import datetime

    from rowlock.bridge import Bridge
    from rowlock.flow.enqueue.insert import BulkInsert, Insert
    from rowlock.flow.enqueue.middleware import EnqueueMiddleware
    from rowlock.flow.enqueue.wake import CarrierWaker, Wakers
    from rowlock.model.queue_pair import Pair
    from rowlock.store.caller_transaction import Ask, Caller, OwnWork
    from rowlock.store.database import Database
    from rowlock.store.queries import Statement

T = TypeVar("T")
_TRIES: Final = 3
"""How often jobs are written whose transaction PostgreSQL ended because of a deadlock."""


class EnqueueObserver(Protocol):
    """Is called as soon as jobs are committed: rowlock.testing runs them on the spot."""

    async def enqueued(self, ids: Sequence[int]) -> None:
        """On the caller's event loop; the enqueue returns after it."""

    def enqueued_sync(self, ids: Sequence[int]) -> None:
        """In a blocking caller's thread; the enqueue returns after it."""

    def committed(self, ids: Sequence[int]) -> None:
        """Right after the commit of a caller's transaction, in the thread or loop that committed it."""


def _no_connection() -> None:
    return None


class Producer:
    """Enqueues for one application, from any thread and event loop."""

    def __init__(
        self,
        database: Callable[[], Database],
        bridge: Bridge,
        middleware: Sequence[EnqueueMiddleware] = (),
        events: Events | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        outbox: Callable[[], CarrierWaker | None] = lambda: None,
        may_carry: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """outbox: makes the outbox of an event loop; may_carry: whether a carrier may have to hear of a kind's jobs."""
        self.database, self.bridge, self._may_carry = database, bridge, may_carry
        self.middleware, self.events = middleware, events or Events()
        self.wakers = wake.Wakers(database, bridge, outbox)
        self.observer: EnqueueObserver | None = None
        self.surrounding: Callable[[], object | None] = _no_connection
        """The connection whose transaction a blocking call joins if it names none; None: there is no transaction."""
        self._lanes = LanePolicyCache(database)
        self._registered = RegisteredKeys(database)
        self._own = _OwnConnection(database, self.wakers)
        self._notify_window = wake.NotifyWindow(clock)

    def forget(self) -> None:
        """Start over: the application uses another database from now on."""
        self.wakers.forget()
        self._registered.forget()
        self._lanes.forget()

    async def enqueue(self, insert: Insert[T], connection: object | None = None) -> T:
        """Write jobs. They are committed and announced when this returns, or with the caller's own commit.

        connection: a caller's, or an OwnTransaction.
        """
        if connection is None or isinstance(connection, OwnTransaction):
            receipt = await self._write(insert, connection)
            if self.observer is not None and (ids := insert.created(receipt)):
                await self.observer.enqueued(ids)
        else:
            caller = join(connection)
            statements = self.database().statements
            with caller_errors(statements):
                receipt = await drive_async(self._join(insert, caller), statements, caller)
        if self.events.active:
            self._emit(insert, receipt)
        return receipt

    def enqueue_sync(self, insert: Insert[T], connection: object | None = None) -> T:
        """enqueue() for blocking code: over the bridge, or directly on the caller's blocking connection."""
        if connection is None:
            connection = self.surrounding()
        if connection is None:
            self.wakers.flush_at_exit()
            receipt = self.bridge.run(self._write(insert))
            if self.observer is not None and (ids := insert.created(receipt)):
                self.observer.enqueued_sync(ids)
        else:
            caller = join(connection)
            if not blocks(caller):
                message = (
                    f"enqueue_sync() cannot wait for {type(connection).__name__}, which is asynchronous. Use: "
                    "await …enqueue()"
                )
                raise InvalidOption(message)
            statements = self.database().statements
            with caller_errors(statements):
                receipt = drive(self._join(insert, caller), statements, caller, self.bridge.run)
        if self.events.active:
            self._emit(insert, receipt)
        return receipt

    async def _write(self, insert: Insert[T], within: OwnTransaction | None = None) -> T:
        """The path on a connection of the library's own."""
        lanes = self._lanes
        if lanes.is_stale:
            await lanes.refresh()
        if lanes.is_unknown:
            await lanes.read()
        if lanes.policy.demands_anything:
            insert = insert.under(lanes.policy)
        if self._registered.lacks(insert.jobs):
            await self._registered.register(insert.jobs)
        return await (insert.write(self._own) if within is None else self._own.run(insert, within))

    def _join(self, insert: Insert[T], caller: Caller) -> Generator[Ask | OwnWork, Any, T]:
        """The same path in the caller's transaction, for a connection that blocks or is awaited."""
        if self._lanes.is_stale:
            yield self._lanes.refresh
        policy = yield from self._lanes.plan()
        if policy.demands_anything:
            insert = insert.under(policy)
        if self._registered.lacks(insert.jobs):
            yield partial(self._registered.register, insert.jobs)
        receipt, notifies = yield from self._insert(insert, caller)
        if (notifies and caller.commits_unseen) or not (claimable := insert.claimable(receipt)):
            return receipt
        after_commit = partial(self._committed, {} if notifies else claimable, insert.created(receipt))
        if not caller.on_commit(after_commit) and not notifies:
            # The commit cannot be observed, so the database notifies at it.
            yield from verbs.wake_inside(self.database().channel, encode_wake_up(claimable))
        return receipt

    def _insert(self, insert: Insert[T], caller: Caller) -> verbs.StatementPlan[tuple[T, bool]]:
        """The statements of the insert; returns the receipt and whether the commit wakes workers by itself."""
        if not isinstance(insert, SingleInsert) or not insert.is_plain:
            return (yield from insert.plan()), False
        channel = self.database().channel
        if caller.commits_unseen:
            plain = (yield from insert.plan_notifying_inside(channel)), True
        elif caller.may_notify and not self._may_carry(insert.job.job.kind) and self._notify_window.reserve():
            plain = yield from insert.plan_notifying(channel)
        else:
            plain = (yield from insert.plan()), False
        return cast("tuple[T, bool]", plain)

    def _committed(self, claimable: Mapping[Pair, datetime], created: Sequence[int]) -> None:
        self.wakers.wake(claimable.items())
        if self.observer is not None:
            self.observer.committed(created)

    def _emit(self, insert: Insert[T], receipt: T) -> None:
        for number, kind, what in insert.outcomes(receipt):
            self.events.emit(JobEnqueued(number, kind, what))


class _OwnConnection:
    """Writes inserts on a pooled connection and wakes workers after the commit."""

    def __init__(self, database: Callable[[], Database], wakers: Wakers) -> None:
        self._open, self._wakers = database, wakers

    async def insert_plain(self, insert: SingleInsert) -> verbs.Receipt:
        """One short statement; if this window's message is not sent yet, the statement notifies by itself."""
        database, waker, job = self._open(), self._wakers.here(), insert.job
        plain = cast("tuple[object, ...]", job.plain)
        if not waker.may_carry(job.job.kind) and waker.reserve_window():
            ((number, run_after, notified),) = await verbs.insert_plain_notifying(database, insert.text, plain)
            if notified is False:
                waker.note(job.pair, run_after)
        else:
            ((number, run_after),) = await verbs.insert_plain(database, insert.text, plain)
            waker.note(job.pair, run_after)
        return verbs.Receipt(number, first_state(job.job), run_after, "created")

    async def copy(self, insert: BulkInsert) -> BulkReceipt:
        """COPY, with ids taken beforehand."""
        database, first = self._open(), insert.jobs[0]
        columns = dict(zip(verbs.PLAIN, cast("tuple[object, ...]", first.plain), strict=True))
        columns["state"] = str(first_state(first.job))
        async with database.connection(watched=True) as connection:
            ids, now = await copy_jobs(connection, database.statements, columns, insert.texts)
        self._wakers.wake([(first.pair, now)])
        return BulkReceipt(ids, ["created"] * len(ids), now)

    async def run(self, insert: Insert[T], within: OwnTransaction | None = None) -> T:
        """The statements of the plan, in one transaction if they stand or fall together, with each other or others.

        Keys are taken in one order, but a key that came free meanwhile is taken later than that: the transaction that
        loses a deadlock over it has written nothing and begins again.
        """
        for _ in range(_TRIES - 1):
            try:
                return await self._run_once(insert, within)
            except DatabaseBusy as error:
                if error.sqlstate != "40P01":
                    raise
        return await self._run_once(insert, within)

    async def _run_once(self, insert: Insert[T], within: OwnTransaction | None) -> T:
        database = self._open()
        async with (
            database.connection(watched=True) as connection,
            connection.transaction() if insert.is_atomic or within is not None else contextlib.nullcontext(),
        ):
            session = SqlSession(database.statements, connection)
            if within is not None:
                await within.before(session)
            receipt = await drive_async(insert.plan(), database.statements, _AsyncpgRunner(connection))
            if within is not None:
                for number, _, what in insert.outcomes(receipt):
                    await within.after(session, number, what)
        self._wakers.wake(insert.claimable(receipt).items())
        return receipt


class _AsyncpgRunner:
    """Runs the statements of a plan on a pooled connection."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - asyncpg's, which this room does not import
        self._connection = connection

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        return list(await self._connection.fetch(statement.dollar, *statement.bind(values)))

"""Producer: enqueues on its own connection or in the caller's transaction, and wakes workers after the commit."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import weakref
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from rowlock.errors import InvalidOption, RowlockError
from rowlock.flow import enqueue, wake
from rowlock.flow.enqueue import Prepared, Receipt
from rowlock.flow.wake import Waker
from rowlock.model.state import State
from rowlock.store.bulk import copy_jobs
from rowlock.store.caller import AsyncCaller, SyncCaller, drive, drive_async, join
from rowlock.telemetry import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.middleware import EnqueueMiddleware
    from rowlock.flow.wake import Pair
    from rowlock.model.job import NewJob
    from rowlock.service import Bridge
    from rowlock.store.caller import Ask, Caller
    from rowlock.store.database import Database
    from rowlock.store.queries import Statement

logger = logging.getLogger("rowlock.enqueue")
T = TypeVar("T")
_REMEMBERED: Final = 100_000
"""Gate keys; beyond it they are registered again and again, which is harmless."""


class Watcher(Protocol):
    """Is told of jobs as soon as they are committed: rowlock.testing runs them on the spot."""

    async def enqueued(self, ids: Sequence[int]) -> None:
        """On the caller's event loop; the enqueue returns after it."""

    def enqueued_sync(self, ids: Sequence[int]) -> None:
        """In a blocking caller's thread; the enqueue returns after it."""

    def committed(self, ids: Sequence[int]) -> None:
        """Right after a commit of the caller's that could be observed, in whatever thread or loop that was."""


class Producer:
    """Every way to enqueue. Pairs and gates are registered once per process, never in the caller's transaction."""

    def __init__(
        self,
        database: Callable[[], Database],
        bridge: Bridge,
        middleware: Sequence[EnqueueMiddleware] = (),
        events: Events | None = None,
    ) -> None:
        self._open, self.bridge = database, bridge
        self.middleware, self.events = middleware, events or Events()
        self._wakers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = weakref.WeakKeyDictionary()
        self._registered: set[Pair] = set()
        self._gates: set[str] = set()
        self._flushed_at_exit = False
        self.watcher: Watcher | None = None

    def forget(self) -> None:
        """Another database from now on: nothing is registered there yet."""
        self._wakers, self._registered, self._gates = weakref.WeakKeyDictionary(), set(), set()

    async def enqueue(self, prepared: Prepared, connection: object | None) -> Receipt:
        """Insert one job; it is visible and woken when this call returns, or at the caller's commit."""
        receipt = await self._enqueue(prepared, connection)
        await self._watched([receipt], connection)
        return receipt

    async def _enqueue(self, prepared: Prepared, connection: object | None) -> Receipt:
        await self._register([prepared])
        plan = enqueue.insert(prepared.job)
        if connection is None:
            receipt = await self._on_own(plan)
            self._wake_now([prepared.job], [receipt])
            return receipt
        caller = join(connection)
        receipt = await self._joined(plan, caller)
        await self._joined(self._announce(caller, [prepared.job], [receipt]), caller)
        return receipt

    async def enqueue_many(self, prepared: Sequence[Prepared], connection: object | None) -> list[Receipt]:
        """Insert many jobs of one kind, all or none; receipts in input order."""
        receipts = await self._enqueue_many(prepared, connection) if prepared else []
        await self._watched(receipts, connection)
        return receipts

    async def _watched(self, receipts: Sequence[Receipt], connection: object | None) -> None:
        if self.watcher is not None and connection is None and receipts:
            await self.watcher.enqueued(_created(receipts))

    async def _enqueue_many(self, prepared: Sequence[Prepared], connection: object | None) -> list[Receipt]:
        await self._register(prepared)
        jobs = [item.job for item in prepared]
        if connection is not None:
            caller = join(connection)
            receipts = await self._joined(enqueue.insert_many(jobs), caller)
            await self._joined(self._announce(caller, jobs, receipts), caller)
            return receipts
        database = self._open()
        async with database.connection() as own, own.transaction():
            if all(map(_is_plain, jobs)):
                numbers, now = await copy_jobs(own, database.statements, jobs)
                state = State.PENDING if jobs[0].approval else State.QUEUED
                receipts = [Receipt(number, state, now, "created") for number in numbers]
            else:
                receipts = await drive_async(enqueue.insert_many(jobs), database.statements, _Own(own))
        self._wake_now(jobs, receipts)
        return receipts

    def enqueue_sync(self, prepared: Sequence[Prepared], connection: object | None, *, many: bool) -> list[Receipt]:
        """The blocking twin: over the bridge, or directly on the caller's blocking connection."""
        if connection is None:
            receipts = self.bridge.run(self._through_bridge(prepared, many=many))
            if self.watcher is not None:
                self.watcher.enqueued_sync(_created(receipts))
            return receipts
        caller = join(connection)
        if not isinstance(caller, SyncCaller):
            message = (
                f"enqueue_sync() cannot wait for {type(connection).__name__}, which is asynchronous. Use: "
                "await …enqueue()"
            )
            raise InvalidOption(message)
        self.bridge.run(self._register(prepared))
        jobs = [item.job for item in prepared]
        statements = self._open().statements
        receipts = (
            drive(enqueue.insert_many(jobs), statements, caller)
            if many
            else [drive(enqueue.insert(jobs[0]), statements, caller)]
        )
        drive(self._announce(caller, jobs, receipts), statements, caller)
        return receipts

    async def _through_bridge(self, prepared: Sequence[Prepared], *, many: bool) -> list[Receipt]:
        self._before_exit()
        return await self._enqueue_many(prepared, None) if many else [await self._enqueue(prepared[0], None)]

    def _before_exit(self) -> None:
        """A short-lived program may end right after its last enqueue or commit: the wake-up must be out by then."""
        if not self._flushed_at_exit:
            self._flushed_at_exit = True
            atexit.register(self._flush_at_exit)

    def _flush_at_exit(self) -> None:
        with contextlib.suppress(Exception):
            self.bridge.run(asyncio.wait_for(self.flush(), timeout=1))

    def wake(self, pairs: Iterable[tuple[Pair, datetime]]) -> None:
        """Tell workers of claimable jobs; from any thread."""
        noted = list(pairs)
        if not noted:
            return
        try:
            self._waker().wake(noted)
        except RuntimeError:
            self._before_exit()
            self.bridge.call_soon(self._wake_soon(noted))

    async def _wake_soon(self, noted: list[tuple[Pair, datetime]]) -> None:
        self._waker().wake(noted)

    async def flush(self) -> None:
        """Wait until wake-ups of this loop are sent; opens no database for it."""
        waker = self._wakers.get(asyncio.get_running_loop())
        if waker is not None:
            await waker.flush()

    async def _on_own(self, plan: Generator[Ask, list[Sequence[object]], T]) -> T:
        database = self._open()
        async with database.connection() as own:
            return await drive_async(plan, database.statements, _Own(own))

    async def _joined(self, plan: Generator[Ask, list[Sequence[object]], T], caller: Caller) -> T:
        statements = self._open().statements
        if isinstance(caller, AsyncCaller):
            return await drive_async(plan, statements, caller)
        return drive(plan, statements, caller)

    def _announce(
        self, caller: Caller, jobs: Sequence[NewJob], receipts: Sequence[Receipt]
    ) -> Generator[Ask, list[Sequence[object]], None]:
        """Wake after the caller's commit where it can be observed, else let the database notify at it."""
        lows = _lows(jobs, receipts)
        if lows and not caller.on_commit(lambda: self._committed(lows, receipts)):
            yield "wake_inside", {"channel": self._open().channel, "payload": wake.payload(lows)}

    def _committed(self, lows: Mapping[Pair, datetime], receipts: Sequence[Receipt]) -> None:
        self.wake(lows.items())
        if self.watcher is not None:
            self.watcher.committed(_created(receipts))

    def _wake_now(self, jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> None:
        self.wake(_lows(jobs, receipts).items())

    def _waker(self) -> Waker:
        loop = asyncio.get_running_loop()
        waker = self._wakers.get(loop)
        if waker is None:
            for ended in [known for known in self._wakers if known.is_closed()]:
                del self._wakers[ended]
            waker = self._wakers[loop] = Waker(self._open())
            waker.insist()
        return waker

    async def _register(self, prepared: Sequence[Prepared]) -> None:
        """Best effort: what is not registered is found by the sweep."""
        pairs = {(item.job.kind, item.job.priority, item.job.share) for item in prepared} - self._registered
        gates = {item.gate.key: item.gate for item in prepared if item.gate and item.gate.key not in self._gates}
        try:
            if pairs:
                kinds, priorities, shares = (list(column) for column in zip(*sorted(pairs), strict=True))
                await self._open().fetch("register_pairs", kinds=kinds, priorities=priorities, shares=shares)
                self._registered |= pairs
            if gates:
                wanted = list(gates.values())
                await self._open().fetch(
                    "register_gates",
                    keys=[gate.key for gate in wanted],
                    limits=[gate.limit for gate in wanted],
                    fifos=[gate.fifo for gate in wanted],
                )
                self._gates |= gates.keys() if len(self._gates) < _REMEMBERED else set()
        except RowlockError as error:
            logger.debug("not registered, the sweep will find it: %s", error)


class _Own:
    """The library's own connection as a caller."""

    in_transaction = False

    def __init__(self, connection: object) -> None:
        self._connection = connection

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        rows = await self._connection.fetch(statement.dollar, *statement.bind(values))  # type: ignore[attr-defined]  # asyncpg's, which this room does not import
        return list(rows)

    def on_commit(self, callback: Callable[[], None]) -> bool:
        callback()
        return True


def _created(receipts: Sequence[Receipt]) -> list[int]:
    return [receipt.id for receipt in receipts if receipt.what != "kept"]


def _lows(jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> dict[Pair, datetime]:
    lows: dict[Pair, datetime] = {}
    for job, receipt in zip(jobs, receipts, strict=True):
        if receipt.state == State.QUEUED and receipt.run_after is not None and receipt.what != "kept":
            pair = (job.kind, job.priority, job.share)
            lows[pair] = min(receipt.run_after, lows.get(pair, receipt.run_after))
    return lows


def _is_plain(job: NewJob) -> bool:
    """Whether COPY can carry it: no key to look up, no time to compute, nothing beside the row."""
    extras = (
        job.run_at,
        job.run_in,
        job.expires_in,
        job.max_age,
        job.unique_key,
        job.idempotency_key,
        job.gate_key,
        job.tags,
        job.refs,
    )
    return all(extra is None for extra in extras)

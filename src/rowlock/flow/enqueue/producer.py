"""Producer: enqueues on its own connection or in the caller's transaction, and wakes workers after the commit."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import time
import weakref
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from rowlock.errors import InvalidOption
from rowlock.flow.enqueue import prepare, wake
from rowlock.flow.enqueue.lane_policy import Needs
from rowlock.flow.enqueue.prepare import Batch, Prepared, Receipt, Written
from rowlock.flow.enqueue.registered import Known
from rowlock.flow.enqueue.wake import Waker
from rowlock.model.state import State
from rowlock.store.bulk import copy_jobs
from rowlock.store.caller_transaction import blocks, drive, drive_async, join
from rowlock.store.jobs import enqueue as verbs
from rowlock.telemetry import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.bridge import Bridge
    from rowlock.flow.enqueue.middleware import EnqueueMiddleware
    from rowlock.flow.enqueue.plan import Placed
    from rowlock.flow.enqueue.wake import Pair
    from rowlock.store.caller_transaction import Ask, Caller
    from rowlock.store.database import Database
    from rowlock.store.queries import Statement

T = TypeVar("T")
Placing: TypeAlias = "Callable[[Callable[[Prepared], Prepared]], Generator[Ask, list[Sequence[object]], Placed]]"
"""Writes a plan; is given what makes of a job what its lane asks for."""


class Watcher(Protocol):
    """Is told of jobs as soon as they are committed: rowlock.testing runs them on the spot."""

    async def enqueued(self, ids: Sequence[int]) -> None:
        """On the caller's event loop; the enqueue returns after it."""

    def enqueued_sync(self, ids: Sequence[int]) -> None:
        """In a blocking caller's thread; the enqueue returns after it."""

    def committed(self, ids: Sequence[int]) -> None:
        """Right after a commit of the caller's that could be observed, in whatever thread or loop that was."""


class Producer:
    """Every way to enqueue. Pairs, gates and rates are registered rarely, never in the caller's transaction."""

    def __init__(
        self,
        database: Callable[[], Database],
        bridge: Bridge,
        middleware: Sequence[EnqueueMiddleware] = (),
        events: Events | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._next_telling = clock, 0.0
        self._open, self.database, self.bridge = database, database, bridge
        self.middleware, self.events = middleware, events or Events()
        self._wakers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = weakref.WeakKeyDictionary()
        self._last: tuple[asyncio.AbstractEventLoop, Waker] | None = None
        self._known = Known(database)
        self._needs = Needs(database)
        self._flushed_at_exit = False
        self.watcher: Watcher | None = None

    def forget(self) -> None:
        """Another database from now on: nothing is registered there yet."""
        self._wakers, self._last = weakref.WeakKeyDictionary(), None
        self._known.forget()
        self._needs.forget()

    async def enqueue(self, ready: Prepared, text: str, connection: object | None) -> Receipt:
        """Insert one job; it is visible and woken when this call returns, or at the caller's commit."""
        ready = self._needs.of(ready)
        if self._is_new(ready):
            ready = await self._met(ready)
        if connection is not None:
            caller = join(connection)
            return await self._joined(self._joining(caller, ready, text), caller)
        receipt = await self._enqueue(ready, text)
        if self.watcher is not None:
            await self.watcher.enqueued(_created([receipt.id], [receipt.what]))
        return receipt

    async def _enqueue(self, ready: Prepared, text: str) -> Receipt:
        if self._needs.unsure:
            await self._needs.insist()
        database, ready = self._open(), self._needs.of(ready)
        if ready.plain is None or ready.job.approval:
            receipt = await self._on_own(prepare.insert(ready, text), whole=prepare.is_several(ready.job))
            self.wake(_lows([ready], [receipt]).items())
            return receipt
        waker = self._waker()
        if waker.may_tell():
            ((number, run_after, told),) = await verbs.insert_plain_notifying(database, text, ready.plain)
            if told is False:
                waker.note(ready.pair, run_after)
        else:
            ((number, run_after),) = await verbs.insert_plain(database, text, ready.plain)
            waker.note(ready.pair, run_after)
        return Receipt(number, prepare.state_of(ready.job), run_after, "created")

    async def enqueue_many(self, batch: Batch, connection: object | None) -> Written:
        """Insert many jobs of one kind, all or none; in input order."""
        await self._register(batch.jobs)
        if connection is not None:
            caller = join(connection)
            return await self._joined(self._joining_many(caller, batch), caller)
        written = await self._enqueue_many(batch)
        if self.watcher is not None:
            await self.watcher.enqueued(_created(*written))
        return written

    async def _enqueue_many(self, batch: Batch) -> Written:
        if self._needs.unsure:
            await self._needs.insist()
        batch = self._needs.of_all(batch)
        database, first = self._open(), batch.jobs[0]
        async with database.connection(watched=True) as own:
            plain = first.plain if all(item.plain is not None for item in batch.jobs) else None
            if plain is not None and not first.job.approval:
                shared = dict(zip(verbs.PLAIN, plain, strict=True)) | {"state": str(prepare.state_of(first.job))}
                numbers, now = await copy_jobs(own, database.statements, shared, batch.texts)
                self.wake([(first.pair, now)])
                return Written(numbers, ["created"] * len(numbers))
            async with own.transaction():
                receipts = await drive_async(prepare.insert_many(batch), database.statements, _Own(own))
        self.wake(_lows(batch.jobs, receipts).items())
        return _written(receipts)

    def enqueue_sync(self, ready: Prepared, text: str, connection: object | None) -> Receipt:
        """The blocking twin: over the bridge, or directly on the caller's blocking connection."""
        if connection is not None:
            return self._joined_sync(connection, [ready], lambda caller: self._joining(caller, ready, text))
        receipt = self.bridge.run(self._through_bridge(ready, text))
        if self.watcher is not None:
            self.watcher.enqueued_sync(_created([receipt.id], [receipt.what]))
        return receipt

    def enqueue_many_sync(self, batch: Batch, connection: object | None) -> Written:
        """The blocking twin of enqueue_many()."""
        if connection is not None:
            return self._joined_sync(connection, batch.jobs, lambda caller: self._joining_many(caller, batch))
        written = self.bridge.run(self._many_through_bridge(batch))
        if self.watcher is not None:
            self.watcher.enqueued_sync(_created(*written))
        return written

    async def place(self, jobs: Sequence[Prepared], plan: Placing, connection: object | None) -> Placed:
        """Write the steps of a workflow, all or none; jobs: each sort of them once, to be registered."""
        await self._register(jobs)
        if connection is not None:
            caller = join(connection)
            return await self._joined(self._joining_plan(caller, plan), caller)
        found = await self._place(plan)
        if self.watcher is not None and found.created:
            await self.watcher.enqueued(found.created)
        return found

    def place_sync(self, jobs: Sequence[Prepared], plan: Placing, connection: object | None) -> Placed:
        """The blocking twin of place()."""
        if connection is not None:
            return self._joined_sync(connection, jobs, lambda caller: self._joining_plan(caller, plan))
        found = self.bridge.run(self._place_through_bridge(jobs, plan))
        if self.watcher is not None and found.created:
            self.watcher.enqueued_sync(found.created)
        return found

    async def _place(self, plan: Placing) -> Placed:
        if self._needs.unsure:
            await self._needs.insist()
        found = await self._on_own(plan(self._needs.of), whole=True)
        self.wake(found.lows.items())
        return found

    async def _place_through_bridge(self, jobs: Sequence[Prepared], plan: Placing) -> Placed:
        self._before_exit()
        await self._register(jobs)
        return await self._place(plan)

    def _joining_plan(self, caller: Caller, plan: Placing) -> Generator[Ask, list[Sequence[object]], Placed]:
        wishes = yield from self._needs.asked()
        found = yield from plan(lambda ready: self._needs.of(ready, wishes))
        yield from self._announce(caller, found.lows, found.created)
        return found

    async def _through_bridge(self, ready: Prepared, text: str) -> Receipt:
        self._before_exit()
        ready = self._needs.of(ready)
        if self._is_new(ready):
            ready = await self._met(ready)
        return await self._enqueue(ready, text)

    async def _many_through_bridge(self, batch: Batch) -> Written:
        self._before_exit()
        await self._register(batch.jobs)
        return await self._enqueue_many(batch)

    def _joined_sync(
        self,
        connection: object,
        jobs: Sequence[Prepared],
        plan: Callable[[Caller], Generator[Ask, list[Sequence[object]], T]],
    ) -> T:
        caller = join(connection)
        if not blocks(caller):
            message = (
                f"enqueue_sync() cannot wait for {type(connection).__name__}, which is asynchronous. Use: "
                "await …enqueue()"
            )
            raise InvalidOption(message)
        if self._needs.are_old or any(self._known.is_new(self._needs.of(item)) for item in jobs):
            self.bridge.run(self._register(jobs))
        return drive(plan(caller), self._open().statements, caller)

    def _before_exit(self) -> None:
        """A short-lived program may end right after its last enqueue or commit: the wake-up must be out by then."""
        if not self._flushed_at_exit:
            self._flushed_at_exit = True
            atexit.register(self._flush_at_exit)

    def _flush_at_exit(self) -> None:
        with contextlib.suppress(Exception):
            self.bridge.run(self.flush(within=1))

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

    async def flush(self, *, within: float | None = None) -> None:
        """Wait until wake-ups of this loop are sent, for so many seconds at most; opens no database for it."""
        waker = self._wakers.get(asyncio.get_running_loop())
        if waker is not None:
            await waker.flush(within=within)

    async def _on_own(self, plan: Generator[Ask, list[Sequence[object]], T], *, whole: bool) -> T:
        """whole: the statements of the plan stand or fall together."""
        database = self._open()
        async with database.connection(watched=True) as own, own.transaction() if whole else contextlib.nullcontext():
            return await drive_async(plan, database.statements, _Own(own))

    async def _joined(self, plan: Generator[Ask, list[Sequence[object]], T], caller: Caller) -> T:
        statements = self._open().statements
        return drive(plan, statements, caller) if blocks(caller) else await drive_async(plan, statements, caller)

    def _joining(self, caller: Caller, ready: Prepared, text: str) -> Generator[Ask, list[Sequence[object]], Receipt]:
        ready = self._needs.of(ready, (yield from self._needs.asked()))
        if ready.plain is not None and caller.commits_unseen and not ready.job.approval:
            return (yield from prepare.insert_inside(ready, text, self._open().channel))
        if ready.plain is not None and caller.may_notify and not ready.job.approval and self._may_tell():
            receipt, told = yield from prepare.insert_telling(ready, text, self._open().channel)
        else:
            receipt, told = (yield from prepare.insert(ready, text)), False
        lows = _lows([ready], [receipt])
        yield from self._announce(caller, lows, _created([receipt.id], [receipt.what]), told=told)
        return receipt

    def _joining_many(self, caller: Caller, batch: Batch) -> Generator[Ask, list[Sequence[object]], Written]:
        batch = self._needs.of_all(batch, (yield from self._needs.asked()))
        receipts = yield from prepare.insert_many(batch)
        written = _written(receipts)
        yield from self._announce(caller, _lows(batch.jobs, receipts), _created(*written))
        return written

    def _announce(
        self, caller: Caller, lows: dict[Pair, datetime], created: Sequence[int], *, told: bool = False
    ) -> Generator[Ask, list[Sequence[object]], None]:
        """Wake after the caller's commit where it can be observed, else let the database notify at it.

        told: the commit notifies already.
        """
        if lows and not caller.on_commit(lambda: self._committed({} if told else lows, created)) and not told:
            yield from verbs.wake_inside(self._open().channel, wake.payload(lows))

    def _may_tell(self) -> bool:
        """Whether a caller's transaction may carry its own wake-up: one a window, from whatever thread or loop."""
        now = self._clock()
        if now < self._next_telling:
            return False
        self._next_telling = now + wake.WINDOW
        return True

    def _committed(self, lows: Mapping[Pair, datetime], created: Sequence[int]) -> None:
        self.wake(lows.items())
        if self.watcher is not None:
            self.watcher.committed(created)

    def _waker(self) -> Waker:
        loop, last = asyncio.get_running_loop(), self._last
        if last is not None and last[0] is loop:
            return last[1]
        waker = self._wakers.get(loop)
        if waker is None:
            for ended in [known for known in self._wakers if known.is_closed()]:
                del self._wakers[ended]
            waker = self._wakers[loop] = Waker(self._open())
            waker.insist()
        self._last = loop, waker
        return waker

    def _is_new(self, ready: Prepared) -> bool:
        return self._needs.are_old or self._known.is_new(ready)

    async def _met(self, ready: Prepared) -> Prepared:
        """Register what is new about a job; returns it as its lane wants it now."""
        await self._register([ready])
        return self._needs.of(ready)

    async def _register(self, jobs: Sequence[Prepared]) -> None:
        """What the lanes ask for is read with it."""
        if self._needs.are_old:
            await self._needs.read()
        await self._known.register([self._needs.of(item) for item in jobs])


class _Own:
    """The library's own connection as a caller."""

    in_transaction = commits_unseen = may_notify = False

    def __init__(self, connection: object) -> None:
        self._connection = connection

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        rows = await self._connection.fetch(statement.dollar, *statement.bind(values))  # type: ignore[attr-defined]  # asyncpg's, which this room does not import
        return list(rows)

    def on_commit(self, callback: Callable[[], None]) -> bool:
        callback()
        return True


def _written(receipts: Sequence[Receipt]) -> Written:
    return Written([receipt.id for receipt in receipts], [receipt.what for receipt in receipts])


def _created(numbers: Sequence[int], whats: Sequence[str]) -> list[int]:
    return [number for number, what in zip(numbers, whats, strict=True) if what != "kept"]


def _lows(jobs: Sequence[Prepared], receipts: Sequence[Receipt]) -> dict[Pair, datetime]:
    """The lowest run_after that became claimable; the jobs of one call are all of one pair."""
    claimable = [
        receipt.run_after
        for receipt in receipts
        if receipt.state == State.QUEUED and receipt.run_after is not None and receipt.what != "kept"
    ]
    return {jobs[0].pair: min(claimable)} if claimable else {}

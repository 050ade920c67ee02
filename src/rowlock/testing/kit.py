"""Kit: an application on a database of its own for one test, and everything a test does with it."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from rowlock.errors import InvalidOption
from rowlock.flow.kinds.handler import find_handler
from rowlock.model.times.duration import duration
from rowlock.store.rows import jobs as rows
from rowlock.testing.clock import Clock
from rowlock.testing.drain import LIMIT, Drained, Drainer
from rowlock.testing.faults import Faults, LoseWorker, RaiseInstead
from rowlock.testing.handler_loops import HandlerLoops, run_in
from rowlock.testing.inline import InlineRunner
from rowlock.testing.match import EnqueuedJob, Expectation, failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.app import Rowlock
    from rowlock.flow.worker.worker import Worker
    from rowlock.model.job import Job
    from rowlock.model.options import Span
    from rowlock.store.rows.jobs import Row
    from rowlock.tasks import BaseTask
    from rowlock.testing.databases import Databases
    from rowlock.testing.faults import Moment

    AnyTask = BaseTask[..., Any]

_NO: Mapping[str, object] = MappingProxyType({})


class Kit:
    """Yielded by the `rowlock` fixture. Assertions block for a moment and may be called anywhere, async tests included.

    Methods that run handlers come twice: drain() on the test's event loop, drain_sync() for tests without one.
    """

    def __init__(self, app: Rowlock, databases: Databases) -> None:
        """Point the application at a fresh database until close(); its own workers stay off meanwhile."""
        self.app, self._databases = app, databases
        self._lent = databases.lend(app.settings.schema)
        self.database_url = self._lent.url
        """This test's database, for your own engine or connection."""
        self._back = app.repoint(
            replace(
                app.settings, database_url=self._lent.url, direct_url=None, replica_url=None, pooled=False, worker=False
            )
        )
        self._faults = Faults(app)
        self._drainer = Drainer(app, self._faults)
        self._clock = Clock(app)
        self._loops = HandlerLoops()
        self._inline = InlineRunner(self._drainer, self._loops.run)
        self._open = True

    # --- what was enqueued -------------------------------------------------------------------------------------------

    def enqueued(self, task: AnyTask | str | None = None) -> list[Job]:
        """Every job of a kind, in any state, in the order they were enqueued; None: of every kind."""
        return [rows.job_of(row) for row in self._rows(None if task is None else self._kind(task))]

    def assert_enqueued(
        self,
        task: AnyTask | str,
        matching: Mapping[str, object] = _NO,
        /,
        *,
        count: int | None = None,
        options: Mapping[str, object] = _NO,
        **args: object,
    ) -> Job:
        """Some job of the kind has these arguments, and these options; returns the first. count: exactly so many have.

        Arguments are values, ANY, predicates or types; those not named may be anything. matching: arguments whose names
        clash with this method's own. options: priority, run_at, run_in, lane, unique_key, state, tags …
        """
        __tracebackhide__ = True
        if count is not None and count < 1:
            message = f"count must be 1 or more; got {count}. For none there is refute_enqueued()."
            raise InvalidOption(message)
        expectation, found, others = self._look(task, {**matching, **args}, options)
        fitting = [one.job for one in found if not expectation.differences(one)]
        if fitting and count in (None, len(fitting)):
            return fitting[0]
        wanted = (
            f"Expected a {expectation}."
            if count is None
            else f"Expected {count} of: {expectation}; found {len(fitting)}."
        )
        raise AssertionError(failure(expectation, wanted, found, others))

    def refute_enqueued(
        self,
        task: AnyTask | str,
        matching: Mapping[str, object] = _NO,
        /,
        *,
        options: Mapping[str, object] = _NO,
        **args: object,
    ) -> None:
        """No job of the kind has these arguments and options, in any state."""
        __tracebackhide__ = True
        expectation, found, others = self._look(task, {**matching, **args}, options)
        if any(not expectation.differences(one) for one in found):
            raise AssertionError(failure(expectation, f"Expected no {expectation}.", found, others))

    def _look(
        self, task: AnyTask | str, args: Mapping[str, object], options: Mapping[str, object]
    ) -> tuple[Expectation, list[EnqueuedJob], Mapping[str, int]]:
        handler = find_handler(self.app.handlers, self._kind(task))
        expectation = Expectation(handler, args, options)
        every = self._rows(None)
        found = [EnqueuedJob.of(row, handler) for row in every if row["kind"] == handler.name]
        return expectation, found, Counter(row["kind"] for row in every if row["kind"] != handler.name)

    def _rows(self, kind: str | None) -> list[Row]:
        return list(self._databases.bridge.run(self.app.database().fetch("jobs_enqueued", kind=kind)))

    def _kind(self, task: AnyTask | str) -> str:
        return find_handler(self.app.handlers, task if isinstance(task, str) else task.kind).name

    # --- running jobs ------------------------------------------------------------------------------------------------

    async def drain(self, *, limit: int = LIMIT, at_once: int = 1, raise_errors: bool = False) -> Drained:
        """Run everything that is due, and what that enqueues, on this event loop and in the queue's order.

        at_once: jobs at a time. raise_errors: stop at the first exception of a handler and raise it here.
        EndlessDrain after `limit` runs.
        """
        await self._inline.settled()
        return await self._drainer.drain(limit=limit, at_once=at_once, raise_errors=raise_errors)

    def drain_sync(self, *, limit: int = LIMIT, at_once: int = 1, raise_errors: bool = False) -> Drained:
        """drain() for blocking code; coroutine handlers run on an event loop in a thread."""
        return self._loops.run(self.drain(limit=limit, at_once=at_once, raise_errors=raise_errors))

    async def run_for(self, span: Span, *, limit: int = LIMIT, raise_errors: bool = False) -> Drained:
        """Let time pass and run every job when it becomes due, upkeep included: "what happens in the next 30 days?"."""
        left = _span(span)
        drained = await self.drain(limit=limit, raise_errors=raise_errors)
        while True:
            wait = await self._clock.until_next()
            step = left if wait is None else min(left, wait)
            await self._clock.travel(step, self._faults.ghosts)
            left -= step
            drained = await self._drainer.drain(limit=limit, raise_errors=raise_errors, before=drained.runs)
            if not left:
                return drained

    def run_for_sync(self, span: Span, *, limit: int = LIMIT, raise_errors: bool = False) -> Drained:
        """run_for() for blocking code."""
        return self._loops.run(self.run_for(span, limit=limit, raise_errors=raise_errors))

    @contextlib.contextmanager
    def inline(self, *, raise_errors: bool = False) -> Iterator[None]:
        """Run every job that is due as soon as it is enqueued, before the enqueue returns.

        Enqueued in a SQLAlchemy session, it runs at the commit: in it when that blocks, right after it on an event loop
        (drain() waits for it). Commits of bare connections cannot be observed: their jobs wait for drain().
        """
        before, self._inline.raise_errors = self._inline.raise_errors, raise_errors
        outer = self.app.watch(self._inline)
        try:
            yield
        finally:
            self.app.watch(outer)
            self._inline.raise_errors = before

    @contextlib.asynccontextmanager
    async def worker(self, lanes: Sequence[str] | Mapping[str, int] | None = None) -> AsyncIterator[Worker]:
        """A real worker on this event loop, which claims by itself; elsewhere in a test workers are off."""
        worker = self.app.make_worker(lanes, handlers=self._faults)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop(after=0)

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The present moment of this test: the real time plus all journeys."""
        return self._clock.now

    async def travel(self, span: Span) -> None:
        """Let time pass: everything stored is that much older, and upkeep has run (expiry, rescue …)."""
        await self._clock.travel(_span(span), self._faults.ghosts)

    def travel_sync(self, span: Span) -> None:
        """travel() for blocking code."""
        self._loops.run(self.travel(span))

    async def travel_to(self, moment: datetime) -> None:
        """Travel until `now` is that moment; it must know its time zone."""
        if moment.tzinfo is None:
            message = f"travel_to() needs a moment with a time zone, such as datetime(…, tzinfo=UTC); got {moment!r}."
            raise InvalidOption(message)
        await self._clock.travel(moment - self.now, self._faults.ghosts)

    def travel_to_sync(self, moment: datetime) -> None:
        """travel_to() for blocking code."""
        self._loops.run(self.travel_to(moment))

    async def travel_to_next(self) -> timedelta | None:
        """Travel to the moment at which the next queued job is due; returns the time passed, None: no job waits."""
        wait = await self._clock.until_next()
        if wait is not None:
            await self._clock.travel(wait, self._faults.ghosts)
        return wait

    def travel_to_next_sync(self) -> timedelta | None:
        """travel_to_next() for blocking code."""
        return self._loops.run(self.travel_to_next())

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def fail_next(
        self, task: AnyTask | str, error: BaseException | type[BaseException] = RuntimeError, *, times: int = 1
    ) -> None:
        """The next runs of the kind raise this instead of calling the handler."""
        self._faults.plan(self._kind(task), RaiseInstead(error), times)

    def lose_worker(self, task: AnyTask | str, *, at: Moment = "end", times: int = 1) -> None:
        """The worker of the next run vanishes like a killed process: nothing is written, its job stays claimed.

        at: "start", before the handler was called, or "end", when it has done its work. After its lane's heartbeat
        timeout (travel there) the job is rescued as its kind's on_worker_lost says.
        """
        self._faults.plan(self._kind(task), LoseWorker(at), times)

    @contextlib.asynccontextmanager
    async def delay_commit(self) -> AsyncIterator[Any]:
        """A connection (asyncpg's) in a transaction that commits at the end of the block: what it enqueues comes late.

        Enqueue with ``task.options(connection=late)``; others that began later commit earlier.
        """
        database = self.app.database()
        connection = await database.connect("late")
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    def drop_connections(self) -> int:
        """End every connection to this test's database, once; returns how many there were."""
        return self._databases.hang_up(self._lent)

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Make the database unreachable during this block: connections are ended and new ones refused."""
        with self._databases.away(self._lent):
            yield

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the application its own settings and connections back, and drop the database."""
        if not self._open:
            return
        self._open = False
        self.app.watch(None)
        database = self.app.database()
        for loop in self._drainer.loops:
            run_in(loop, self._drainer.close)
        for loop in database.loops:
            run_in(loop, database.close)
        self._loops.close()
        self._back()
        self._databases.take_back(self._lent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._drainer.close()
        await self.app.database().close()
        self.close()


def _span(value: Span) -> timedelta:
    return duration(value, "travel")

"""Context: what a handler sees of its job and its worker."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, TypeVar

from rowlock.flow.kinds import json_values
from rowlock.flow.locks.context_managers import Lock
from rowlock.flow.progress.attempt_io import Line, Voice
from rowlock.flow.progress.items import ItemContext, ItemsDone, OpenItem, each, run_items
from rowlock.model import stored_args
from rowlock.model.job import Claim, Job
from rowlock.model.progress import LOGS_OFF, ItemRef
from rowlock.model.state import State

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from datetime import timedelta

    from rowlock.flow.enqueue.workflow_growth import Added, Growth
    from rowlock.flow.progress.job_logs import LogBook
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.store.rows.jobs import Row

T = TypeVar("T")
R = TypeVar("R")


class Context(Voice):
    """Passed to a handler that asks for it. Every write through it carries the claim; a lost claim raises ClaimLost."""

    __slots__ = ("_completed", "_growth", "_job")

    def __init__(
        self,
        row: Row,
        claim: Claim,
        line: Line,
        stopping: asyncio.Event,
        *,
        book: LogBook | None = None,
        log_level: int = LOGS_OFF,
        completed: Callable[[str], str] = str,
    ) -> None:
        """completed: adds the defaults of the handler to stored arguments."""
        super().__init__(row, claim, line, stopping, book=book, log_level=log_level)
        self._completed = completed
        self._job: Job | None = None
        self._growth: Growth | None = None

    @property
    def job(self) -> Job:
        """The job as it was claimed; its args with the handler's defaults."""
        if self._job is None:
            self._job = claimed_job(self._row, self._completed(self._row["args"]))
        return self._job

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins."""
        self.note(done, total, message)

    @contextlib.asynccontextmanager
    async def phase(self, name: str, total: float | None = None, *, done: float = 0) -> AsyncIterator[OpenPhase]:
        """Name what the job is doing now; its counter starts at `done`. Earlier phases stay visible.

        Phases follow one another: one that begins inside another ends it, and the log says so.
        """
        number = self.enter(name, total, done)
        try:
            yield OpenPhase(self, number)
        except BaseException:
            self.leave(number, done=False)
            raise
        self.leave(number)

    def item(self, item: str | ItemRef) -> OpenItem:
        """`async with ctx.item("a"):` an item in progress, then completed; failed if the block raises.

        `raise Skip("why")` inside skips it and goes on after the block. An ItemRef is an item of another job.
        """
        return OpenItem(self, item)

    async def items(
        self,
        things: Iterable[T] | AsyncIterable[T],
        do: Callable[[ItemContext, T], Awaitable[R]],
        *,
        name: Callable[[T], str] = str,
        limit: int = 8,
        resume: bool = False,
    ) -> ItemsDone[R]:
        """Do all things, `limit` at a time, each as a named item, and go on past those that fail.

        If some failed, the job ends as completed_with_errors. resume: leave out what earlier attempts finished.
        """
        return await run_items(self, things, do, name=name, limit=limit, resume=resume)

    async def hand_over(self, name: str) -> ItemRef:
        """Leave an item to another job: pass the reference as an argument, for `ctx.item(ref)` there.

        It can be reported only while both this attempt and that job's hold their claims.
        """
        item = OpenItem(self, name)
        item.begin()
        await self.line.save(self._reported())
        return item.item

    async def wait_for(self, signal: str, *, timeout: timedelta | str | float | None = None) -> Any:  # noqa: ANN401 - what was sent
        """What was sent as the signal of that name; the first one counts, and it may have come before this call.

        While it has not come the job gives its slot back; then the handler is called again from its top. So what is
        done before must bear being done again. SignalTimeout when none came within `timeout` of the first call.
        """
        return await self.received(signal, timeout)

    @property
    def checkpoint(self) -> Checkpoint:
        """What a later attempt resumes from: `await ctx.checkpoint.save(value)`, `await ctx.checkpoint.load()`."""
        return Checkpoint(self)

    async def resume(self, name: str, things: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
        """`async for thing in ctx.resume("chunk", things):` goes on after the last element an earlier attempt did.

        An element is done when the next one is asked for. The things must come in the same order each time.
        """
        done = await self.cursor(name)
        n = 0
        async for thing in each(things):
            n += 1
            if n > done:
                yield thing
                self.reach(name, n)

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """`async with ctx.lock("edition", 7):` one thing at a time for this key, over all processes.

        wait=False: LockTaken at once if somebody has it. timeout: LockTimeout after that long; None: wait on.
        """
        return Lock(lambda: self.line.locks, self.wish(namespace, key, None, wait=wait, timeout=timeout))

    @property
    def workflow(self) -> Growth:
        """The workflow this job is a step of: `await ctx.workflow.add(step)` adds one to it while it runs."""
        if self._growth is None:
            from rowlock.flow.enqueue.workflow_growth import Growth  # noqa: PLC0415 - few jobs add steps to a workflow

            self._growth = Growth(self.claim, self._row["kind"], self.line)
        return self._growth

    async def spawn(self, steps: Iterable[object], *, join: bool = True) -> list[Added]:
        """Add steps to this job's workflow that may start at once. join: who waits for this job waits for them, too."""
        return await self.workflow.spawn(steps, join=join)

    @contextlib.asynccontextmanager
    async def guarded(self, session: object) -> AsyncIterator[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit.

        The block must be inside the session's transaction; whoever revokes the claim waits for that commit.
        """
        await self.in_transaction(session, self.line.statements["guard"], "ctx.guarded()")
        yield

    @contextlib.contextmanager
    def guarded_sync(self, session: object) -> Iterator[None]:
        """guarded() for blocking code with a blocking session."""
        self.in_transaction_sync(session, self.line.statements["guard"], "ctx.guarded()")
        yield


class OpenPhase:
    """A named part of the work with its own counter."""

    __slots__ = ("_context", "_number")

    def __init__(self, context: Context, number: int) -> None:
        self._context, self._number = context, number

    async def advance(self, by: float = 1, message: str | None = None) -> None:
        """Count on; nothing once another phase began."""
        self._context.advance(by, message, self._number)


class Checkpoint:
    """What a later attempt resumes from: one value of JSON per job; it survives crashes and retries."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    async def save(self, value: object, *, session: object = None) -> None:
        """Store it; returns once it is committed.

        session: a session or connection with an open transaction: it is committed with the caller's own rows, or not.
        """
        encoded = json_values.checkpoint(value)
        if session is None:
            await self._context.save_encoded(encoded)
        else:
            statement = self._context.line.statements["save_checkpoint"]
            await self._context.in_transaction(session, statement, "ctx.checkpoint.save()", checkpoint=encoded)

    async def load(self) -> Any:  # noqa: ANN401 - whatever was saved
        """What this attempt or an earlier one saved last; None: nothing."""
        text = await self._context.line.load(self._context.claim)
        return None if text is None else json.loads(text)


def claimed_job(row: Row, text: str) -> Job:
    """A Job from the columns a claim returns; text: of its arguments."""
    args = json.loads(text)
    return Job(
        id=row["id"],
        kind=row["kind"],
        state=State.RUNNING,
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        losses=row["losses"],
        created_at=row["created_at"],
        run_after=row["run_after"],
        claimed_at=row["claimed_at"],
        fence=row["fence"],
        lane=row["lane"],
        tenant=row["tenant"],
        submitted_by=row["submitted_by"],
        gate_key=row["gate_key"],
        tags=tuple(row["tags"] or ()),
        refs=json.loads(row["refs"] or "{}"),
        meta=json.loads(row["meta"] or "{}"),
        args=stored_args.shown(args),
        args_version=stored_args.version_of(args),
    )

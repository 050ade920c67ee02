"""Context: what an async handler sees of its job and its worker."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from rowlock.flow.kinds import json_values
from rowlock.flow.locks.context_managers import Lock
from rowlock.flow.progress.base_context import BaseContext
from rowlock.flow.progress.claim_guard import GuardedBlock
from rowlock.flow.progress.items import (
    ItemContext,
    ItemsDone,
    ItemTracker,
    OpenItem,
    each,
    hand_over,
    run_items,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
    from datetime import timedelta

    from rowlock.flow.enqueue.workflow_additions import Added, CurrentWorkflow
    from rowlock.flow.progress.attempt_io import AttemptIO
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.model.outcome import Outcome
    from rowlock.model.progress import ItemRef

T = TypeVar("T")
R = TypeVar("R")


class Context(BaseContext):
    """Passed to a handler that asks for it. Every write through it carries the claim; a lost claim raises ClaimLost."""

    __slots__ = ()

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins.

        Like every call that is awaited here, it lets other tasks run when the handler has held the event loop.
        """
        self._io.set_progress(done, total, message)
        await self._io.loop_share.give_way()

    @contextlib.asynccontextmanager
    async def phase(self, name: str, total: float | None = None, *, done: float = 0) -> AsyncIterator[OpenPhase]:
        """Name what the job is doing now; its counter starts at `done`. Earlier phases stay visible.

        Phases follow one another: a phase that begins inside another one ends it, and a warning is logged.
        """
        number = self._io.begin_phase(name, total, done)
        try:
            await self._io.loop_share.give_way()
            yield OpenPhase(self._io, number)
        except BaseException:
            self._io.end_phase(number, completed=False)
            raise
        self._io.end_phase(number)

    def item(self, item: str | ItemRef) -> OpenItem:
        """`async with ctx.item("a"):` an item in progress, then completed; failed if the block raises.

        `raise Skip("why")` inside skips it and goes on after the block. An ItemRef is an item of another job.
        """
        return OpenItem(ItemTracker(self._io, item))

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
        return await run_items(self._io, things, do, name=name, limit=limit, resume=resume)

    async def hand_over(self, name: str) -> ItemRef:
        """Leave an item to another job: pass the reference as an argument, for `ctx.item(ref)` there.

        It can be reported only while both this attempt and that job's hold their claims.
        """
        return await hand_over(self._io, name)

    async def wait_for(self, signal: str, *, timeout: timedelta | str | float | None = None) -> Any:  # noqa: ANN401 - what was sent
        """The payload of a signal; the first one sent counts, even if it came before this call.

        While it has not come the job gives its slot back; then the handler is called again from its top. So the work
        before this call must bear being repeated. SignalTimeout when none came within `timeout` of the first call.
        """
        return await self._io.wait_for_signal(signal, timeout)

    @property
    def checkpoint(self) -> Checkpoint:
        """What a later attempt resumes from: `await ctx.checkpoint.save(value)`, `await ctx.checkpoint.load()`."""
        return Checkpoint(self._io)

    async def resume(self, name: str, things: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
        """`async for thing in ctx.resume("chunk", things):` goes on after the last element an earlier attempt did.

        An element is done when the next one is asked for. The things must come in the same order each time.
        """
        done = await self._io.cursor(name)
        n = 0
        async for thing in each(things):
            n += 1
            if n > done:
                yield thing
                self._io.set_cursor(name, n)
            await self._io.loop_share.give_way()

    def lock(self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None) -> Lock:
        """`async with ctx.lock("edition", 7):` one holder at a time for this key, over all processes.

        wait=False: LockTaken at once if it is held. timeout: LockTimeout after that long; None: wait without limit.
        """
        channel = self._io.channel
        return Lock(lambda: channel.locks, self._io.lock_request(namespace, key, None, wait=wait, timeout=timeout))

    def outcome_of(self, error: BaseException) -> Outcome:
        """The outcome of this attempt if it ends with that error now, such as Retried or Failed; for middleware."""
        return self._io.outcome_of(error)

    @property
    def workflow(self) -> CurrentWorkflow:
        """The workflow this job is a step of: `await ctx.workflow.add(step)` adds one to it while it runs."""
        return self._io.workflow

    async def spawn(self, steps: Iterable[object], *, join: bool = True) -> list[Added]:
        """Add steps to this job's workflow that may start at once. join: steps that wait for this job wait for them."""
        return await self._io.workflow.spawn(steps, join=join)

    def guarded(self, session: object) -> contextlib.AbstractAsyncContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit.

        The block must be inside the session's transaction; a cancel, stop or rescue of the job waits for its commit.
        """
        return GuardedBlock(lambda: self._io.guard(session))


class OpenPhase:
    """A named part of the work with its own counter."""

    __slots__ = ("_io", "_number")

    def __init__(self, io: AttemptIO, number: int) -> None:
        self._io, self._number = io, number

    async def advance(self, by: float = 1, message: str | None = None) -> None:
        """Add to the counter; does nothing once another phase began."""
        self._io.advance(by, message, self._number)
        await self._io.loop_share.give_way()


class Checkpoint:
    """What a later attempt resumes from: one JSON value per job; it survives crashes and retries."""

    __slots__ = ("_io",)

    def __init__(self, io: AttemptIO) -> None:
        self._io = io

    async def save(self, value: object, *, session: object = None) -> None:
        """Store it; returns once it is committed.

        session: a session or connection with an open transaction: it is committed with the caller's own rows, or not.
        """
        encoded = json_values.checkpoint(value)
        await self._io.loop_share.give_way()
        if session is None:
            await self._io.save_checkpoint(encoded)
        else:
            await self._io.save_checkpoint_in(session, encoded)

    async def load(self) -> Any:  # noqa: ANN401 - whatever was saved
        """What this attempt or an earlier one saved last; None: nothing."""
        return await self._io.load_checkpoint()

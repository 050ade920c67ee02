"""SyncContext: what a blocking handler sees of its job and its worker."""

from __future__ import annotations

import contextlib
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, TypeVar

from rowlock.errors import Stopped
from rowlock.flow.kinds import json_values
from rowlock.flow.progress.base_context import BaseContext
from rowlock.flow.progress.items import ItemResults, ItemTracker, checked_limit, hand_over
from rowlock.flow.progress.sync_io import SyncAttemptIO, ThreadsafeLoopCaller
from rowlock.flow.progress.sync_items import ItemThreads
from rowlock.model.progress import Skip

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from rowlock.flow.enqueue.workflow_additions import Added
    from rowlock.flow.locks.context_managers import SyncLock
    from rowlock.flow.progress.attempt_io import AttemptIO
    from rowlock.flow.progress.items import ItemsDone
    from rowlock.flow.progress.sync_items import SyncItemContext
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.model.progress import ItemRef
    from rowlock.model.workflow import Needs

T = TypeVar("T")
R = TypeVar("R")


def sync_context_of(io: AttemptIO, loop: asyncio.AbstractEventLoop) -> SyncContext:
    """The context of a blocking handler whose attempt belongs to that loop."""
    return SyncContext(SyncAttemptIO(io, ThreadsafeLoopCaller(loop)))


class SyncContext(BaseContext):
    """Passed to a blocking handler that asks for it. Each call is a point where the handler can be stopped.

    A handler that is asked to stop (cancel, timeout, shutdown) gets Stopped, one that lost its claim ClaimLost: let
    both pass.
    """

    __slots__ = ("_sync",)

    def __init__(self, sync: SyncAttemptIO) -> None:
        super().__init__(sync.io)
        self._sync = sync

    def check(self) -> None:
        """Raise if the attempt has to stop here; call it in loops that report nothing."""
        self._sync.check()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins."""
        self._sync.report(lambda: self._io.set_progress(done, total, message))

    @contextlib.contextmanager
    def phase(self, name: str, total: float | None = None, *, done: float = 0) -> Iterator[SyncOpenPhase]:
        """Name what the job is doing now; its counter starts at `done`. Earlier phases stay visible.

        Phases follow one another: a phase that begins inside another one ends it, and a warning is logged.
        """
        number = [0]

        def begin() -> None:
            number[0] = self._io.begin_phase(name, total, done)

        self._sync.report(begin)
        try:
            yield SyncOpenPhase(self._sync, number)
        except BaseException:
            self._sync.send(lambda: self._io.end_phase(number[0], completed=False))
            raise
        self._sync.report(lambda: self._io.end_phase(number[0]))

    @contextlib.contextmanager
    def item(self, item: str | ItemRef) -> Iterator[None]:
        """`with ctx.item("a"):` an item in progress, then completed; failed if the block raises.

        `raise Skip("why")` inside skips it and goes on after the block. An ItemRef is an item of another job.
        """
        self.check()
        # On the loop: only there it is known in which phase the item begins.
        tracker = self._sync.call(lambda: ItemTracker(self._io, item))
        self._sync.report(tracker.begin)
        try:
            yield
        except Skip as skip:
            reason = skip
            self._sync.report(lambda: tracker.end(reason))
        except Stopped:
            raise
        except BaseException as raised:
            error = raised
            self._sync.report(lambda: tracker.end(error))
            raise
        else:
            self._sync.report(lambda: tracker.end(None))

    def items(
        self,
        things: Iterable[T],
        do: Callable[[SyncItemContext, T], R],
        *,
        name: Callable[[T], str] = str,
        limit: int = 8,
        resume: bool = False,
    ) -> ItemsDone[R]:
        """Do all things in `limit` threads, each as a named item, and go on past those that fail.

        If some failed, the job ends as completed_with_errors. resume: leave out what earlier attempts finished.
        """
        checked_limit(limit)
        count = len(things) if isinstance(things, Sized) else None
        self._sync.report(lambda: self._io.expect_items(count))
        kept = self._sync.wait(self._io.kept_items(resume=resume))
        results: ItemResults[T, R] = ItemResults(self._io, name, kept)
        ItemThreads(self._sync, things, do, results).run(limit)
        return self._sync.call(results.done)

    def hand_over(self, name: str) -> ItemRef:
        """Leave an item to another job: pass the reference as an argument, for `ctx.item(ref)` there."""
        self.check()
        return self._sync.wait(hand_over(self._io, name))

    def wait_for(self, signal: str, *, timeout: timedelta | str | float | None = None) -> Any:  # noqa: ANN401 - what was sent
        """The payload of a signal; see Context.wait_for: the handler is called again from its top."""
        self.check()
        return self._sync.wait(self._io.wait_for_signal(signal, timeout))

    @property
    def checkpoint(self) -> SyncCheckpoint:
        """What a later attempt resumes from: `ctx.checkpoint.save(value)`, `ctx.checkpoint.load()`."""
        return SyncCheckpoint(self._sync)

    def resume(self, name: str, things: Iterable[T]) -> Iterator[T]:
        """`for thing in ctx.resume("chunk", things):` goes on after the last element an earlier attempt did.

        An element is done when the next one is asked for. The things must come in the same order each time.
        """
        done = self._sync.wait(self._io.cursor(name))
        for n, thing in enumerate(things, 1):
            if n > done:
                yield thing
                self._reached(name, n)

    def _reached(self, name: str, n: int) -> None:
        self._sync.report(lambda: self._io.set_cursor(name, n))

    def lock(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> AbstractContextManager[SyncLock]:
        """`with ctx.lock("edition", 7):` one holder at a time for this key, over all processes.

        wait=False: LockTaken at once if it is held. timeout: LockTimeout after that long; None: wait without limit.
        """
        return self._sync.locked(self._io.lock_request(namespace, key, None, wait=wait, timeout=timeout), None)

    @property
    def workflow(self) -> SyncCurrentWorkflow:
        """The workflow this job is a step of: `ctx.workflow.add(step)` adds one to it while it runs."""
        return SyncCurrentWorkflow(self._sync)

    def spawn(self, steps: Iterable[object], *, join: bool = True) -> list[Added]:
        """Add steps to this job's workflow that may start at once. join: steps that wait for this job wait for them."""
        self.check()
        return self._sync.wait(self._io.workflow.spawn(steps, join=join))

    def guarded(self, session: object) -> AbstractContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        self.check()
        return self._sync.guarded(session)


class SyncOpenPhase:
    """A named part of the work with its own counter."""

    __slots__ = ("_number", "_sync")

    def __init__(self, sync: SyncAttemptIO, number: list[int]) -> None:
        """number: a list of one, which holds the phase's number as soon as the loop has begun it."""
        self._sync, self._number = sync, number

    def advance(self, by: float = 1, message: str | None = None) -> None:
        """Add to the counter; does nothing once another phase began. Raises when the attempt has to stop."""
        self._sync.report(lambda: self._sync.io.advance(by, message, self._number[0]))


class SyncCheckpoint:
    """What a later attempt resumes from: one JSON value per job; it survives crashes and retries."""

    __slots__ = ("_sync",)

    def __init__(self, sync: SyncAttemptIO) -> None:
        self._sync = sync

    def save(self, value: object, *, session: object = None) -> None:
        """Store it; returns once it is committed.

        session: a session or connection with an open transaction: it is committed with the caller's own rows, or not.
        """
        self._sync.check()
        encoded = json_values.checkpoint(value)
        if session is None:
            self._sync.wait(self._sync.io.save_checkpoint(encoded))
        else:
            self._sync.io.save_checkpoint_in_sync(session, encoded)

    def load(self) -> Any:  # noqa: ANN401 - whatever was saved
        """What this attempt or an earlier one saved last; None: nothing."""
        return self._sync.wait(self._sync.io.load_checkpoint())


class SyncCurrentWorkflow:
    """ctx.workflow of a blocking handler."""

    __slots__ = ("_sync",)

    def __init__(self, sync: SyncAttemptIO) -> None:
        self._sync = sync

    def add(
        self,
        step: object,
        *,
        name: str | None = None,
        after: Iterable[Added | str] = (),
        before: Iterable[Added | str] = (),
        when: Needs = "success",
        any_of: bool = False,
    ) -> Added:
        """Add a task or step. after: steps it waits for, none by default; before: steps that wait for it, too."""
        self._sync.check()
        current = self._sync.io.workflow
        return self._sync.wait(current.add(step, name=name, after=after, before=before, when=when, any_of=any_of))

"""SyncContext: the context of a blocking handler, bridged to the loop its attempt lives on."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Sized
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from rowlock.errors import ClaimLost, Stopped
from rowlock.flow.kinds import json_values
from rowlock.flow.locks.context_managers import SyncLock, taken
from rowlock.flow.progress.items import ItemsDone, ItemView, Move, Tally, checked_limit
from rowlock.model.progress import Skip

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from rowlock.flow.enqueue.workflow_growth import Added
    from rowlock.flow.locks.lock import Hold, Wish
    from rowlock.flow.progress.attempt_io import Line
    from rowlock.flow.progress.context import Context
    from rowlock.model.job import Claim, Job
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.model.progress import ItemRef
    from rowlock.model.workflow import Needs
    from rowlock.telemetry import JobLog

T = TypeVar("T")
R = TypeVar("R")
_LOOK_EVERY: Final = 0.2
"""Seconds between two looks, while items run, whether they have to stop."""


class SyncContext:
    """Passed to a blocking handler that asks for it. Each call is a point where the handler can be stopped.

    Told to stop (cancel, timeout, shutdown) it raises Stopped, without its claim ClaimLost: let both pass.
    """

    __slots__ = ("_context", "_loop")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        return self._context.job

    @property
    def claim(self) -> Claim:
        """What every write of this attempt carries."""
        return self._context.claim

    @property
    def deadline(self) -> float | None:
        """time.monotonic() at which the timeout strikes; None: there is none."""
        return self._context.deadline

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job, and are stored with it whatever logging is set up to do."""
        return self._context.log

    @property
    def state(self) -> Mapping[str, Any]:
        """What the worker's lifespans yielded."""
        return self._context.state

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was told to stop."""
        return self._context.cancelled

    def check(self) -> None:
        """Raise if the attempt has to stop here; call it in loops that report nothing."""
        if self._context.lost:
            message = f"Job {self.claim.job_id} is not this attempt's any more; nothing it reports is kept."
            raise ClaimLost(message)
        if self._context.cancelled:
            message = f"Job {self.claim.job_id} was told to stop."
            raise Stopped(message)
        for hold, thread in self._context.holds:
            if thread in (None, threading.get_ident()):
                hold.check()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins."""
        self._say(self._context.note, done, total, message)

    @contextlib.contextmanager
    def phase(self, name: str, total: float | None = None, *, done: float = 0) -> Iterator[SyncOpenPhase]:
        """Name what the job is doing now; its counter starts at `done`. Earlier phases stay visible.

        Phases follow one another: one that begins inside another ends it, and the log says so.
        """
        phase = SyncOpenPhase(self)
        self._say(phase.enter, self._context, name, total, done)
        try:
            yield phase
        except BaseException:
            self._tell(phase.leave, self._context, False)  # noqa: FBT003 - done
            raise
        self._say(phase.leave, self._context, True)  # noqa: FBT003 - done

    def advance(self, by: float = 1, message: str | None = None, phase: SyncOpenPhase | None = None) -> None:
        """Count on in the present phase."""
        self._say(lambda: self._context.advance(by, message, None if phase is None else phase.number))

    @contextlib.contextmanager
    def item(self, item: str | ItemRef) -> Iterator[None]:
        """`with ctx.item("a"):` an item in progress, then completed; failed if the block raises.

        `raise Skip("why")` inside skips it and goes on after the block. An ItemRef is an item of another job.
        """
        self.check()
        move = self._wait(_done(lambda: Move(self._context, item)))
        self._say(move.begin)
        try:
            yield
        except Skip as skip:
            self._say(move.end, skip)
        except Exception as error:
            self._say(move.end, error)
            raise
        else:
            self._say(move.end, None)

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
        self._say(self._context.expect, len(things) if isinstance(things, Sized) else None)
        kept = self._wait(self._context.kept_items(resume=resume))
        crowd = Crowd(self, things, do, Tally(self._context, name, kept))
        crowd.work(limit)
        return self._wait(_done(crowd.tally.done))

    def hand_over(self, name: str) -> ItemRef:
        """Leave an item to another job: pass the reference as an argument, for `ctx.item(ref)` there."""
        self.check()
        return self._wait(self._context.hand_over(name))

    def wait_for(self, signal: str, *, timeout: timedelta | str | float | None = None) -> Any:  # noqa: ANN401 - what was sent
        """What was sent as the signal of that name; see Context.wait_for: the handler is called again from its top."""
        self.check()
        return self._wait(self._context.received(signal, timeout))

    @property
    def checkpoint(self) -> SyncCheckpoint:
        """What a later attempt resumes from: `ctx.checkpoint.save(value)`, `ctx.checkpoint.load()`."""
        return SyncCheckpoint(self)

    def resume(self, name: str, things: Iterable[T]) -> Iterator[T]:
        """`for thing in ctx.resume("chunk", things):` goes on after the last element an earlier attempt did.

        An element is done when the next one is asked for. The things must come in the same order each time.
        """
        done = self._wait(self._context.cursor(name))
        for n, thing in enumerate(things, 1):
            if n > done:
                yield thing
                self._say(self._context.reach, name, n)

    def lock(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> AbstractContextManager[SyncLock]:
        """`with ctx.lock("edition", 7):` one thing at a time for this key, over all processes.

        wait=False: LockTaken at once if somebody has it. timeout: LockTimeout after that long; None: wait on.
        """
        return self._locked(self._context.wish(namespace, key, None, wait=wait, timeout=timeout), None)

    @contextlib.contextmanager
    def _locked(self, wish: Wish, thread: int | None) -> Iterator[SyncLock]:
        self.check()
        hold, error, line = self._taken(wish), None, self._context.line
        held = (hold, thread)
        self._context.holds.append(held)
        try:
            yield SyncLock(hold)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._context.holds.remove(held)
            self._wait(_released(line, hold))
            hold.conclude(error)

    def _taken(self, wish: Wish) -> Hold:
        return taken(self._loop, lambda: self._context.line.locks, wish, self.check)

    @property
    def workflow(self) -> SyncGrowth:
        """The workflow this job is a step of: `ctx.workflow.add(step)` adds one to it while it runs."""
        return SyncGrowth(self)

    def spawn(self, steps: Iterable[object], *, join: bool = True) -> list[Added]:
        """Add steps to this job's workflow that may start at once. join: who waits for this job waits for them, too."""
        self.check()
        return self._wait(self._context.workflow.spawn(steps, join=join))

    def guarded(self, session: object) -> AbstractContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        self.check()
        return self._context.guarded_sync(session)

    def _say(self, what: Callable[..., None], *args: object) -> None:
        """Have the loop note it without waiting: a report is never worth a handler's time."""
        self.check()
        self._tell(what, *args)

    def _tell(self, what: Callable[..., None], *args: object) -> None:
        def noted() -> None:
            # The claim may have gone meanwhile; the handler hears of that at its next call.
            with contextlib.suppress(ClaimLost):
                what(*args)

        with contextlib.suppress(RuntimeError):  # the loop is closed: the job was returned over the handler's head
            self._loop.call_soon_threadsafe(noted)

    def _wait(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class SyncOpenPhase:
    """A named part of the work with its own counter."""

    __slots__ = ("_context", "number")

    def __init__(self, context: SyncContext) -> None:
        self._context, self.number = context, 0

    def enter(self, context: Context, name: str, total: float | None, done: float) -> None:
        """Begin, on the loop."""
        self.number = context.enter(name, total, done)

    def leave(self, context: Context, done: bool) -> None:  # noqa: FBT001 - from a callback
        """The block is over, on the loop."""
        context.leave(self.number, done=done)

    def advance(self, by: float = 1, message: str | None = None) -> None:
        """Count on, nothing once another phase began; raises when the attempt has to stop."""
        self._context.advance(by, message, self)


class SyncCheckpoint:
    """What a later attempt resumes from: one value of JSON per job; it survives crashes and retries."""

    __slots__ = ("_context",)

    def __init__(self, context: SyncContext) -> None:
        self._context = context

    def save(self, value: object, *, session: object = None) -> None:
        """Store it; returns once it is committed.

        session: a session or connection with an open transaction: it is committed with the caller's own rows, or not.
        """
        self._context.check()
        context = self._context._context  # noqa: SLF001 - of this module
        if session is None:
            self._context._wait(context.checkpoint.save(value))  # noqa: SLF001 - of this module
        else:
            statement, encoded = context.line.statements["save_checkpoint"], json_values.checkpoint(value)
            context.in_transaction_sync(session, statement, "ctx.checkpoint.save()", checkpoint=encoded)

    def load(self) -> Any:  # noqa: ANN401 - whatever was saved
        """What this attempt or an earlier one saved last; None: nothing."""
        return self._context._wait(self._context._context.checkpoint.load())  # noqa: SLF001 - of this module


class SyncGrowth:
    """ctx.workflow of a blocking handler."""

    __slots__ = ("_context",)

    def __init__(self, context: SyncContext) -> None:
        self._context = context

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
        self._context.check()
        growth = self._context._context.workflow  # noqa: SLF001 - of this module
        adding = growth.add(step, name=name, after=after, before=before, when=when, any_of=any_of)
        return self._context._wait(adding)  # noqa: SLF001 - of this module


class SyncItemContext(ItemView[SyncContext]):
    """Passed to what SyncContext.items() calls, in a thread, with the thing itself."""

    __slots__ = ()

    def check(self) -> None:
        """Raise if the attempt has to stop here."""
        self._context.check()

    def lock(
        self, namespace: str, key: LockKey, *, wait: bool = True, timeout: Span | None = None
    ) -> AbstractContextManager[SyncLock]:
        """`with ctx.lock("edition", 7):` one thing at a time for this key, over all items, jobs and processes."""
        whole = self._context
        wish = whole._context.wish(namespace, key, self.name, wait=wait, timeout=timeout)  # noqa: SLF001 - of this module
        return whole._locked(wish, threading.get_ident())  # noqa: SLF001 - of this module

    def guarded(self, session: object) -> AbstractContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        return self._context.guarded(session)


class Crowd(Generic[T, R]):
    """The threads of one SyncContext.items(): each takes one thing after the other."""

    def __init__(
        self,
        context: SyncContext,
        things: Iterable[T],
        do: Callable[[SyncItemContext, T], R],
        tally: Tally[T, R],
    ) -> None:
        self.tally, self._context, self._do, self._source = tally, context, do, iter(things)
        self._turn, self._over = threading.Lock(), threading.Event()

    def work(self, threads: int) -> None:
        """Until nothing is left, or the attempt has to stop; what is under way then is waited for."""
        with ThreadPoolExecutor(threads, thread_name_prefix="rowlock-item") as pool:
            futures = [pool.submit(contextvars.copy_context().run, self._one_after_the_other) for _ in range(threads)]
            try:
                while wait_for(futures, _LOOK_EVERY, FIRST_EXCEPTION).not_done:
                    if any(future.done() and future.exception() for future in futures):
                        break
            finally:
                # Stopped by a signal inside the wait, or by one of them: the others take nothing more.
                self._over.set()
        for future in futures:
            future.result()

    def _one_after_the_other(self) -> None:
        context, say = self._context, self._context._say  # noqa: SLF001 - of this module
        while not self._over.is_set() and (found := self._next()) is not None:
            name, thing = found
            move = Move(self.tally.voice, name)
            say(move.begin)
            try:
                self.tally.results[name] = self._do(SyncItemContext(context, name), thing)
            except ClaimLost:
                raise
            except Exception as error:  # noqa: BLE001 - told with the item; the others go on
                say(self.tally.ended, move, error)
            else:
                say(self.tally.ended, move, None)

    def _next(self) -> tuple[str, T] | None:
        with self._turn:
            for thing in self._source:
                name = self.tally.named(thing)
                if name not in self.tally.kept:
                    return name, thing
                self._context.advance()
        return None


async def _released(line: Line, hold: Hold) -> None:
    await line.locks.release(hold)


async def _done(what: Callable[[], T]) -> T:
    """On the loop, after everything said before."""
    return what()

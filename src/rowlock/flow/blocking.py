"""SyncContext: the context of a blocking handler, bridged to the loop its attempt lives on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from rowlock.errors import ClaimLost, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from contextlib import AbstractContextManager

    from rowlock.flow.context import Context
    from rowlock.model.job import Claim, Job
    from rowlock.telemetry import JobLog

T = TypeVar("T")


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
        """A logger whose records carry the job."""
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

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the job is. Coalesced: at most one write a second, the newest wins."""
        self._say(self._context.note, done, total, message)

    @contextlib.contextmanager
    def phase(self, name: str, total: float | None = None) -> Iterator[SyncPhase]:
        """Name what the job is doing now; counters start anew."""
        self._say(self._context.enter, name, total)
        yield SyncPhase(self)

    def advance(self, by: float = 1, message: str | None = None) -> None:
        """Count on in the present phase."""
        self._say(self._context.advance, by, message)

    def save_checkpoint(self, value: object) -> None:
        """Store what a later attempt resumes from; returns once it is committed."""
        self.check()
        self._wait(self._context.save_checkpoint(value))

    def load_checkpoint(self) -> object:
        """What an earlier attempt saved; None: nothing."""
        return self._wait(self._context.load_checkpoint())

    def guarded(self, session: object) -> AbstractContextManager[None]:
        """Commit the caller's own rows only while the claim holds: it is checked and held until their commit."""
        self.check()
        return self._context.guarded_sync(session)

    def _say(self, what: Callable[..., None], *args: object) -> None:
        """Have the loop note it without waiting: a report is never worth a handler's time."""
        self.check()

        def noted() -> None:
            # The claim may have gone meanwhile; the handler hears of that at its next call.
            with contextlib.suppress(ClaimLost):
                what(*args)

        with contextlib.suppress(RuntimeError):  # the loop is closed: the job was returned over the handler's head
            self._loop.call_soon_threadsafe(noted)

    def _wait(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class SyncPhase:
    """A named part of the work with its own counter."""

    __slots__ = ("_context",)

    def __init__(self, context: SyncContext) -> None:
        self._context = context

    def advance(self, by: float = 1, message: str | None = None) -> None:
        """Count on; raises when the attempt has to stop."""
        self._context.advance(by, message)

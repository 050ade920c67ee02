"""Waiting for jobs to end, with one LISTEN connection per event loop for all waiters."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
import weakref
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar, assert_never

from rowlock.errors import WaitTimeout
from rowlock.model.messages import (
    AwaitedEnds,
    CancelRequested,
    ClaimsRevoked,
    DrainRequested,
    LanesEdited,
    LockReleased,
    SchedulesEdited,
    WakeUp,
)
from rowlock.store.notify import NotificationListener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.model.messages import Message
    from rowlock.store.database import Database

OnEnds: TypeAlias = Callable[[Sequence[int] | None], None]
"""Called with the ids of jobs that may have ended; None: messages may have been missed."""


T = TypeVar("T", bound="Finishable")
_POLL: Final = 1.0


class Finishable(Protocol):
    """A job or a workflow."""

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""

    @property
    def public_id(self) -> str:
        """The id to show to people."""

    @property
    def state(self) -> str:
        """Its state."""


async def until_final(
    database: Database,
    end_notifications: EndNotifications,
    key: int,
    look: Callable[[], Awaitable[T]],
    *,
    timeout: float | None,
    what: str,
) -> T:
    """Wait until the value that `look` reads is final. key: a job's id, or the negative id of a workflow."""
    until = None if timeout is None else time.monotonic() + timeout
    found = await look()
    if found.is_final:
        return found
    waiter = uuid.uuid4()
    try:
        async with end_notifications.notified_of(key) as may_have_ended:
            await database.fetch("await_job", id=key, waiter=waiter, seconds=timedelta(seconds=timeout or 86400))
            while not (found := await look()).is_final:
                left = _POLL if until is None else min(_POLL, until - time.monotonic())
                if left <= 0:
                    message = (
                        f"{what} {found.public_id} is still {found.state} after {timeout:g} s. "
                        "It goes on; wait again or cancel it."
                    )
                    raise WaitTimeout(message)
                may_have_ended.clear()
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: before Python 3.12 it may forget a cancellation.
                    async with asyncio.timeout(left):
                        await may_have_ended.wait()
            return found
    finally:
        await database.fetch("forget_waiter", id=key, waiter=waiter)


class EndNotifications:
    """Receives the ends of jobs; the connection is opened for the first waiter and closed after the last."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaiters] = weakref.WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def notified_of(self, job_id: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the job may have ended."""
        waiters, may_have_ended = self._waiters_here(), asyncio.Event()
        waiters.enter(job_id, may_have_ended)
        try:
            yield may_have_ended
        finally:
            await waiters.leave(job_id, may_have_ended)

    @contextlib.asynccontextmanager
    async def subscribed(self, on_ends: OnEnds) -> AsyncIterator[None]:
        """Call `on_ends` whenever awaited jobs may have ended."""
        waiters = self._waiters_here()
        waiters.subscribe(on_ends)
        try:
            yield
        finally:
            await waiters.unsubscribe(on_ends)

    def _waiters_here(self) -> _LoopWaiters:
        loop = asyncio.get_running_loop()
        waiters, database = self._loops.get(loop), self._open()
        if waiters is None or waiters.database is not database:
            waiters = self._loops[loop] = _LoopWaiters(database)
        return waiters


class _LoopWaiters:
    """The waiters of one event loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._subscribers: set[OnEnds] = set()
        self._listener: NotificationListener | None = None

    def enter(self, job_id: int, may_have_ended: asyncio.Event) -> None:
        self._waiting.setdefault(job_id, set()).add(may_have_ended)
        self._open()

    def subscribe(self, on_ends: OnEnds) -> None:
        self._subscribers.add(on_ends)
        self._open()

    def _open(self) -> None:
        if self._listener is None:
            self._listener = NotificationListener(self.database, self._on_message, self._everyone)
            self._listener.start()

    async def leave(self, job_id: int, may_have_ended: asyncio.Event) -> None:
        self._waiting[job_id].discard(may_have_ended)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
        await self._close()

    async def unsubscribe(self, on_ends: OnEnds) -> None:
        self._subscribers.discard(on_ends)
        await self._close()

    async def _close(self) -> None:
        if not (self._waiting or self._subscribers) and self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.stop()

    def _on_message(self, message: Message) -> None:
        match message:
            case AwaitedEnds(keys):
                self._ended(tuple(keys))
            case (
                WakeUp()
                | CancelRequested()
                | ClaimsRevoked()
                | LanesEdited()
                | SchedulesEdited()
                | DrainRequested()
                | LockReleased()
            ):
                pass
            case _:
                assert_never(message)

    def _ended(self, keys: Sequence[int]) -> None:
        for on_ends in tuple(self._subscribers):
            on_ends(keys)
        for key in keys:
            for may_have_ended in self._waiting.get(key, ()):
                may_have_ended.set()

    def _everyone(self) -> None:
        # Messages sent before the connection was open are lost, so every waiter checks its job.
        for on_ends in tuple(self._subscribers):
            on_ends(None)
        for waiting in self._waiting.values():
            for may_have_ended in waiting:
                may_have_ended.set()

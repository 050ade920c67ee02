"""Waiting for jobs to end: one LISTEN connection per event loop, however many wait or follow."""

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
        """Where it is in its life."""


async def until_final(
    database: Database,
    end_notifications: EndNotifications,
    key: int,
    look: Callable[[], Awaitable[T]],
    *,
    timeout: float | None,
    what: str,
) -> T:
    """Wait until what `look` finds has ended; key: under which it is told, a job's id or a workflow's below zero."""
    until = None if timeout is None else time.monotonic() + timeout
    found = await look()
    if found.is_final:
        return found
    waiter = uuid.uuid4()
    try:
        async with end_notifications.notified_of(key) as told:
            await database.fetch("await_job", id=key, waiter=waiter, seconds=timedelta(seconds=timeout or 86400))
            while not (found := await look()).is_final:
                left = _POLL if until is None else min(_POLL, until - time.monotonic())
                if left <= 0:
                    message = (
                        f"{what} {found.public_id} is still {found.state} after {timeout:g} s. "
                        "It goes on; wait again or cancel it."
                    )
                    raise WaitTimeout(message)
                told.clear()
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: before Python 3.12 it may forget a cancellation.
                    async with asyncio.timeout(left):
                        await told.wait()
            return found
    finally:
        await database.fetch("forget_waiter", id=key, waiter=waiter)


class EndNotifications:
    """Hears of finished jobs; the connection is opened for the first who waits and closed after the last."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaiters] = weakref.WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def notified_of(self, job_id: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the job may have ended."""
        waiters, told = self._waiters_here(), asyncio.Event()
        waiters.enter(job_id, told)
        try:
            yield told
        finally:
            await waiters.leave(job_id, told)

    @contextlib.asynccontextmanager
    async def subscribed(self, told: OnEnds) -> AsyncIterator[None]:
        """Call back whenever jobs that anybody waits for may have ended."""
        waiters = self._waiters_here()
        waiters.listen(told)
        try:
            yield
        finally:
            await waiters.unlisten(told)

    def _waiters_here(self) -> _LoopWaiters:
        loop = asyncio.get_running_loop()
        waiters, database = self._loops.get(loop), self._open()
        if waiters is None or waiters.database is not database:
            waiters = self._loops[loop] = _LoopWaiters(database)
        return waiters


class _LoopWaiters:
    """Those who wait on one event loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._subscribers: set[OnEnds] = set()
        self._listener: NotificationListener | None = None

    def enter(self, job_id: int, told: asyncio.Event) -> None:
        self._waiting.setdefault(job_id, set()).add(told)
        self._open()

    def listen(self, told: OnEnds) -> None:
        self._subscribers.add(told)
        self._open()

    def _open(self) -> None:
        if self._listener is None:
            self._listener = NotificationListener(self.database, self._on_message, self._everyone)
            self._listener.start()

    async def leave(self, job_id: int, told: asyncio.Event) -> None:
        self._waiting[job_id].discard(told)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
        await self._close()

    async def unlisten(self, told: OnEnds) -> None:
        self._subscribers.discard(told)
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
        for heard in tuple(self._subscribers):
            heard(keys)
        for key in keys:
            for told in self._waiting.get(key, ()):
                told.set()

    def _everyone(self) -> None:
        # Messages sent before the connection was there are lost: everybody looks for himself.
        for heard in tuple(self._subscribers):
            heard(None)
        for waiting in self._waiting.values():
            for told in waiting:
                told.set()

"""A lock that is requested (LockRequest), one that is held (HeldLock), and the protocol that acquires and releases."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rowlock.errors import LockLost
from rowlock.model.lock import checked_lock
from rowlock.model.options import span

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.store.connections.lock_session import LockSession


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who requests a lock: a job, one of its items, or a task or thread of the application without a job."""

    job_id: int | None = None
    fence: int | None = None
    kind: str | None = None
    item: str | None = None
    thread: int | None = None

    def includes(self, other: LockOwner) -> bool:
        """Whether the other owner is the same one, or an item of the same attempt: it would wait for itself."""
        if self.job_id is None:
            return self.thread is not None and self.thread == other.thread
        return (self.job_id, self.fence) == (other.job_id, other.fence) and self.item in (None, other.item)


@dataclass(frozen=True, slots=True)
class LockRequest:
    """A request for one lock. wait False: only if it is free now. timeout None: wait without limit."""

    namespace: str
    name: str
    owner: LockOwner
    wait: bool = True
    timeout: timedelta | None = None

    @classmethod
    def of(cls, namespace: str, key: LockKey, owner: LockOwner, *, wait: bool, timeout: Span | None) -> LockRequest:
        """Check what the user passed; InvalidOption says what is wrong with it."""
        return cls(*checked_lock(namespace, key), owner, wait, span(timeout, "timeout"))

    @property
    def shown(self) -> str:
        """The lock as messages name it."""
        return f"{self.namespace} {self.name!r}"


class HeldLock:
    """A lock that was acquired. `lost` is set when the lock is gone while its block still runs."""

    __slots__ = ("_cancelled_task", "_cancelling", "lost", "n", "on_lost", "request", "session", "task")

    def __init__(self, request: LockRequest, session: LockSession | None = None, n: int = 0) -> None:
        """session, n: the connection that holds it, and its number there."""
        self.request, self.session, self.n = request, session, n
        self.lost: LockLost | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task that is cancelled when the lock is lost; None: the holder calls check() itself."""
        self.on_lost: Callable[[HeldLock], None] | None = None
        self._cancelling, self._cancelled_task = 0, False

    def bind(self, task: asyncio.Task[Any] | None) -> None:
        """Have this task cancelled when the lock is lost."""
        self.task = task
        self._cancelling = task.cancelling() if task is not None else 0

    def lose(self, why: str) -> None:
        """Mark it as lost, for that reason."""
        message = (
            f"The lock {self.request.shown} is lost: {why}. It may have another holder by now; stop and try again."
        )
        self.lose_with(LockLost(message))

    def lose_with(self, lost: LockLost) -> None:
        """Mark it as lost with this error; the first one counts."""
        if self.lost is None:
            self.lost = lost
            if self.on_lost is not None:
                self.on_lost(self)
            if self.task is not None:
                self._cancelled_task = True
                self.task.cancel()

    def check(self) -> None:
        """Raise LockLost if it is lost."""
        if self.lost is not None:
            raise self.lost

    def raise_if_lost(self, error: BaseException | None) -> None:
        """At the end of the block: raise LockLost, unless the block raised an error of its own."""
        if self.lost is None:
            return
        ours = True
        if self._cancelled_task and self.task is not None:
            # Other code may have cancelled the task, too: then its cancellation goes on.
            ours = self.task.uncancel() <= self._cancelling
        if error is None or (ours and isinstance(error, asyncio.CancelledError)):
            raise self.lost from error


class LockBackend(Protocol):
    """Acquires and releases locks: in this process, or for a child process through its pipe."""

    async def acquire(self, request: LockRequest) -> HeldLock:
        """Wait for the lock; LockTaken, LockTimeout or LockNested if it cannot be had."""

    async def release(self, held: HeldLock) -> None:
        """Give it back; marks it as lost if it was gone by then."""

"""Hold: a lock that somebody wants, and one that somebody has."""

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
class Asker:
    """Who asks: a job, one of its items, or a task or thread of an application without a job."""

    job_id: int | None = None
    fence: int | None = None
    kind: str | None = None
    item: str | None = None
    thread: int | None = None

    def includes(self, other: Asker) -> bool:
        """Whether the other one cannot go on before this one has: it is the same, or an item of the same attempt."""
        if self.job_id is None:
            return self.thread is not None and self.thread == other.thread
        return (self.job_id, self.fence) == (other.job_id, other.fence) and self.item in (None, other.item)


@dataclass(frozen=True, slots=True)
class Wish:
    """A lock that somebody wants. wait False: only if it is free at this moment."""

    namespace: str
    name: str
    asker: Asker
    wait: bool = True
    timeout: timedelta | None = None

    @classmethod
    def of(cls, namespace: str, key: LockKey, asker: Asker, *, wait: bool, timeout: Span | None) -> Wish:
        """A checked one."""
        return cls(*checked_lock(namespace, key), asker, wait, span(timeout, "timeout"))

    @property
    def shown(self) -> str:
        """The lock as messages name it."""
        return f"{self.namespace} {self.name!r}"


class Hold:
    """A lock that was got. lost: set when it is gone while its block still runs."""

    __slots__ = ("_cancelling", "_told", "lost", "n", "on_lost", "session", "task", "wish")

    def __init__(self, wish: Wish, session: LockSession | None = None, n: int = 0) -> None:
        self.wish, self.session, self.n = wish, session, n
        self.lost: LockLost | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task to be cancelled when it is lost; None: whoever holds it looks by itself."""
        self.on_lost: Callable[[Hold], None] | None = None
        self._cancelling, self._told = 0, False

    def bind(self, task: asyncio.Task[Any] | None) -> None:
        """Have this task cancelled when the lock is lost."""
        self.task = task
        self._cancelling = task.cancelling() if task is not None else 0

    def lose(self, why: str) -> None:
        """Tell whoever holds it."""
        message = f"The lock {self.wish.shown} is lost: {why}. Somebody else may hold it already; stop and try again."
        self.lose_with(LockLost(message))

    def lose_with(self, lost: LockLost) -> None:
        """Tell whoever holds it with this very error; the first one counts."""
        if self.lost is None:
            self.lost = lost
            if self.on_lost is not None:
                self.on_lost(self)
            if self.task is not None:
                self._told = True
                self.task.cancel()

    def check(self) -> None:
        """Raise if it is gone."""
        if self.lost is not None:
            raise self.lost

    def conclude(self, error: BaseException | None) -> None:
        """At the end of the block: LockLost in place of nothing, or of the cancellation it came as."""
        if self.lost is None:
            return
        ours = True
        if self._told and self.task is not None:
            # Somebody else may have cancelled the task, too: then theirs goes on.
            ours = self.task.uncancel() <= self._cancelling
        if error is None or (ours and isinstance(error, asyncio.CancelledError)):
            raise self.lost from error


class Keeper(Protocol):
    """Gets locks and gives them back: in this process, or for a child through its pipe."""

    async def acquire(self, wish: Wish) -> Hold:
        """Wait for it; LockTaken, LockTimeout or LockNested when it cannot be had."""

    async def release(self, hold: Hold) -> None:
        """Give it back; if it was gone by then, the hold says so."""

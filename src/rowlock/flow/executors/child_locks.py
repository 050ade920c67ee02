"""Borrow: the locks of a job in a child process, which its worker gets and holds for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from rowlock.errors import LockLost, RowlockError
from rowlock.flow.executors.child_messages import Answer, LockGone, Locking, Unlocking
from rowlock.flow.locks.lock import Hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.flow.executors.child_messages import Message
    from rowlock.flow.locks.lock import Keeper, Wish


class Lender:
    """The worker's side: what it holds for one attempt."""

    def __init__(self, keeper: Callable[[], Keeper], say: Callable[[Message], None]) -> None:
        self._open, self._say = keeper, say
        self._acquiring: dict[int, asyncio.Task[Hold]] = {}
        self._holds: dict[int, Hold] = {}
        self._unwanted: set[int] = set()

    async def hear(self, message: Locking | Unlocking) -> None:
        """Do what the child asks, and answer."""
        error: Exception | None = None
        try:
            if isinstance(message, Locking):
                await self._lock(message.number, message.wish)
            else:
                await self._unlock(message.held)
        except RowlockError as refused:
            error = refused
        except asyncio.CancelledError:
            return  # the child waits no longer
        self._say(Answer(message.number, None, error))

    async def _lock(self, number: int, wish: Wish) -> None:
        task = self._acquiring[number] = asyncio.ensure_future(self._open().acquire(wish))
        try:
            hold = self._holds[number] = await task
        finally:
            del self._acquiring[number]
        if number in self._unwanted:
            # It came at the very moment at which the child gave up.
            await self._unlock(number)
            return
        hold.on_lost = lambda lost: self._say(LockGone(number, str(lost.lost)))
        if hold.lost is not None:
            hold.on_lost(hold)

    async def _unlock(self, number: int) -> None:
        if (waiting := self._acquiring.get(number)) is not None:
            self._unwanted.add(number)
            waiting.cancel()
        elif (hold := self._holds.pop(number, None)) is not None:
            await self._open().release(hold)
            hold.check()

    async def close(self) -> None:
        """The attempt is over, in whatever way: nothing stays behind."""
        for number in [*self._acquiring, *self._holds]:
            try:
                await self._unlock(number)
            except LockLost:
                continue


class Talk(Protocol):
    """How the child asks: the message of that number is sent, and its answer waited for."""

    async def ask(self, message: Callable[[int], Message]) -> object:
        """Send and wait."""

    def tell(self, message: Callable[[int], Message]) -> int:
        """Send; returns the number."""


class Borrower:
    """The child's side: a keeper whose locks are the worker's."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._holds: dict[int, Hold] = {}

    async def acquire(self, wish: Wish) -> Hold:
        """Ask the worker for it."""
        numbers: list[int] = []

        def message(number: int) -> Message:
            numbers.append(number)
            return Locking(number, wish)

        try:
            await self._talk.ask(message)
        except asyncio.CancelledError:
            self._talk.tell(lambda number: Unlocking(number, numbers[0]))
            raise
        hold = self._holds[numbers[0]] = Hold(wish, n=numbers[0])
        return hold

    async def release(self, hold: Hold) -> None:
        """Have the worker give it back."""
        self._holds.pop(hold.n, None)
        try:
            await asyncio.shield(asyncio.ensure_future(self._talk.ask(lambda number: Unlocking(number, hold.n))))
        except LockLost as lost:
            hold.lose_with(lost)

    def gone(self, message: LockGone) -> None:
        """The worker lost it."""
        hold = self._holds.get(message.held)
        if hold is not None:
            hold.lose_with(LockLost(message.why))

"""Locks of a job in a child process: the child asks through the pipe, its worker acquires and holds them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from rowlock.errors import LockLost, RowlockError
from rowlock.flow.executors.child_messages import AcquireLock, LockLostNotice, ReleaseLock, Reply
from rowlock.flow.locks.lock import HeldLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.flow.executors.child_messages import LockMessage, Request, ToChild
    from rowlock.flow.locks.lock import LockBackend, LockRequest


class ChildLockServer:
    """The worker's side: the locks it holds for one attempt."""

    def __init__(self, backend: Callable[[], LockBackend], send: Callable[[ToChild], None]) -> None:
        self._backend, self._send = backend, send
        self._acquiring: dict[int, asyncio.Task[HeldLock]] = {}
        self._held: dict[int, HeldLock] = {}
        self._abandoned: set[int] = set()

    async def serve(self, message: LockMessage) -> None:
        """Do what the child asks, and reply."""
        error: Exception | None = None
        try:
            if isinstance(message, AcquireLock):
                await self._acquire(message.number, message.request)
            else:
                await self._release(message.held)
        except RowlockError as refused:
            error = refused
        except asyncio.CancelledError:
            return  # the child does not wait any more
        self._send(Reply(message.number, None, error))

    async def _acquire(self, number: int, request: LockRequest) -> None:
        task = self._acquiring[number] = asyncio.ensure_future(self._backend().acquire(request))
        try:
            held = self._held[number] = await task
        finally:
            del self._acquiring[number]
        if number in self._abandoned:
            # Acquired at the very moment at which the child gave up.
            await self._release(number)
            return
        held.on_lost = lambda lost: self._send(LockLostNotice(number, str(lost.lost)))
        if held.lost is not None:
            held.on_lost(held)

    async def _release(self, number: int) -> None:
        if (acquiring := self._acquiring.get(number)) is not None:
            self._abandoned.add(number)
            acquiring.cancel()
        elif (held := self._held.pop(number, None)) is not None:
            await self._backend().release(held)
            held.check()

    async def close(self) -> None:
        """Release everything: the attempt is over."""
        for number in [*self._acquiring, *self._held]:
            try:
                await self._release(number)
            except LockLost:
                continue


class RequestSender(Protocol):
    """Sends the child's requests, each under a number of its own."""

    async def ask(self, request: Callable[[int], Request]) -> object:
        """Send it and wait for the reply."""

    def send(self, request: Callable[[int], Request]) -> None:
        """Send it; the reply is ignored."""


class ChildLockClient:
    """The child's side: a LockBackend whose locks the worker holds."""

    def __init__(self, sender: RequestSender) -> None:
        self._sender = sender
        self._held: dict[int, HeldLock] = {}

    async def acquire(self, request: LockRequest) -> HeldLock:
        """Ask the worker for the lock."""
        numbers: list[int] = []

        def message(number: int) -> AcquireLock:
            numbers.append(number)
            return AcquireLock(number, request)

        try:
            await self._sender.ask(message)
        except asyncio.CancelledError:
            self._sender.send(lambda number: ReleaseLock(number, numbers[0]))
            raise
        held = self._held[numbers[0]] = HeldLock(request, n=numbers[0])
        return held

    async def release(self, held: HeldLock) -> None:
        """Have the worker release it."""
        self._held.pop(held.n, None)
        try:
            await asyncio.shield(asyncio.ensure_future(self._sender.ask(lambda number: ReleaseLock(number, held.n))))
        except LockLost as lost:
            held.lose_with(lost)

    def lose(self, notice: LockLostNotice) -> None:
        """Mark a lock as lost that the worker has lost."""
        held = self._held.get(notice.held)
        if held is not None:
            held.lose_with(LockLost(notice.why))

"""Locks: one thing at a time for one key, over all processes.

PostgreSQL's session locks are re-entrant and belong to a connection, of which a process has one. So those of one
process take turns first, and whoever's turn it is tries for the process: at once, when another process lets go (it says
so), and from time to time in case it died without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import DatabaseUnreachable, LockNested, LockTaken, LockTimeout
from rowlock.flow.locks.lock import Hold
from rowlock.model.lock import LockUser, advisory
from rowlock.store.connections.lock_session import LockSession
from rowlock.store.connections.pool import before_loop_ends

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from rowlock.flow.locks.lock import Wish
    from rowlock.store.database import Database

_BACKOFF: Final = (0.0, 0.05, 0.1, 0.2, 0.3)
"""Seconds between two tries. The first is none: a holder that left before the wait was written down told nobody."""
GRACE: Final = 0.05
"""Seconds that a process which has waited longer is left alone with a free lock."""
IDLE: Final = 60.0
"""Seconds after the last use until the connection is closed."""


@dataclass(slots=True)
class _Turn:
    """Those of this process who want one key, one at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    users: int = 0
    holder: Hold | None = None
    courtesy: float = 0.0
    """Loop time until which another process goes first."""

    async def heard(self, seconds: float) -> None:
        """Wait until somebody let go, that long at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.told.wait()


@dataclass(slots=True)
class _Try:
    """One acquire under way, and what of it has to be undone if it breaks off."""

    wish: Wish
    key: int
    n: int
    session: LockSession | None = None
    noted: bool = False
    steps: list[asyncio.Future[Any]] = field(default_factory=list)
    """Statements on their way; the last one is the try."""

    def values(self) -> dict[str, object]:
        wish, asker = self.wish, self.wish.asker
        return {
            "n": self.n,
            "key": self.key,
            "namespace": wish.namespace,
            "name": wish.name,
            "job_id": asker.job_id,
            "kind": asker.kind,
            "process": f"{socket.gethostname()}:{os.getpid()}",
        }


class Room:
    """The locks of one event loop: one connection, opened for the first and closed when none was used for long."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: LockSession | None = None
        self._opening = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._turns: dict[int, _Turn] = {}
        self._holds: set[Hold] = set()
        self._steps: set[asyncio.Task[Any]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._leaving = before_loop_ends(self._close)

    async def acquire(self, wish: Wish) -> Hold:
        """Wait for a lock; see Keeper."""
        key = advisory(self._database.schema, wish.namespace, wish.name)
        turn = self._turns.setdefault(key, _Turn())
        turn.users += 1
        attempt = _Try(wish, key, next(self._numbers))
        try:
            _refuse_itself(turn.holder, wish)
            limit = None if wish.timeout is None else wish.timeout.total_seconds()
            async with asyncio.timeout(limit) as clock:
                await self._in_turn(turn, attempt)
        except TimeoutError:
            if not clock.expired():
                raise
            raise LockTimeout(*await self._denied(attempt, f"was not free within {limit:g} s")) from None
        finally:
            turn.users -= 1
            self._tidy(key)
        hold = turn.holder = Hold(wish, attempt.session, attempt.n)
        self._holds.add(hold)
        return hold

    async def release(self, hold: Hold) -> None:
        """Give it back, to the end even if whoever asks is cancelled meanwhile."""
        await asyncio.shield(self._spawn(self._release(hold)))

    async def _in_turn(self, turn: _Turn, attempt: _Try) -> None:
        wish = attempt.wish
        if turn.lock.locked():
            if not wish.wait:
                raise LockTaken(*await self._denied(attempt, "is taken"))
            attempt.steps.append(self._spawn(self._note(attempt)))
        try:
            await turn.lock.acquire()
            try:
                await self._compete(turn, attempt)
            except BaseException:
                turn.lock.release()
                raise
        except BaseException:
            self._spawn(self._forget(attempt))
            raise

    async def _compete(self, turn: _Turn, attempt: _Try) -> None:
        """Try until the process has it."""
        loop = asyncio.get_running_loop()
        newcomer = not attempt.steps
        if (wait := turn.courtesy - loop.time()) > 0 and attempt.wish.wait:
            await turn.heard(wait)
        for n in itertools.count():
            turn.told.clear()
            if await self._try(attempt, polite=newcomer and n == 0 and attempt.wish.wait):
                return
            if not attempt.wish.wait:
                raise LockTaken(*await self._denied(attempt, "is taken"))
            await turn.heard(_BACKOFF[min(n, len(_BACKOFF) - 1)])

    async def _try(self, attempt: _Try, *, polite: bool) -> bool:
        session = await self._opened()
        if session is not attempt.session:
            attempt.session, attempt.noted = session, False
        note = attempt.wish.wait and not attempt.noted
        asking = self._spawn(session.fetch("lock_take", **attempt.values(), polite=polite, note=note))
        attempt.steps[1:] = [asking]
        try:
            (row,) = await asyncio.shield(asking)
        except DatabaseUnreachable:
            # The connection broke while this one waited; it holds nothing yet and may try on a new one.
            return False
        attempt.noted = attempt.noted or note
        return bool(row["mine"])

    async def _note(self, attempt: _Try) -> None:
        """Write down somebody who waits for a neighbour; nothing depends on it."""
        with contextlib.suppress(DatabaseUnreachable):
            attempt.session = await self._opened()
            await attempt.session.fetch("lock_wait", **attempt.values())
            attempt.noted = True

    async def _forget(self, attempt: _Try) -> None:
        """Undo what an acquire that broke off has done, or was about to do."""
        found = await asyncio.gather(*attempt.steps, return_exceptions=True)
        session = attempt.session
        if session is None or not session.alive:
            return
        got = bool(found) and isinstance(found[-1], list) and found[-1][0]["mine"]
        with contextlib.suppress(DatabaseUnreachable):
            if got:
                await session.fetch("lock_release", key=attempt.key, n=attempt.n)
            else:
                await session.fetch("lock_leave", n=attempt.n)

    async def _release(self, hold: Hold) -> None:
        key = advisory(self._database.schema, hold.wish.namespace, hold.wish.name)
        turn = self._turns[key]
        self._holds.discard(hold)
        try:
            if hold.lost is None and hold.session is not None:
                (row,) = await hold.session.fetch("lock_release", key=key, n=hold.n)
                if row["heir"] not in (None, hold.session.number):
                    turn.courtesy = asyncio.get_running_loop().time() + GRACE
                    turn.told.clear()
                if not row["was_held"]:
                    hold.lose("the server knows nothing of it")
        except DatabaseUnreachable as error:
            hold.lose(f"its connection broke before it was given back ({error})")
        finally:
            turn.holder = None
            turn.lock.release()
            self._tidy(key)

    async def _opened(self) -> LockSession:
        if self._session is None or not self._session.alive:
            await asyncio.shield(self._spawn(self._open()))
        assert self._session is not None  # noqa: S101 - opened
        return self._session

    async def _open(self) -> None:
        async with self._opening:
            if self._session is None or not self._session.alive:
                session = LockSession(self._database, self._on_lost, self._on_freed)
                await session.open()
                self._session = session

    def _on_lost(self, session: LockSession, why: str) -> None:
        for hold in [hold for hold in self._holds if hold.session is session]:
            hold.lose(f"the connection that held it is gone ({why})")

    def _on_freed(self, key: int, number: int) -> None:
        turn = self._turns.get(key)
        if turn is None or self._session is None:
            return
        if number == self._session.number:
            turn.courtesy = 0.0
            turn.told.set()
        else:
            # Somebody else's turn; if they died, it is ours after all.
            asyncio.get_running_loop().call_later(GRACE, turn.told.set)

    async def _denied(self, attempt: _Try, what: str) -> tuple[str, LockUser | None]:
        """What to say of a lock that cannot be had, and who has it."""
        rows = await self._database.fetch("lock_holder", key=attempt.key)
        if not rows:
            return f"The lock {attempt.wish.shown} {what}; who has it cannot be told any more.", None
        row = rows[0]
        user = LockUser(row["process"], row["since"], row["job_id"], row["kind"])
        return f"The lock {attempt.wish.shown} {what}: {user.name} holds it since {_moment(user.since)}.", user

    def _tidy(self, key: int) -> None:
        turn = self._turns.get(key)
        if turn is not None and not turn.users and turn.holder is None and not turn.lock.locked():
            del self._turns[key]
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None if self._turns else asyncio.get_running_loop().call_later(IDLE, self._rest)

    def _rest(self) -> None:
        session = self._session
        if session is not None and not self._turns and not self._steps:
            self._session = None
            self._spawn(session.close())

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)
        return task

    async def close(self) -> None:
        """Let go of everything; whoever still holds a lock is told."""
        await self._leaving.aclose()

    async def _close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        while self._steps:
            await asyncio.gather(*self._steps, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        for hold in self._holds:
            hold.lose("the application was closed")


def room_of(database: Database) -> Room:
    """The locks of the running loop, the same for jobs and for the application around them."""
    return database.companion(Room, lambda: Room(database))


async def leave(database: Database) -> None:
    """Close the running loop's."""
    room = database.dismiss_companion(Room)
    if room is not None:
        await room.close()


def _refuse_itself(holder: Hold | None, wish: Wish) -> None:
    if holder is None:
        return
    same_task = holder.task is not None and holder.task is asyncio.current_task()
    if same_task or holder.wish.asker.includes(wish.asker):
        message = (
            f"The lock {wish.shown} is held by whoever asks for it: waiting for oneself would never end. "
            "Take it once, around everything that needs it."
        )
        raise LockNested(message)


def _moment(since: datetime) -> str:
    return f"{since:%Y-%m-%d %H:%M:%S} UTC" if since.utcoffset() else str(since)

"""Locks: PostgreSQL's own, and the rows that name who has them and who waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.machine.action import Action
from tests.machine.oracle import Meant, Memory
from typing_extensions import override

if TYPE_CHECKING:
    from tests.factories import Store
    from tests.machine.snapshot import Snapshot

SESSIONS: tuple[int, int] = (101, 102)
"""A connection for locks has a number of its own; two of them here, as of two processes."""


@dataclass(frozen=True)
class _Locking(Action):
    """On the connection of its session, whichever that is: the lock belongs to it."""

    at: Store
    session: int
    n: int
    key: int

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    def _me(self) -> dict[str, Any]:
        about = {"namespace": "m", "name": str(self.key), "job_id": None, "kind": None, "process": "p"}
        return {"session": self.session, "n": self.n, "key": self.key, **about}

    def _others(self, snapshot: Snapshot) -> list[tuple[int, int, int, bool]]:
        return [row for row in snapshot.locks if row[:2] != (self.session, self.n)]


@dataclass(frozen=True)
class TakeLock(_Locking):
    """A newcomer is polite: it does not pass those of another process who wait. A neighbour's lock is waited for."""

    polite: bool = True

    @override
    async def run(self, store: Store) -> Any:
        held = await self.at.value(
            "SELECT EXISTS (SELECT 1 FROM {s}.locks k WHERE k.key = $1 AND k.held AND k.session = $2)",
            self.key,
            self.session,
        )
        if held:
            await self.at.fetch("lock_wait", **self._me())
            return False
        return (await self.at.one("lock_take", **self._me(), polite=self.polite, note=True))["mine"]

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        others = [row for row in self._others(before) if row[2] == self.key]
        free = not any(held for _, _, _, held in others)
        first = not self.polite or not any(session != self.session for session, _, _, held in others if not held)
        assert answer is (free and first), f"free: {free}, nobody to let pass: {first}; {before.locks}"
        assert (self.session, self.n, self.key, answer) in after.locks
        assert self._others(after) == self._others(before)


@dataclass(frozen=True)
class ReleaseLock(_Locking):
    """Answers whose turn it is: the one that has waited longest."""

    @override
    async def run(self, store: Store) -> Any:
        row = await self.at.one("lock_release", **self._me(), channel=store.database.channel)
        return row["was_held"], row["heir"]

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        waiting = [session for session, _, key, held in before.locks if key == self.key and not held]
        assert answer == (True, waiting[0] if waiting else None), (answer, before.locks)
        assert after.locks == self._others(before)


@dataclass(frozen=True)
class LeaveLock(_Locking):
    """Somebody gave up waiting."""

    @override
    async def run(self, store: Store) -> Any:
        await self.at.fetch("lock_leave", session=self.session, n=self.n)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert after.locks == self._others(before)


@dataclass(frozen=True)
class PruneLocks(Action):
    """Rows of processes that are gone, and no others."""

    gone: frozenset[int] = frozenset()

    @override
    async def run(self, store: Store) -> Any:
        await store.fetch("prune_locks")

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert after.locks == [row for row in before.locks if row[0] not in self.gone], (self.gone, after.locks)

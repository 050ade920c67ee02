"""Schedules that are made, changed, paused, removed, and fired by a process that may have read them long ago."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, cast

from tests.machine.action import Action, follow
from tests.machine.oracle import CASCADE, NOBODY, STAYS, WITHDRAWN, Meant, Memory, Path
from typing_extensions import override

from rowlock.desk.guard import TRUSTED
from rowlock.desk.schedule_fire import fire
from rowlock.flow.enqueue.insert import SingleInsert
from rowlock.flow.enqueue.prepare import prepare
from rowlock.model.kind import Kind
from rowlock.model.schedule import Schedule, due_slots, stamp
from rowlock.model.state import State, Verb
from rowlock.store.rows.schedules import schedule_of, values_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.factories import Store
    from tests.machine.snapshot import Scheduled, Snapshot

    from rowlock.desk.submit import Submit
    from rowlock.store.database import Connection, Database, Record

MOST: Final = 3
"""Of missed slots that are fired at once."""
ON_TIME: Final = 60.0
ANCHOR: Final = datetime(2000, 1, 3, tzinfo=UTC).timestamp()
"""Intervals are counted from here."""


class Reading(NamedTuple):
    """What a scheduler found due, and the moment of the calendar at which it did."""

    schedule: Schedule
    now: datetime


async def due(store: Store) -> list[Reading]:
    """Look as a scheduler does."""
    return [Reading(schedule_of(row), row["now"]) for row in await store.fetch("schedules_due", kinds=["a"])]


def slot_after(moment: float, every: float) -> float:
    """The first slot later than the moment."""
    return ANCHOR + (math.floor((moment - ANCHOR) / every) + 1) * every


@dataclass(frozen=True)
class AddSchedule(Action):
    name: str
    every: int
    missed: str
    overlap: str
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        schedule = Schedule(
            self.name,
            "a",
            every=timedelta(seconds=self.every),
            missed=self.missed,  # type: ignore[arg-type]  # one of its words
            most_missed=MOST,
            overlap=self.overlap,  # type: ignore[arg-type]  # one of its words
        )
        now = (await store.one("calendar"))["now"]
        values = {**values_of(schedule), "submitted_by": None, "next_at": schedule.rule.after(now)}
        return bool(await store.fetch("schedule_add", **values))

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert answer is (self.name not in before.schedules)
        now = after.schedules[self.name]
        if not answer:
            assert now == before.schedules[self.name], "an existing one was written over"
            return
        first = [slot_after(snapshot.now + memory.travelled, self.every) for snapshot in (before, after)]
        assert now.next_at in first, f"the first slot is one of {first}: {now}"
        assert (now.enabled, now.version, now.last_job) == (True, 1, None)


@dataclass(frozen=True)
class SetSchedule(Action):
    """Paused, resumed or given another interval, by somebody who has read it: perhaps long ago."""

    read: Schedule
    every: int | None = None
    enabled: bool = True

    @override
    async def run(self, store: Store) -> Any:
        every = self.read.every if self.every is None else timedelta(seconds=self.every)
        changed = replace(self.read, every=every, enabled=self.enabled)
        now = (await store.one("calendar"))["now"]
        moves = every != self.read.every
        next_at = changed.rule.after(now) if moves else None
        values = {**values_of(changed), "version": self.read.version, "moves": moves, "next_at": next_at}
        return bool(await store.fetch("schedule_set", **values))

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        was, now = before.schedules.get(self.read.name), after.schedules.get(self.read.name)
        current = was is not None and was.version == self.read.version
        assert answer is current, f"read at version {self.read.version}: {was}"
        if was is None or now is None or not current:
            assert was == now
            return
        assert (now.version, now.enabled, now.last_job) == (was.version + 1, self.enabled, was.last_job)
        if self.every is None or self.every == was.every:
            assert now.next_at == was.next_at, "its rule is the same, and so is its next slot"
        else:
            assert now.next_at in [
                slot_after(snapshot.now + memory.travelled, self.every) for snapshot in (before, after)
            ]


@dataclass(frozen=True)
class RemoveSchedule(Action):
    name: str

    @override
    async def run(self, store: Store) -> Any:
        return bool(await store.fetch("schedule_delete", name=self.name, **TRUSTED.visibility))

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert answer is (self.name in before.schedules)
        assert after.jobs == before.jobs, "its jobs stay"


@dataclass(frozen=True)
class Fire(Action):
    """Take the slots that a reading shows, with their jobs. Answers the jobs; None: somebody was quicker."""

    reading: Reading
    sides: ClassVar[frozenset[Path]] = CASCADE

    @override
    async def run(self, store: Store) -> Any:
        here = cast("Database", _Here(store))
        submit = cast("Submit", _submit(store))
        fired = await fire(here, submit, self.reading.schedule, due_slots(self.reading.schedule, self.reading.now))
        return None if fired is None else list(fired.jobs)

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        was = before.schedules.get(self.reading.schedule.name)
        if answer is None or was is None:
            return Meant()
        replaces = was.overlap == "cancel" and was.last_job in before.jobs
        paths: dict[int, tuple[Path, ...]] = (
            {was.last_job or 0: ((WITHDRAWN,), (Verb.CANCEL,), STAYS)} if replaces else {}
        )
        return Meant(paths, self.sides if replaces else NOBODY, creates=bool(answer))

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        for job_id in answer or ():
            job = after.jobs[job_id]
            assert job.schedule is not None
            assert job.slot is not None
            assert (job.schedule, job.slot) not in memory.fired, f"its slot was fired before: {job}"
            memory.fired.add((job.schedule, job.slot))

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        read, name = self.reading.schedule, self.reading.schedule.name
        was, now = before.schedules.get(name), after.schedules.get(name)
        assert read.next_at is not None
        expected = read.next_at.timestamp()
        current = was is not None and was.enabled and was.version == read.version and was.next_at == expected
        assert (answer is not None) == current, f"read as {read}, it is {was}: {answer}"
        if was is None or now is None or not current:
            assert was == now
            return
        slots = self._slots(was)
        busy = before.jobs.get(was.last_job or 0)
        overlaps = bool(slots) and busy is not None and not busy.state.is_final
        if overlaps and was.overlap == "skip":
            slots = []
        # fired is what was remembered before this act.
        fresh = [slot for slot in slots if (name, slot) not in memory.fired]
        assert [after.jobs[job_id].slot for job_id in answer] == fresh, f"{slots} are owed: {was}, {answer}"
        assert now.next_at == slot_after(self.reading.now.timestamp(), was.every)
        assert now.last_job == (answer[-1] if answer else was.last_job)
        if overlaps and was.overlap == "cancel" and busy is not None:
            left = after.jobs[busy.id]
            assert left.cancelling if busy.state is State.RUNNING else left.state is State.CANCELLED, (busy, left)

    def _slots(self, was: Scheduled) -> list[str]:
        """What its rule owes of what was due at the moment of the reading, earliest first."""
        moment, found = self.reading.now.timestamp(), []
        slot = slot_after(moment, was.every) - was.every
        while was.next_at is not None and slot >= was.next_at:
            found.append(slot)
            slot -= was.every
        if was.missed == "none" and found and moment - found[0] > ON_TIME:
            return []
        most = MOST if was.missed == "all" and was.overlap == "queue" else 1
        return [stamp(datetime.fromtimestamp(slot, UTC)) for slot in reversed(found[:most])]


class _Here:
    """As much of a Database as a firing needs, on the one connection of a Store."""

    def __init__(self, store: Store) -> None:
        self._store, self.statements, self.channel = store, store.database.statements, store.database.channel

    @contextlib.asynccontextmanager
    async def connection(self, *, watched: bool = False) -> AsyncIterator[Connection[Record]]:
        del watched
        yield self._store.connection


def _submit(store: Store) -> Any:
    async def submit(kind: str, args: Any, options: Any, connection: object) -> tuple[int, str]:
        assert connection is store.connection
        receipt = await follow(store, SingleInsert(prepare(Kind(kind), options, args), '{"n": 0}').plan())
        return receipt.id, receipt.what

    return submit

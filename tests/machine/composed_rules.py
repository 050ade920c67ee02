"""Rules of a state machine for workflows, signals, schedules and locks, and for two actions at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.machine import schedules, upkeep
from tests.machine.claim_writes import Suspend
from tests.machine.job_rules import LIVE, Rules
from tests.machine.locks import SESSIONS, LeaveLock, PruneLocks, ReleaseLock, TakeLock
from tests.machine.orders import Signal
from tests.machine.snapshot import look
from tests.machine.workflows import CancelFlow, Grow, RetryStep, Start

from rowlock.desk.guard import TRUSTED
from rowlock.model.state import State
from rowlock.store.rows.schedules import schedule_of

if TYPE_CHECKING:
    from tests.machine.connections import MachineDatabase

    from rowlock.model.schedule import Schedule

NEEDS: Final = ("success", "strict", "finish", "failure")
EVERY: Final = (60, 3600, 60, 7)
GONE: Final = 999
"""The number of a session for locks whose process was killed."""


class Arrangements(Rules):
    """As Rules."""

    def __init__(self, db: MachineDatabase) -> None:
        super().__init__(db)
        self.readings: list[schedules.Reading] = []
        self.read: list[Schedule] = []
        self.lockers = 0
        """How many have asked for a lock so far; 0: the connections have not entered yet."""

    # --- workflows and signals ---------------------------------------------------------------------------------------

    def start(self, a: int, b: int, c: int) -> None:
        n, special = 2 + a % 3, ("", "undo", "undo", "approval", "gate", "any")[b % 6]
        steps = [
            {
                "name": f"s{i}",
                "kind": "a",
                "approval": int(special == "approval" and i == n - 1),
                "gate_key": "g" if special == "gate" else None,
                "any_of": special == "any",
                "undo": {"kind": "a"} if special == "undo" else None,
            }
            for i in range(n)
        ]
        shapes = ([(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (1, 3), (2, 3)], [(0, 2), (1, 2)], [(0, 1)])
        edges = [
            {"upstream": f"s{up}", "downstream": f"s{down}", "needs": NEEDS[(c + i) % 5 % 4]}
            for i, (up, down) in enumerate(shapes[c % 4])
            if down < n
        ]
        key = f"flow:{'xy'[b % 2]}" if a > 7 else None
        self.perform(Start(json.dumps({"steps": steps, "edges": edges}), key))

    def grow(self, a: int, b: int, _c: int) -> None:
        found = self.claim(a, stale=b > 8)
        if found and found.job_id in self.snapshot.jobs:
            name = f"grown {found.job_id}.{found.fence}"
            self.perform(Grow(found.job_id, found.fence, name, joins=bool(b % 2)))

    def cancel_flow(self, a: int, b: int, _c: int) -> None:
        flows = list(self.snapshot.flows)
        if flows:
            self.perform(CancelFlow(flows[-1 - a % len(flows)], halt=bool(b % 2)))

    def retry_step(self, a: int, _b: int, _c: int) -> None:
        steps = list(self.snapshot.steps.values())
        if steps:
            step = steps[-1 - a % len(steps)]
            self.perform(RetryStep(step.workflow, step.name))

    def suspend(self, a: int, b: int, c: int) -> None:
        found = self.claim(a, stale=b > 8)
        if found is not None:
            self.perform(Suspend([found], "st"[b % 2], (None, 30.0)[c % 2]))

    def signal(self, a: int, b: int, _c: int) -> None:
        job = self.job(a, State.BLOCKED) or self.job(a)
        if job is not None:
            self.perform(Signal(job.id, "st"[b % 2]))

    def overdue(self, _a: int, _b: int, _c: int) -> None:
        self.advance(1, 7, 0)
        self.perform(upkeep.Overdue())

    # --- schedules ---------------------------------------------------------------------------------------------------

    def schedule(self, a: int, b: int, c: int) -> None:
        missed, overlap = ("latest", "all", "none")[a % 3], ("queue", "skip", "cancel", "queue")[b % 4]
        self.perform(schedules.AddSchedule("st"[c % 2], EVERY[c % 4], missed, overlap))

    def look_around(self, _a: int, _b: int, _c: int) -> None:
        """A scheduler and an operator read what there is; they may act on it much later."""
        self.readings += self.db.run(schedules.due(self.db.main))
        rows = self.db.run(self.db.main.fetch("schedules", only=None, **TRUSTED.visibility))
        self.read += [schedule_of(row) for row in rows]

    def fire(self, a: int, b: int, c: int) -> None:
        if b % 3:
            self.look_around(a, b, c)
        if self.readings and self.held is None:
            reading = self.readings[-1 - (a % 4 if c > 8 else 0) % len(self.readings)]
            if c < 9 and c % 3 == 1:
                self._fire_beside(reading, (a + b) % 3, commit=a != 11)
            else:
                self.perform(schedules.Fire(reading))

    def _fire_beside(self, reading: schedules.Reading, n: int, *, commit: bool) -> None:
        """While another scheduler, a pause or a removal is not committed: one of them gets what was read."""
        other = (
            schedules.Fire(reading),
            schedules.SetSchedule(reading.schedule, enabled=False),
            schedules.RemoveSchedule(reading.schedule.name),
        )[n]
        done = self.collide(other, schedules.Fire(reading), commit=commit)
        if commit and done[0][1]:
            assert done[1][1] is None, f"fired by what was read before {other}: {done}"

    def set_schedule(self, a: int, b: int, c: int) -> None:
        if b % 3:
            self.look_around(a, b, c)
        if self.read:
            read = self.read[-1 - a % len(self.read)]
            self.perform(schedules.SetSchedule(read, EVERY[b % 4] if c % 3 == 0 else None, enabled=c % 4 > 0))

    def unschedule(self, a: int, _b: int, _c: int) -> None:
        self.perform(schedules.RemoveSchedule("st"[a % 2]))

    # --- locks -------------------------------------------------------------------------------------------------------

    def lock(self, a: int, b: int, c: int) -> None:
        """Asked for, asked for again, released, or given up."""
        if not self.lockers:
            self.db.run(self.db.enter_locks())
        rows, at = self.snapshot.locks, (self.db.main, self.db.patient)
        if not rows or c % 3 == 0:
            self.lockers += 1
            self.perform(TakeLock(at[a % 2], SESSIONS[a % 2], self.lockers, b % 2))
            return
        session, n, key, held = rows[(a + b) % len(rows)]
        me = (at[SESSIONS.index(session)], session, n, key)
        if held:
            self.perform(ReleaseLock(*me))
            if c % 2:
                # The same process wants it again: others may have waited.
                self.lockers += 1
                self.perform(TakeLock(me[0], session, self.lockers, key))
        else:
            self.perform(LeaveLock(*me) if c == 11 else TakeLock(*me, polite=False))

    def lose_locker(self, a: int, b: int, _c: int) -> None:
        """A process that waited for a lock, or had one, is killed; the duty finds what it has left."""
        if self.held is not None or not self.lockers:
            return
        free = not any(key == a % 2 and held for _, _, key, held in self.snapshot.locks)
        columns = "session, n, pid, key, namespace, name, held, process"
        text = f"INSERT INTO {{s}}.locks ({columns}) VALUES ($1, 1, 0, $2, 'm', 'x', $3, 'p')"
        self.db.run(self.db.observer.execute(text, GONE, a % 2, free and bool(b % 2)))
        self.snapshot = self.db.run(look(self.db.observer))
        self.perform(PruneLocks(frozenset({GONE})))

    # --- two at once -------------------------------------------------------------------------------------------------

    def hold_open(self, a: int, b: int, c: int) -> None:
        """Begin what stays open, or end it."""
        if self.held is not None:
            self.let_go(commit=bool(c % 3))
        elif (job := self.job(a % 4, *LIVE)) is not None:
            self.contended = job.id
            self.hold(self.act_on(job, b))

    def meanwhile(self, a: int, b: int, c: int) -> None:
        job = self.snapshot.jobs.get(self.contended) if self.held else self.job(a)
        if job is not None:
            self.perform(self.act_on(job, b + c))

    def both(self, a: int, b: int, c: int) -> None:
        if self.held is not None:
            self.let_go(commit=bool(a % 3))
        elif (job := self.job(a % 4, *LIVE)) is not None:
            self.collide(self.act_on(job, b), self.act_on(job, 2 * c + a // 4), commit=a != 11)

    def put_right(self, _a: int, _b: int, _c: int) -> None:
        if self.held is None:
            self.repair()

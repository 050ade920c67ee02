"""The database and the connections that a machine works on, for one run of many examples."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tests.factories import Store, several
from tests.machine.locks import SESSIONS
from tests.machine.snapshot import Snapshot, look

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")
WORKERS: Final = 3
IMPATIENT: Final = "15ms"
"""lock_timeout of the connection on which the statements run: a wait becomes an answer and not a hang."""
_KEPT: Final = ("migrations", "schema_steps", "duties", "retention", "roles")
# Everything an example may leave behind, and what every example begins with. One round trip.
_FRESH: Final = """
INSERT INTO {s}.lanes (name, kinds, max_total, stall_after)
VALUES ('free', '{a,b}', NULL, NULL), ('fair', '{}', NULL, NULL), ('capped', '{c}', 2, '90 s');
INSERT INTO {s}.gates (key, max_running, fifo) VALUES ('lane:capped', 2, false), ('g', 1, false), ('h', 2, true);
INSERT INTO {s}.rates (key, amount, per, burst, sliding, tokens)
VALUES ('r', 2, '60 s', 2, true, 0), ('k', 2, '60 s', 3, false, 3);
INSERT INTO {s}.kinds (name, on_worker_lost, isolates, hooks) VALUES ('a', 'retry', true, NULL),
  ('b', 'hold', true, NULL), ('c', 'fail', false, '{"on_exhausted": {"kind": "a", "attempts": 2}}');
INSERT INTO {s}.calendar DEFAULT VALUES;
UPDATE {s}.retention SET keep = '1 hour', pruned_to = '-infinity';
INSERT INTO {s}.workers (name, host, pid, version) SELECT 'w', 'h', 1, '0' FROM generate_series(1, 3);
"""


class MachineDatabase:
    """Connections: for statements, for transactions that stay open, for one that waits, and for looking."""

    def __init__(self, runner: asyncio.Runner, stores: list[Store]) -> None:
        self._runner = runner
        self.main, self.other, self.patient, self.observer = stores
        self._shifts: dict[float, str] = {}
        self._empty = ""
        self.steps = self.examples = 0
        self.done: Counter[str] = Counter()
        """What was done how often."""

    @classmethod
    @contextlib.contextmanager
    def at(cls, url: str) -> Iterator[MachineDatabase]:
        with asyncio.Runner() as runner:
            stack = contextlib.AsyncExitStack()
            stores = runner.run(stack.enter_async_context(several(url, 4)))
            try:
                db = cls(runner, stores)
                runner.run(db._prepare())
                yield db
            finally:
                runner.run(stores[0].database.close())
                runner.run(stack.aclose())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _prepare(self) -> None:
        await self.main.execute(f"SET lock_timeout = '{IMPATIENT}'")
        await self.other.execute(f"SET lock_timeout = '{IMPATIENT}'")
        tables = await self.observer.value(
            "SELECT string_agg(format('%I.%I', schemaname, tablename), ' ') FROM pg_tables"
            " WHERE schemaname = 'rowlock' AND NOT tablename = ANY ($1)",
            list(_KEPT),
        )
        # DELETE: TRUNCATE makes new files for every table and index, and took 40 ms instead of 5.
        self._empty = ";".join(f"DELETE FROM {table}" for table in tables.split()) + ";" + _FRESH

    async def fresh(self) -> tuple[Snapshot, list[int]]:
        """Begin an example: nothing is there but workers, lanes, gates and rates."""
        self.examples += 1
        await self.observer.execute(self._empty)
        if self.examples % 100 == 0:
            await self.observer.execute("VACUUM")
        for store in (self.main, self.other, self.patient):
            await store.execute("SELECT setseed(0.5)")
        snapshot = await look(self.observer)
        return snapshot, sorted(snapshot.workers)

    async def travel(self, seconds: float) -> None:
        """Let time pass for everything that is stored."""
        if seconds not in self._shifts:
            row = await self.observer.one("shift_text", span=timedelta(seconds=seconds), schema="rowlock")
            self._shifts[seconds] = row["text"]
        await self.observer.execute(self._shifts[seconds])

    async def enter_locks(self) -> None:
        """The connections that take locks say that they live; what they have of the example before is released."""
        for session, store in zip(SESSIONS, (self.main, self.patient), strict=True):
            await store.execute("SELECT pg_advisory_unlock_all()")
            await store.one("lock_enter", session=session)

    async def blocked(self, work: asyncio.Future[Any]) -> bool:
        """Return once the patient connection waits for a lock, or is done."""
        while True:
            await asyncio.wait([work], timeout=0.002)
            if work.done():
                return False
            text = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted)"
            if await self.observer.value(text, self.patient.pid):
                return True

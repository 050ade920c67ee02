"""Sampler: reads /proc and the server's own statistics, again and again, into series."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from torture.soak.app import DIARY
from torture.soak.series import Series, rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

MB: Final = 1_000_000
_PROC: Final = Path("/proc")
_COUNTERS: Final = """
SELECT d.xact_commit + d.xact_rollback AS transactions,
       (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 / 1000 AS wal,
       (SELECT count(*) FROM rowlock.jobs j
         WHERE j.finished_at IS NULL AND j.state = 'queued' AND j.run_after <= now()) AS backlog
FROM pg_stat_database d WHERE d.datname = current_database()
"""
_TABLES: Final = """
SELECT s.relname, s.n_live_tup, s.n_dead_tup FROM pg_stat_user_tables s
WHERE s.schemaname = 'rowlock' AND s.relname !~ '^(counts_by|count_totals)'
"""
# Counts are kept for a day by minute and a month by hour: they grow by design in a run that is shorter.
_SIZES: Final = """
SELECT c.relname, c.relkind = 'r' AS is_table,
       CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END::float8 AS size
FROM pg_class c
WHERE c.relnamespace = 'rowlock'::regnamespace AND c.relkind IN ('r', 'i') AND c.relname !~ '^(counts_by|count_totals)'
"""
_BACKENDS: Final = """
SELECT a.pid, a.application_name AS name FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name LIKE 'rowlock:%'
"""
# The dead rows at which autovacuum comes: below that they are nobody's fault.
_TRIGGERS: Final = """
SELECT c.relname,
       coalesce((SELECT o.option_value::float8 FROM pg_options_to_table(c.reloptions) o
                  WHERE o.option_name = 'autovacuum_vacuum_threshold'),
                current_setting('autovacuum_vacuum_threshold')::float8) AS threshold
FROM pg_class c WHERE c.relnamespace = 'rowlock'::regnamespace AND c.relkind = 'r'
"""


def status(pid: int) -> dict[str, int]:
    """What /proc/PID/status counts, memory in kB; nothing: the process is gone, or this is no Linux."""
    with contextlib.suppress(OSError):
        lines = (line.partition(":") for line in (_PROC / str(pid) / "status").read_text().splitlines())
        values = {name: rest.split() for name, _, rest in lines}
        return {name: int(words[0]) for name, words in values.items() if words and words[0].isdigit()}
    return {}


def private(pid: int) -> float | None:
    """Megabytes that no other process shares; None: it is gone, or not ours to look at."""
    with contextlib.suppress(OSError):
        lines = (line.split() for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:])
        return sum(int(words[1]) for words in lines if words[0].startswith("Private_")) * 1024 / MB
    return None


def descriptors(pid: int) -> int | None:
    """How many files it has open."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    return None


def children(pid: int) -> list[int]:
    """Its own children, in the order they were started."""
    with contextlib.suppress(OSError):
        return [int(word) for word in (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    return []


class Sampler:
    """processes: by name, the ids of the processes whose life is watched."""

    def __init__(self, connection: Connection, processes: Mapping[str, int]) -> None:
        self._connection, self._processes = connection, processes
        self._series: dict[tuple[str, str], Series] = {}
        self._triggers: dict[str, float] = {}

    async def __call__(self) -> None:
        """Take one sample of everything."""
        now = time.time()
        if not self._triggers:
            self._triggers = {row["relname"]: row["threshold"] for row in await self._connection.fetch(_TRIGGERS)}
        for name, pid in self._processes.items():
            self._process(now, name, pid)
        (counted,) = await self._connection.fetch(_COUNTERS)
        for name in ("transactions", "wal"):
            self.note(name, "server", now, counted[name])
        self.note("backlog", "queue", now, counted["backlog"])
        for row in await self._connection.fetch(_TABLES):
            self.note("rows", row["relname"], now, row["n_live_tup"])
            self.note("dead rows", row["relname"], now, row["n_dead_tup"], self._triggers.get(row["relname"], 0.0))
        for row in await self._connection.fetch(_SIZES):
            measure = "size of a table" if row["is_table"] else "size of an index"
            self.note(measure, row["relname"], now, row["size"] / MB)
        self._backends(now, await self._connection.fetch(_BACKENDS))

    def note(self, measure: str, of: str, at: float, value: float, extra: float = 0.0) -> None:
        """One value more."""
        known = self._series.get((measure, of))
        if known is None:
            known = self._series[measure, of] = Series(measure, of, extra=extra)
        known.points.append((at, float(value)))

    def _process(self, now: float, name: str, pid: int) -> None:
        if counted := status(pid):
            self.note("resident memory", name, now, counted["VmRSS"] * 1024 / MB)
            self.note("threads", name, now, counted["Threads"])
        if (alone := private(pid)) is not None:
            self.note("private memory", name, now, alone)
        if (files := descriptors(pid)) is not None:
            self.note("open files", name, now, files)

    def _backends(self, now: float, rows: list[asyncpg.Record]) -> None:
        # Anonymous memory only: the buffers that a backend has touched belong to the server.
        total = 0.0
        for row in rows:
            if counted := status(row["pid"]):
                own = counted["RssAnon"] * 1024 / MB
                total += own
                self.note("memory of a backend", f"{row['name']} {row['pid']}", now, own)
        if total:
            self.note("memory of all backends", "server", now, total)
        self.note("connections", "server", now, len(rows))

    def latest(self, measure: str, of: str) -> float:
        """The last value; 0: none yet."""
        known = self._series.get((measure, of))
        return known.points[-1][1] if known else 0.0

    def read(self, folder: Path) -> None:
        """Take over what the workers wrote into their diaries."""
        names = {pid: name for name, pid in self._processes.items()}
        for path in folder.glob(f"*{DIARY}"):
            name = names.get(int(path.name.removesuffix(DIARY)))
            for line in path.read_text().splitlines() if name else ():
                at, tasks, blocks = line.split()
                self.note("asyncio tasks", str(name), float(at), float(tasks))
                self.note("Python blocks", str(name), float(at), float(blocks))

    def series(self) -> list[Series]:
        """Everything so far; counters as rates."""
        found = []
        for (measure, of), known in self._series.items():
            if measure in {"transactions", "wal"}:
                found.append(Series("WAL" if measure == "wal" else measure, of, rates(known.points)))
            else:
                found.append(known)
        return found

"""What a soak measures, and how much of it may come over the time."""

from __future__ import annotations

import statistics
from typing import Final

from torture.soak.series import Measure, p99

MEASURES: Final[dict[str, Measure]] = {
    measure.name: measure
    for measure in (
        # A leak of 100 bytes per job is 5 MB after 50,000 jobs.
        Measure("resident memory", "MB", 3.0, 0.03, digits=1),
        Measure("private memory", "MB", 3.0, 0.03, digits=1),
        Measure("Python blocks", "", 5000, 0.01),
        Measure("asyncio tasks", "", 5),
        Measure("open files", "", 4),
        # A blocking handler that finds no idle thread starts one, up to the lane's slots.
        Measure("threads", "", 4),
        Measure("connections", "", 2),
        # Plans and the catalogue's cache, of each session.
        Measure("memory of a backend", "MB", 2.0, 0.10, digits=1),
        Measure("memory of all backends", "MB", 6.0, 0.10, digits=1),
        Measure("backlog", "jobs", 50),
        Measure("rows", "", 25, 0.25),
        # What autovacuum leaves alone by its own threshold is allowed on top.
        Measure("dead rows", "", 500, 0.25),
        Measure("size of a table", "MB", 1.0, 0.25, digits=2),
        Measure("size of an index", "MB", 0.5, 0.25, digits=2),
        Measure("enqueue to start, p50", "ms", 25, 0.5, statistics.median),
        Measure("enqueue to start, p99", "ms", 250, 1.0, p99),
        Measure("enqueue to end, p50", "ms", 25, 0.5, statistics.median),
        Measure("enqueue to end, p99", "ms", 250, 1.0, p99),
        Measure("transactions", "/s", 10, 0.25),
        Measure("WAL", "kB/s", 100, 0.30),
    )
}

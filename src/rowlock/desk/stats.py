"""app.stats: backlog, running jobs, throughput and failures.

The numbers are defined by views of the schema (stats_backlog, stats_failures …) and only read here.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rowlock.desk import current_load
from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.desk.workers import views
from rowlock.errors import InvalidOption
from rowlock.model.access import Permission
from rowlock.model.count import Count
from rowlock.model.duration import duration
from rowlock.model.state import State
from rowlock.model.workload import Failures, Overview, Panel, TenantLoad, Throughput, Work
from rowlock.store import lanes as lane_rows
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rowlock.model.options import Span
    from rowlock.model.workload import Backlog, Running
    from rowlock.store.database import Database
    from rowlock.store.executor import SqlExecutor


class Stats:
    """Statistics. A Count that stopped at its cap is not exact and prints as 1,000+."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.WORKERS_VIEW)
    async def overview(self, *, window: Span = "1h") -> Overview:
        """Jobs by state, lanes with use and oldest wait, and workers. window: ends within this time are counted."""
        span = _window(window, "window")
        async with self._within(span) as snapshot:
            return await _overview(snapshot, span)

    @reads(Permission.WORKERS_VIEW)
    async def panel(self, *, window: Span = "1h", jobs: int = 100, tenants: int = 100) -> Panel:
        """All statistics of one snapshot, for a dashboard or a scrape. jobs, tenants: at most so many."""
        span = _window(window, "window")
        async with self._within(span) as snapshot:
            return Panel(
                overview=await _overview(snapshot, span),
                backlog=await current_load.backlog(snapshot),
                running=await current_load.running(snapshot, self._guard, n=jobs),
                failures=await _failures(snapshot, self._guard),
                tenants=await _tenants(snapshot, self._guard, tenants),
                throughput=await _throughput(snapshot),
            )

    @reads(Permission.WORKERS_VIEW)
    async def backlog(self) -> Sequence[Backlog]:
        """Queued jobs by kind: their lane, the due and scheduled ones, the oldest wait; the longest wait first."""
        return await current_load.backlog(self._open())

    @reads(Permission.WORKERS_VIEW)
    async def running(self, *, limit: int = 500) -> Sequence[Running]:
        """Running jobs with their phase, worker and references; the longest running first."""
        return await current_load.running(self._open(), self._guard, n=limit)

    @reads(Permission.WORKERS_VIEW)
    async def references(
        self, name: str | None = None, value: object = None, *, phase: str | None = None, limit: int = 500
    ) -> Sequence[Work]:
        """Running jobs by reference, phase and kind, such as "project", 7 and phase="editions"; most jobs first.

        It covers the jobs of all tenants, so it takes jobs:read_all.
        """
        self._guard.demand(Permission.READ_ALL)
        wanted = None if value is None else rows.ref_text(value)
        found = await self._open().fetch("stats_references", name=name, value=wanted, phase=phase, n=limit)
        return [Work(**row) for row in found]

    @reads(Permission.WORKERS_VIEW)
    async def slow(self, longer_than: Span = "10m", *, limit: int = 500) -> Sequence[Running]:
        """Jobs that have been running for longer than this, the longest first."""
        least = duration(longer_than, "longer_than")
        async with self._open().snapshot() as snapshot:
            await snapshot.fetch("stats_slow_after", longer_than=least)
            return [
                current_load.running_of(row)
                for row in await snapshot.fetch("stats_slow", n=limit, **self._guard.visibility)
            ]

    @reads(Permission.WORKERS_VIEW)
    async def failures(self, since: Span = "1h") -> Sequence[Failures]:
        """Ends within the window by kind, with failures, failure rate and last error; the most failures first."""
        async with self._within(_window(since, "since")) as snapshot:
            return await _failures(snapshot, self._guard)

    @reads(Permission.WORKERS_VIEW)
    async def tenants(self, window: Span = "1h", *, limit: int = 500) -> Sequence[TenantLoad]:
        """Ends within the window by tenant, in total and per second; the busiest first."""
        async with self._within(_window(window, "window")) as snapshot:
            return await _tenants(snapshot, self._guard, limit)

    @reads(Permission.WORKERS_VIEW)
    async def throughput(self, window: Span = "5m") -> Throughput:
        """Ends within the window, in total and per second."""
        async with self._within(_window(window, "window")) as snapshot:
            return await _throughput(snapshot)

    @contextlib.asynccontextmanager
    async def _within(self, window: timedelta) -> AsyncIterator[SqlExecutor]:
        """A snapshot whose views count ends within the window."""
        async with self._open().snapshot() as snapshot:
            await snapshot.fetch("stats_window", window=window)
            yield snapshot


async def _overview(snapshot: SqlExecutor, window: timedelta) -> Overview:
    return Overview(
        at=await current_load.clock(snapshot),
        states={
            State(row["state"]): Count(row["jobs"], exact=not row["capped"])
            for row in await snapshot.fetch("stats_states")
        },
        ended={
            State(row["state"]): Count(row["ended"], exact=not row["capped"])
            for row in await snapshot.fetch("stats_ended")
        },
        window=window,
        lanes=await current_load.lane_loads(snapshot, await lane_rows.read(snapshot)),
        # Without the jobs that stuck handlers belong to: not every principal may see them.
        workers=[replace(view, held=()) for view in await views(snapshot)],
    )


async def _failures(snapshot: SqlExecutor, guard: Guard) -> list[Failures]:
    return [
        Failures(
            row["kind"],
            ended=Count(row["ended"], exact=not row["capped"]),
            failed=Count(row["failed"], exact=not row["capped"]),
            rate=row["rate"],
            last_failed_at=row["last_failed_at"],
            last_failed_id=row["last_failed_id"],
            last_error=rows.json_of(row["last_error"]),
        )
        for row in await snapshot.fetch("stats_failures", **guard.visibility)
    ]


async def _tenants(snapshot: SqlExecutor, guard: Guard, limit: int) -> list[TenantLoad]:
    return [
        TenantLoad(
            row["tenant"],
            ended=Count(row["ended"], exact=not row["capped"]),
            failed=Count(row["failed"], exact=not row["capped"]),
            window=row["counted_for"],
            per_second=row["per_second"],
        )
        for row in await snapshot.fetch("stats_tenants", n=limit, **guard.visibility)
    ]


async def _throughput(snapshot: SqlExecutor) -> Throughput:
    (row,) = await snapshot.fetch("stats_throughput")
    return Throughput(Count(row["ended"], exact=not row["capped"]), row["counted_for"], row["per_second"])


def _window(value: Span, name: str) -> timedelta:
    window = duration(value, name)
    if window <= timedelta(0):
        message = f"{name} must be longer than 0; got {value!r}."
        raise InvalidOption(message)
    return window

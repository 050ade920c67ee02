"""app.stats: backlog, running jobs, throughput, failures, totals and series.

The numbers are defined by views of the schema (stats_backlog, stats_failures …) and only read here. Ends come from
counts that are kept as jobs end, so they are exact; a window begins with a whole minute, or a whole hour if it is
longer than a day.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rowlock.desk import current_load
from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.desk.workers import views
from rowlock.errors import InvalidOption
from rowlock.model.access import Permission
from rowlock.model.count import Count
from rowlock.model.job_counts import (
    OTHER,
    CountSeries,
    EndCounts,
    JobTotals,
    KindStats,
    KindTotals,
    SeriesAnswer,
    SeriesPoint,
    end_counts,
)
from rowlock.model.state import State
from rowlock.model.times.duration import duration
from rowlock.model.workload import Failures, Overview, Panel, TenantLoad, Throughput, Work
from rowlock.store import lanes as lane_rows
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.job_counts import SeriesBy
    from rowlock.model.options import Span
    from rowlock.model.workload import Backlog, Running
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor

_LONGEST_SERIES: Final = timedelta(days=31)
_STEPS: Final = (
    (timedelta(hours=2), timedelta(minutes=1), "minute"),
    (timedelta(hours=24), timedelta(minutes=10), "ten_minutes"),
    (timedelta(days=8), timedelta(hours=1), "hour"),
    (_LONGEST_SERIES, timedelta(hours=4), "hour"),
)
"""Windows up to so long have points so far apart, from these counts: 200 points at most."""


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

    @reads(Permission.WORKERS_VIEW)
    async def totals(self) -> JobTotals:
        """Ended jobs and attempts by kind and lane, with durations, since the tables have counts. They only grow."""
        async with self._open().snapshot() as snapshot:
            counted = await snapshot.fetch("totals_by_kind")
            running = {(row["kind"], row["lane"] or ""): row["n"] for row in await snapshot.fetch("running_by_kind")}
            tenants = await snapshot.fetch("totals_by_tenant", **self._guard.visibility)
        return JobTotals(
            kinds=_kind_totals(counted, running),
            tenants={(row["tenant"], row["state"]): row["n"] for row in tenants},
        )

    @reads(Permission.WORKERS_VIEW)
    async def series(
        self,
        window: Span = "1h",
        *,
        by: SeriesBy | None = None,
        kind: str | None = None,
        lane: str | None = None,
        limit: int = 20,
    ) -> SeriesAnswer:
        """Ends, failures, retries and durations over time: by minute, 10 minutes, hour or 4 hours.

        by: a series for each kind or lane, the `limit` busiest ones and (other); kind, lane: only these.
        """
        span = _window(window, "window")
        async with self._open().snapshot() as snapshot:
            found = await _stepped(snapshot, span, by=by, kind=kind, lane=lane, n=limit)
        steps = int((found.now - found.since) / found.step) + 1
        moments = [found.since + found.step * n for n in range(steps)]
        return SeriesAnswer(found.since, found.step, _series(found.rows, moments, by))

    @reads(Permission.WORKERS_VIEW)
    async def kind(self, kind: str, window: Span = "24h") -> KindStats:
        """How jobs of one kind ended and waited within the window, what waits and runs now, and the last error."""
        span = _window(window, "window")
        async with self._open().snapshot() as snapshot:
            found = await _stepped(snapshot, span, kind=kind)
            (now,) = await snapshot.fetch("kind_now", kind=kind, since=found.since, **self._guard.visibility)
            waiting = next((each for each in await current_load.backlog(snapshot) if each.kind == kind), None)
        return KindStats(
            kind,
            found.since,
            found.now - found.since,
            end_counts(found.rows),
            lane=now["lane"],
            due=waiting.due if waiting else Count(0),
            scheduled=waiting.scheduled if waiting else Count(0),
            oldest_wait=waiting.oldest_wait if waiting else None,
            running=now["running"],
            last_failed_at=now["last_failed_at"],
            last_failed_id=now["last_failed_id"],
            last_error=rows.error_of(now["last_error"]),
        )

    @contextlib.asynccontextmanager
    async def _within(self, window: timedelta) -> AsyncIterator[SqlExecutor]:
        """A snapshot whose views count ends within the window."""
        async with self._open().snapshot() as snapshot:
            await snapshot.fetch("stats_window", window=window)
            yield snapshot


@dataclass(frozen=True, slots=True)
class _SteppedCounts:
    """Counts of a window by step. since: the beginning of the first step; now: the database's clock."""

    since: datetime
    now: datetime
    step: timedelta
    rows: Sequence[Record]


async def _stepped(
    snapshot: SqlExecutor,
    window: timedelta,
    *,
    by: SeriesBy | None = None,
    kind: str | None = None,
    lane: str | None = None,
    n: int = 1,
) -> _SteppedCounts:
    """n: names that are kept apart; the others are (other)."""
    span = min(window, _LONGEST_SERIES)
    step, counted = next((step, counted) for longest, step, counted in _STEPS if span <= longest)
    seconds = step.total_seconds()
    (start,) = await snapshot.fetch("series_since", step=seconds, window=span)
    found = await snapshot.fetch(
        "stats_series", step=seconds, counted=counted, since=start["since"], by=by, kind=kind, lane=lane, n=n
    )
    return _SteppedCounts(start["since"], start["now"], step, found)


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
            last_error=rows.error_of(row["last_error"]),
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


def _kind_totals(counted: Sequence[Record], running: Mapping[tuple[str, str], int]) -> list[KindTotals]:
    counts = {key: end_counts(group) for key, group in groupby(counted, key=itemgetter("kind", "lane"))}
    active = dict(running)
    if (OTHER, OTHER) in counts:
        # Kinds beyond the most series are counted as (other): their running jobs, too, or starts would go down.
        for key in [key for key in active if key not in counts]:
            active[OTHER, OTHER] = active.get((OTHER, OTHER), 0) + active.pop(key)
    keys = sorted({*counts, *active})
    return [
        KindTotals(kind, lane, counts.get((kind, lane), EndCounts()), active.get((kind, lane), 0))
        for kind, lane in keys
    ]


def _series(found: Sequence[Record], moments: Sequence[datetime], by: SeriesBy | None) -> list[CountSeries]:
    """The series with a point for every moment, the busiest first and (other) last."""
    ends: dict[str | None, int] = {} if by else {None: 0}
    for row in found:
        ends[row["name"]] = ends.get(row["name"], 0) + (row["n"] if row["measure"] != "wait" else 0)
    ranked = sorted(ends, key=lambda name: (name == OTHER, -ends[name], name or ""))
    rows: dict[tuple[str | None, datetime], list[Record]] = {}
    for row in found:
        rows.setdefault((row["name"], row["at"]), []).append(row)
    return [
        CountSeries(
            name,
            [SeriesPoint(at, end_counts(rows.get((name, at), ())), partial=at == moments[-1]) for at in moments],
        )
        for name in ranked
    ]


def _window(value: Span, name: str) -> timedelta:
    window = duration(value, name)
    if window <= timedelta(0):
        message = f"{name} must be longer than 0; got {value!r}."
        raise InvalidOption(message)
    return window

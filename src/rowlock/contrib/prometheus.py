"""Metrics for Prometheus, read from app.stats.

    from prometheus_client import REGISTRY
    from rowlock.contrib.prometheus import RowlockCollector

    REGISTRY.register(RowlockCollector(app))

Every number comes from the database, so every process reports the same numbers: scrape one of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from rowlock.errors import DatabaseError, MissingExtra
from rowlock.model.job_counts import BOUNDS, OTHER
from rowlock.model.times.duration import duration

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtra("prometheus-client", "prometheus") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta

    from prometheus_client.core import Metric

    from rowlock.app import Rowlock
    from rowlock.model.job_counts import DurationHistogram, JobTotals, KindTotals
    from rowlock.model.options import Span
    from rowlock.model.workload import Panel

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
NO_TENANT: Final = "(none)"
"""The label of jobs without a tenant."""
NO_LANE: Final = "(none)"
"""The label of jobs that ended without having been in a lane."""
_SHORTEST_CACHE: Final = 1.0
_TENANTS: Final = 1000
_UP: Final = "1: the database answered; 0: it did not, or its schema does not fit."


class RowlockCollector(Collector):
    """Metrics of one application's database.

    window: how far back the gauges of finished jobs count. labels: how many kinds, lanes and tenants get a label of
    their own in gauges; the others share the label "(other)". every: seconds for which metrics are cached, at least 1.
    """

    def __init__(self, app: Rowlock, *, window: Span = "5m", labels: int = 100, every: float = 5.0) -> None:
        self._app, self._window, self._labels = app, duration(window, "window"), labels
        self._every = max(_SHORTEST_CACHE, every)
        self._one = threading.Lock()
        self._read_at = float("-inf")
        self._last: list[Metric] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering the collector does not query the database."""
        return []

    @override
    def collect(self) -> Iterable[Metric]:
        """The metrics, for prometheus_client's own servers; blocks unless they are cached."""
        with self._one:
            if time.monotonic() - self._read_at >= self._every:
                self._last = self._read()
                # From the end of the read: a slow one is not repeated at once.
                self._read_at = time.monotonic()
            return self._last

    async def text(self) -> bytes:
        """The body of a scrape, of CONTENT_TYPE, for asynchronous servers; does not block the loop."""
        return await asyncio.to_thread(generate_latest, self._registry)

    def _read(self) -> list[Metric]:
        try:
            panel = self._app.sync.stats.panel(window=self._window, jobs=0, tenants=_TENANTS)
            totals = self._app.sync.stats.totals()
        except DatabaseError:
            return [_gauge("up", _UP, [], {(): 0})]
        return [
            _gauge("up", _UP, [], {(): 1}),
            *_counters(totals),
            *_histograms(totals),
            *_overall(panel),
            *_labelled(panel, self._labels),
        ]


def _counters(totals: JobTotals) -> list[Metric]:
    kinds = [(each, (each.kind, each.lane or NO_LANE)) for each in totals.kinds]
    return [
        _counter(
            "jobs_ended",
            "Jobs that reached a final state.",
            ["kind", "lane", "state"],
            {(*key, state): n for each, key in kinds for state, n in each.counts.ended.items()},
        ),
        _counter(
            "attempts_started",
            "Attempts that were started.",
            ["kind", "lane"],
            {key: each.started for each, key in kinds if each.started},
        ),
        _counter(
            "attempts_ended",
            "Attempts that ended. final: whether the job ended with it.",
            ["kind", "lane", "outcome", "final"],
            {
                (*key, outcome, "true" if final else "false"): n
                for each, key in kinds
                for (outcome, final), n in each.counts.attempts.items()
            },
        ),
        _counter(
            "jobs_retried",
            "Attempts that failed, died or were lost and whose job was tried again.",
            ["kind", "lane"],
            {key: each.counts.retried for each, key in kinds if each.counts.attempts},
        ),
        _counter(
            "jobs_reopened",
            "Finished jobs that a person retried.",
            ["kind", "lane"],
            {key: each.counts.reopened for each, key in kinds if each.counts.reopened},
        ),
        _counter(
            "tenant_jobs_ended",
            "Jobs that reached a final state, by tenant.",
            ["tenant", "state"],
            {(tenant or NO_TENANT, state): n for (tenant, state), n in totals.tenants.items()},
        ),
    ]


def _histograms(totals: JobTotals) -> list[Metric]:
    return [
        _histogram("job_run_seconds", "How long attempts ran.", totals.kinds, lambda each: each.counts.run),
        _histogram(
            "job_wait_seconds",
            "How long due jobs waited for their attempt to start; observed when it ends.",
            totals.kinds,
            lambda each: each.counts.wait,
        ),
    ]


def _histogram(
    name: str, text: str, kinds: Iterable[KindTotals], chosen: Callable[[KindTotals], DurationHistogram]
) -> Metric:
    family = HistogramMetricFamily(f"rowlock_{name}", text, labels=["kind", "lane"])
    for each in kinds:
        histogram = chosen(each)
        if histogram.total:
            cumulative = accumulate(histogram.counts)
            bounds = [*(str(float(bound)) for bound in BOUNDS), "+Inf"]
            buckets = list(zip(bounds, map(float, cumulative), strict=True))
            family.add_metric([each.kind, each.lane or NO_LANE], buckets, histogram.seconds)
    return family


def _overall(panel: Panel) -> list[Metric]:
    overview = panel.overview
    within = f"within the last {overview.window.total_seconds():g} seconds, from a whole minute on"
    states = [("silent" if worker.silent else worker.state) for worker in overview.workers]
    return [
        _gauge(
            "jobs",
            "Live jobs and kept failures; at least so many where rowlock_jobs_exact is 0.",
            ["state"],
            {(state,): count.value for state, count in overview.states.items()},
        ),
        _gauge(
            "jobs_exact",
            "1: rowlock_jobs is exact; 0: counting stopped at this number, and there are more.",
            ["state"],
            {(state,): count.exact for state, count in overview.states.items()},
        ),
        _gauge(
            "ended",
            f"Jobs finished {within}.",
            ["state"],
            {(state,): count.value for state, count in overview.ended.items()},
        ),
        _gauge("throughput", f"Jobs finished per second, {within}.", [], {(): panel.throughput.per_second}),
        _gauge(
            "workers",
            "Registered workers.",
            ["state"],
            {(state,): states.count(state) for state in ("up", "draining", "silent")},
        ),
        _gauge(
            "jobs_set_aside",
            "Jobs of which the database does not take a write now, as their workers say.",
            [],
            {(): sum(worker.set_aside_count for worker in overview.workers)},
        ),
    ]


def _labelled(panel: Panel, most: int) -> list[Metric]:
    lanes, backlog, failures, tenants = panel.overview.lanes, panel.backlog, panel.failures, panel.tenants
    oldest = "Seconds for which the oldest due job has waited."
    due, later = "Queued jobs that are due; capped.", "Queued jobs that are not due yet; capped."
    exact = "1: the number of due jobs is exact; 0: counting stopped there, and there are more."
    by_lane: list[tuple[str, str, dict[str, float]]] = [
        ("lane_open", "1: the lane starts jobs; 0: it is drained.", {x.lane.name: x.lane.enabled for x in lanes}),
        ("lane_running", "Running jobs.", {x.lane.name: x.running for x in lanes}),
        ("lane_slots", "Jobs that the lane's workers can run at once.", {x.lane.name: x.slots for x in lanes}),
        ("lane_workers", "Workers that serve the lane.", {x.lane.name: x.workers for x in lanes}),
        ("lane_due", due, {x.lane.name: x.due.value for x in lanes}),
        ("lane_due_exact", exact, {x.lane.name: x.due.exact for x in lanes}),
        ("lane_scheduled", later, {x.lane.name: x.scheduled.value for x in lanes}),
        ("lane_oldest_wait_seconds", oldest, {x.lane.name: _seconds(x.oldest_wait) for x in lanes}),
    ]
    by_kind: list[tuple[str, str, dict[str, float]]] = [
        ("kind_due", due, {x.kind: x.due.value for x in backlog}),
        ("kind_due_exact", exact, {x.kind: x.due.exact for x in backlog}),
        ("kind_scheduled", later, {x.kind: x.scheduled.value for x in backlog}),
        ("kind_oldest_wait_seconds", oldest, {x.kind: _seconds(x.oldest_wait) for x in backlog}),
        ("kind_ended", "Jobs finished within the window.", {x.kind: x.ended.value for x in failures}),
        ("kind_failed", "Jobs failed within the window.", {x.kind: x.failed.value for x in failures}),
    ]
    by_tenant: list[tuple[str, str, dict[str, float]]] = [
        ("tenant_throughput", "Jobs finished per second.", {x.tenant or NO_TENANT: x.per_second for x in tenants}),
        ("tenant_failed", "Jobs failed within the window.", {x.tenant or NO_TENANT: x.failed.value for x in tenants}),
    ]
    return [
        _gauge(name, text, [label], {(key,): value for key, value in capped(rows, most, _join(name)).items()})
        for label, group in (("lane", by_lane), ("kind", by_kind), ("tenant", by_tenant))
        for name, text, rows in group
    ]


def capped(rows: Mapping[str, float], most: int, join: Callable[[Iterable[float]], float] = sum) -> dict[str, float]:
    """The largest `most` rows, and the others joined under OTHER, so that a label has a bounded number of values."""
    ranked = sorted(rows.items(), key=lambda row: (-row[1], row[0]))
    kept = dict(ranked[:most])
    if ranked[most:]:
        kept[OTHER] = join(value for _, value in ranked[most:])
    return kept


def _join(name: str) -> Callable[[Iterable[float]], float]:
    if name.endswith("_exact"):
        return min
    return max if name.endswith(("_seconds", "_open")) else sum


def _gauge(name: str, text: str, labels: Sequence[str], rows: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(f"rowlock_{name}", text, labels=labels)
    for values, value in rows.items():
        family.add_metric(values, value)
    return family


def _counter(name: str, text: str, labels: Sequence[str], rows: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(f"rowlock_{name}", text, labels=labels)
    for values, value in rows.items():
        family.add_metric(values, value)
    return family


def _seconds(wait: timedelta | None) -> float:
    return 0.0 if wait is None else wait.total_seconds()

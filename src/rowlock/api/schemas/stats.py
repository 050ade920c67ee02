"""Statistics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc, seconds
from rowlock.api.schemas.fields import INSTANT, CountAnswer
from rowlock.api.schemas.workers import COUNT, BacklogAnswer, LaneLoadAnswer, RunningAnswer, WorkerAnswer
from rowlock.model import ids

if TYPE_CHECKING:
    from rowlock.model.job_counts import CountSeries, DurationHistogram, KindStats, SeriesAnswer, SeriesPoint
    from rowlock.model.workload import Failures, Overview, TenantLoad, Throughput, Work

Window = Annotated[float, doc("Seconds of the window. It begins with a whole minute, or an hour beyond a day.", 3600.0)]
Ended = Annotated[CountAnswer, doc("Jobs that ended within the window.", {"value": 1200, "exact": True})]
Failed = Annotated[CountAnswer, doc("Jobs that failed within the window.", {"value": 6, "exact": True})]
PerSecond = Annotated[float, doc("Ended jobs per second.", 0.33)]


class OverviewAnswer(Answer):
    """Jobs by state, lanes and workers."""

    at: Annotated[datetime, doc("The database's clock when this was read.", INSTANT)]
    window: Window
    states: Annotated[dict[str, CountAnswer], doc("Live jobs and kept failures by state.", {"queued": COUNT})]
    ended: Annotated[dict[str, CountAnswer], doc("Ends within the window by final state.", {"completed": COUNT})]
    lanes: Annotated[list[LaneLoadAnswer], doc("Lanes by name, with their use.")]
    workers: Annotated[list[WorkerAnswer], doc("Workers.")]

    @classmethod
    def of(cls, overview: Overview) -> OverviewAnswer:
        """From the desk's value."""
        return cls(
            at=overview.at,
            window=overview.window.total_seconds(),
            states={state: CountAnswer.of(count) for state, count in overview.states.items()},
            ended={state: CountAnswer.of(count) for state, count in overview.ended.items()},
            lanes=[LaneLoadAnswer.loaded(load) for load in overview.lanes],
            workers=[WorkerAnswer.of(worker) for worker in overview.workers],
        )


class BacklogsAnswer(Answer):
    """The backlog by kind."""

    items: Annotated[list[BacklogAnswer], doc("Kinds with queued jobs, the longest wait first.")]


class RunningsAnswer(Answer):
    """Running jobs."""

    items: Annotated[list[RunningAnswer], doc("Jobs in slots, the longest running first.")]


class FailuresAnswer(Answer):
    """How jobs of one kind ended within the window."""

    kind: fields.Kind
    ended: Ended
    failed: Failed
    rate: Annotated[float, doc("Share of failures among the ends, from 0 to 1.", 0.005)]
    last_failed_at: Annotated[datetime | None, doc("When the last one failed; null: none did.", INSTANT)]
    last_failed_id: Annotated[str | None, doc("Public id of that job; null: none failed.", fields.JOB_ID)]
    last_error: fields.ErrorOrNull

    @classmethod
    def of(cls, failures: Failures) -> FailuresAnswer:
        """From the desk's value."""
        last = failures.last_failed_id
        return cls(
            kind=failures.kind,
            ended=CountAnswer.of(failures.ended),
            failed=CountAnswer.of(failures.failed),
            rate=failures.rate,
            last_failed_at=failures.last_failed_at,
            last_failed_id=None if last is None else ids.encode(last),
            last_error=None if failures.last_error is None else dict(failures.last_error),
        )


class KindFailuresAnswer(Answer):
    """Failures by kind."""

    window: Window
    items: Annotated[list[FailuresAnswer], doc("Kinds, the most failures first.")]


class TenantAnswer(Answer):
    """What ended for one tenant."""

    tenant: Annotated[str | None, doc("The tenant; null: jobs without one.", "acme")]
    ended: Ended
    failed: Failed
    window: Window
    per_second: PerSecond

    @classmethod
    def of(cls, load: TenantLoad) -> TenantAnswer:
        """From the desk's value."""
        return cls(
            tenant=load.tenant,
            ended=CountAnswer.of(load.ended),
            failed=CountAnswer.of(load.failed),
            window=load.window.total_seconds(),
            per_second=load.per_second,
        )


class TenantsAnswer(Answer):
    """Ends by tenant."""

    items: Annotated[list[TenantAnswer], doc("Tenants, the busiest first.")]


class WorkAnswer(Answer):
    """Running jobs of one reference or tag, by phase and kind."""

    name: Annotated[str, doc("Name of the reference; `tag` for a tag.", "project")]
    value: Annotated[str, doc("Its value.", "7")]
    phase: Annotated[str | None, doc("Phase that these jobs are in; null: none.", "render")]
    kind: fields.Kind
    running: Annotated[int, doc("How many of them run.", 3)]
    longest: Annotated[float, doc("Seconds that the longest of them has run.", 72.4)]

    @classmethod
    def of(cls, work: Work) -> WorkAnswer:
        """From the desk's value."""
        return cls(
            name=work.name,
            value=work.value,
            phase=work.phase,
            kind=work.kind,
            running=work.running,
            longest=work.longest.total_seconds(),
        )


class ReferencesAnswer(Answer):
    """Running jobs by reference, phase and kind."""

    items: Annotated[list[WorkAnswer], doc("References, the most jobs first.")]


class ThroughputAnswer(Answer):
    """Ends within the window."""

    ended: Ended
    window: Window
    per_second: PerSecond

    @classmethod
    def of(cls, throughput: Throughput) -> ThroughputAnswer:
        """From the desk's value."""
        return cls(
            ended=CountAnswer.of(throughput.ended),
            window=throughput.window.total_seconds(),
            per_second=throughput.per_second,
        )


class DurationsAnswer(Answer):
    """Durations of the attempts that ended, in seconds; null: none ended."""

    p50: Annotated[float | None, doc("Half of them were not longer.", 0.04)]
    p95: Annotated[float | None, doc("Length that 95 % of them did not exceed.", 0.9)]
    p99: Annotated[float | None, doc("Length that 99 % of them did not exceed.", 2.3)]
    mean: Annotated[float | None, doc("Their mean.", 0.11)]

    @classmethod
    def of(cls, histogram: DurationHistogram) -> DurationsAnswer:
        """From the desk's value."""
        return cls(
            p50=histogram.quantile(0.5),
            p95=histogram.quantile(0.95),
            p99=histogram.quantile(0.99),
            mean=histogram.seconds / histogram.total if histogram.total else None,
        )


class PointAnswer(Answer):
    """What ended in one step; a step in which nothing ended is there, too."""

    at: Annotated[datetime, doc("Beginning of the step.", INSTANT)]
    ended: Annotated[dict[str, int], doc("Ended jobs by final state.", {"completed": 118, "failed": 2})]
    retried: Annotated[int, doc("Failed, died or lost attempts whose job was tried again.", 5)]
    run: Annotated[DurationsAnswer, doc("How long attempts ran.")]
    wait: Annotated[DurationsAnswer, doc("How long due jobs waited for their attempt.")]
    partial: Annotated[bool, doc("Whether the step is not over, so that its numbers still grow.", False)]

    @classmethod
    def of(cls, point: SeriesPoint) -> PointAnswer:
        """From the desk's value."""
        return cls(
            at=point.at,
            ended=dict(point.counts.ended),
            retried=point.counts.retried,
            run=DurationsAnswer.of(point.counts.run),
            wait=DurationsAnswer.of(point.counts.wait),
            partial=point.partial,
        )


class CountSeriesAnswer(Answer):
    """The points of one kind or lane, or of all jobs."""

    name: Annotated[str | None, doc("The kind or lane; (other): the less busy ones; null: all jobs.", "reports")]
    points: Annotated[list[PointAnswer], doc("A point for every step, in order of time.")]

    @classmethod
    def of(cls, series: CountSeries) -> CountSeriesAnswer:
        """From the desk's value."""
        return cls(name=series.name, points=[PointAnswer.of(point) for point in series.points])


class SeriesListAnswer(Answer):
    """Series over a window."""

    since: Annotated[datetime, doc("Beginning of the first step.", INSTANT)]
    step: Annotated[float, doc("Seconds of a step: 60, 600 (over 2 h), 3600 (over 24 h), 14400 (over 8 days).", 60.0)]
    items: Annotated[list[CountSeriesAnswer], doc("Series, the busiest first.")]

    @classmethod
    def of(cls, found: SeriesAnswer) -> SeriesListAnswer:
        """From the desk's value."""
        return cls(
            since=found.since,
            step=found.step.total_seconds(),
            items=[CountSeriesAnswer.of(series) for series in found.series],
        )


class KindStatsAnswer(Answer):
    """How jobs of one kind ended and waited within the window, and what there is of it now."""

    kind: fields.Kind
    since: Annotated[datetime, doc("Beginning of the window, with a whole step.", INSTANT)]
    window: Annotated[float, doc("Seconds from there until now.", 86_400.0)]
    lane: Annotated[str | None, doc("Lane that takes the kind; null: no lane does.", "reports")]
    due: Annotated[CountAnswer, doc("Queued jobs that could run now.", COUNT)]
    scheduled: Annotated[CountAnswer, doc("Queued jobs whose time has not come.", COUNT)]
    oldest_wait: Annotated[float | None, doc("Seconds that the oldest due job has waited; null: none is due.", 4.2)]
    running: Annotated[int, doc("Jobs that run now.", 3)]
    ended: Annotated[dict[str, int], doc("Ended jobs by final state.", {"completed": 118, "failed": 2})]
    retried: Annotated[int, doc("Failed, died or lost attempts whose job was tried again.", 5)]
    failure_rate: Annotated[float, doc("Share of failures among the ends, from 0 to 1.", 0.005)]
    run: Annotated[DurationsAnswer, doc("How long attempts ran.")]
    wait: Annotated[DurationsAnswer, doc("How long due jobs waited for their attempt.")]
    last_failed_at: Annotated[datetime | None, doc("When the last one failed; null: none did.", INSTANT)]
    last_failed_id: Annotated[str | None, doc("Public id of that job; null: none failed.", fields.JOB_ID)]
    last_error: fields.ErrorOrNull

    @classmethod
    def of(cls, stats: KindStats) -> KindStatsAnswer:
        """From the desk's value."""
        last = stats.last_failed_id
        return cls(
            kind=stats.kind,
            since=stats.since,
            window=stats.window.total_seconds(),
            lane=stats.lane,
            due=CountAnswer.of(stats.due),
            scheduled=CountAnswer.of(stats.scheduled),
            oldest_wait=seconds(stats.oldest_wait),
            running=stats.running,
            ended=dict(stats.counts.ended),
            retried=stats.counts.retried,
            failure_rate=stats.failure_rate,
            run=DurationsAnswer.of(stats.counts.run),
            wait=DurationsAnswer.of(stats.counts.wait),
            last_failed_at=stats.last_failed_at,
            last_failed_id=None if last is None else ids.encode(last),
            last_error=None if stats.last_error is None else dict(stats.last_error),
        )

"""Statistics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc
from rowlock.api.schemas.fields import INSTANT, CountAnswer
from rowlock.api.schemas.workers import COUNT, BacklogAnswer, LaneLoadAnswer, RunningAnswer, WorkerAnswer
from rowlock.model import ids

if TYPE_CHECKING:
    from rowlock.model.workload import Failures, Overview, TenantLoad, Throughput, Work

Window = Annotated[float, doc("Length of the window in seconds; shorter where counting stopped early.", 3600.0)]
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

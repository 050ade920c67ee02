"""The position of a due job: how many jobs its lane starts before it, and about when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk import current_load
from rowlock.desk.workers import views
from rowlock.model.count import Count
from rowlock.model.explanation import QueuePosition
from rowlock.model.lane import kinds_by_lane
from rowlock.model.state import State
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowlock.model.job import Job
    from rowlock.model.lane import Lane
    from rowlock.model.workload import WorkerView
    from rowlock.store.executor import SqlExecutor

CAP: Final = 1000
"""Jobs ahead at which counting stops."""
_FEWEST: Final = 5
"""Ends within ten minutes from which a lane's pace is worth an estimate."""


@dataclass(frozen=True, slots=True)
class JobsAhead:
    """Due jobs of the lane that come first. higher: of a higher priority; older: of the same one."""

    higher: Count
    older: Count


NONE_AHEAD: Final = JobsAhead(Count(), Count())


async def jobs_ahead(
    reads: SqlExecutor, job: Job, now: datetime, lanes: Sequence[Lane], lane: Lane, *, workers: Sequence[WorkerView]
) -> JobsAhead:
    """Only of kinds that a worker of the lane knows: the others do not keep it waiting."""
    known = {kind for worker in workers if worker.works and worker.serves(lane.name) for kind in worker.kinds}
    (found,) = await reads.fetch(
        "jobs_ahead",
        kinds=kinds_by_lane(lanes, known | {job.kind})[lane.name],
        priority=job.priority,
        now=now,
        run_after=job.run_after,
        id=job.id,
        cap=CAP + 1,
    )
    exact = found["higher"] + found["older"] <= CAP
    return JobsAhead(Count(min(found["higher"], CAP), exact=exact), Count(min(found["older"], CAP), exact=exact))


async def position(
    reads: SqlExecutor, ahead: JobsAhead, job: Job, lane: Lane, workers: Sequence[WorkerView]
) -> QueuePosition | None:
    """None in a fair lane: tenants take turns there, so that age says little about when a job starts."""
    if lane.order == "fair":
        return None
    total = ahead.higher + ahead.older
    before = Count(min(total.value, CAP), exact=total.exact)
    moves = lane.enabled and any(
        worker.works and worker.serves(lane.name) and job.kind in worker.kinds for worker in workers
    )
    return QueuePosition(before, lane.name, await _start_in(reads, before, lane) if moves and before.exact else None)


async def read(reads: SqlExecutor, job: Job) -> QueuePosition | None:
    """The position of a job alone, without the other facts of an explanation; None unless it is queued and due."""
    now = await current_load.clock(reads)
    if job.state is not State.QUEUED or job.run_after > now:
        return None
    lanes = await lane_rows.read(reads)
    owner = current_load.owners(lanes, [job.kind]).get(job.kind)
    lane = next((lane for lane in lanes if lane.name == owner), None)
    if lane is None:
        return None
    workers = await views(reads)
    return await position(reads, await jobs_ahead(reads, job, now, lanes, lane, workers=workers), job, lane, workers)


async def _start_in(reads: SqlExecutor, before: Count, lane: Lane) -> timedelta | None:
    (pace,) = await reads.fetch("lane_pace", lane=lane.name)
    if pace["ended"] < _FEWEST:
        return None
    return timedelta(seconds=(before.value + 1) * pace["seconds"] / pace["ended"])

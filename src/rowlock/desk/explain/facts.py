"""Facts: everything that an explanation needs, read in one snapshot with a handful of bounded statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.desk import current_load
from rowlock.desk.explain.position import CAP, NONE_AHEAD, jobs_ahead, position
from rowlock.desk.limits import rate_of
from rowlock.desk.workers import only_visible, views
from rowlock.model.count import Count
from rowlock.model.lane import DEFAULT_LANE
from rowlock.model.rate import LANE
from rowlock.model.state import State
from rowlock.model.workload import MISSED_BEATS
from rowlock.store import lanes as lane_rows
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowlock.desk.current_load import SlotsUsed
    from rowlock.desk.guard import Guard
    from rowlock.model.explanation import QueuePosition
    from rowlock.model.job import Job
    from rowlock.model.lane import Lane
    from rowlock.model.rate import RateView
    from rowlock.model.workload import HeldSlot, Running, WorkerView
    from rowlock.store.database import Record
    from rowlock.store.executor import SqlExecutor

SHOWN: Final = 5
"""Jobs named as holders of a lane or a gate."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One job and everything around it. row: the columns of explain_job; lane: the one that serves its kind."""

    job: Job
    row: Record
    now: datetime
    needed: int
    """The schema version this code was written for."""
    standing: Record
    """The version of the schema, and the oldest code version that runs on it."""
    lanes: Sequence[Lane]
    lane: Lane | None
    workers: Sequence[WorkerView]
    use: SlotsUsed
    in_lane: Sequence[Running]
    """Some jobs that run in the lane, the longest running first."""
    holders: Sequence[Record]
    """Some jobs that hold a place at the job's gate."""
    rates: Sequence[RateView]
    """Rates of the job, and of its lane."""
    parked_ahead: Count
    higher: Count
    """Due jobs of the lane with a higher priority."""
    older: Count
    """Older due jobs of the lane with the same priority."""
    position: QueuePosition | None = None
    held: Sequence[HeldSlot] = ()
    """Slots of the lane whose handlers were told to stop and have not; of jobs that the principal may see."""
    lock_waits: Sequence[Record] = ()
    """Locks that the running job waits for, each with its holder."""
    waits: Record | None = None
    """Its place in its workflow, and what it waits for there."""
    before: Sequence[Record] = ()
    """Some of the steps it waits for."""
    delivery: Record | None = None
    """The newest message about the job, if a carrier delivers it."""

    @property
    def carrier(self) -> str | None:
        """The carrier that brings the job; None: workers claim it.

        Live processes say so. While none is there that knows the kind, the newest message about the job does.
        """
        lane = DEFAULT_LANE.name if self.lane is None else self.lane.name
        live = [worker for worker in self.workers if not self.missed_beats(worker) and worker.works]
        named = {
            worker.carrier_of(self.job.kind, lane)
            for worker in live
            if self.job.kind in worker.kinds and (worker.carriers is not None or worker.serves(lane))
        }
        if None in named:
            return None
        delivered_by = None if self.delivery is None else self.delivery["carrier"]
        return min(filter(None, named), default=delivered_by)

    @property
    def due(self) -> bool:
        """Whether the job is queued and due, so that only a worker is missing."""
        return self.job.state is State.QUEUED and self.job.run_after <= self.now

    @property
    def serving(self) -> list[WorkerView]:
        """Workers of the job's lane, silent and draining ones included."""
        if self.lane is None or self.carrier is not None:
            return []
        return [worker for worker in self.workers if worker.serves(self.lane.name)]

    @property
    def working(self) -> list[WorkerView]:
        """Workers of the job's lane that beat and are not draining."""
        return [worker for worker in self.serving if worker.works and not self.missed_beats(worker)]

    @property
    def able(self) -> list[WorkerView]:
        """Working workers of the lane that know the kind."""
        return [worker for worker in self.working if self.job.kind in worker.kinds]

    def needs_message(self, delivery: Record) -> bool:
        """Whether the message stands for the job no more: it was about an earlier stay in the queue, or is too old."""
        early = delivery["delivered_at"] < self.job.run_after
        return early or bool(delivery["fence"] != self.job.fence or delivery["again_at"] <= self.now)

    def missed_beats(self, worker: WorkerView) -> bool:
        """Whether the worker has been silent for too long to count on it, though not long enough to be lost."""
        return self.now - worker.seen_at > MISSED_BEATS

    def running_in_lane(self) -> int:
        """How many jobs of the lane run, over all workers."""
        return sum(n for (_, name), n in self.use.items() if self.lane is not None and name == self.lane.name)


async def read(reads: SqlExecutor, job_id: int, needed: int, guard: Guard) -> Facts | None:
    """The facts about one job; None: there is none that the principal may see."""
    found = await reads.fetch("explain_job", id=job_id, **guard.visibility)
    if not found:
        return None
    row, job = found[0], rows.job_of(found[0])
    lanes, workers = await lane_rows.read(reads), await views(reads)
    owner = current_load.owners(lanes, [job.kind]).get(job.kind)
    lane = next((lane for lane in lanes if lane.name == owner), None)
    due = job.state is State.QUEUED and job.run_after <= row["now"]
    ahead = (
        await jobs_ahead(reads, job, row["now"], lanes, lane, workers=workers)
        if due and lane is not None
        else NONE_AHEAD
    )
    standing = (await reads.fetch("schema_standing"))[0] if row["has_steps"] else row
    # Tables that count ends may be missing while the schema is behind.
    place = due and lane is not None and standing["version"] >= needed
    # A blocked job at no gate waits for others, or for a signal.
    ungated = job.state is State.BLOCKED and row["gate_place"] == 0
    waits = (await reads.fetch("job_waits", id=job.id))[0] if ungated else None
    gated = job.gate_key is not None and not job.is_final
    deliveries = await reads.fetch("job_delivery", id=job.id) if due and row["has_deliveries"] else []
    return Facts(
        job=job,
        row=row,
        now=row["now"],
        needed=needed,
        standing=standing,
        lanes=lanes,
        lane=lane,
        workers=workers,
        use=await current_load.slot_use(reads),
        in_lane=[] if owner is None else await current_load.holders(reads, guard, owner, n=SHOWN),
        holders=await reads.fetch("gate_holders", key=job.gate_key, n=SHOWN, **guard.visibility) if gated else [],
        rates=await _rates(reads, row, lane),
        parked_ahead=await _parked_ahead(reads, job) if job.state is State.BLOCKED and gated else Count(),
        higher=ahead.higher,
        older=ahead.older,
        position=await position(reads, ahead, job, lane, workers) if place and lane is not None else None,
        held=[
            slot
            for worker in await only_visible(reads, guard, workers)
            for slot in worker.held
            if worker.works and slot.lane == owner
        ],
        lock_waits=await reads.fetch("lock_waits", id=job.id, **guard.visibility) if job.state is State.RUNNING else (),
        waits=waits,
        delivery=deliveries[0] if deliveries else None,
        before=await reads.fetch("waited_for", id=job.id, n=SHOWN) if waits is not None and waits["remaining"] else [],
    )


async def _rates(reads: SqlExecutor, row: Record, lane: Lane | None) -> list[RateView]:
    keys = [*row["rate_keys"], *([LANE + lane.name] if lane is not None and lane.rate is not None else [])]
    return [rate_of(found) for found in await reads.fetch("rates_named", keys=keys)] if keys else []


async def _parked_ahead(reads: SqlExecutor, job: Job) -> Count:
    (found,) = await reads.fetch(
        "gate_ahead", key=job.gate_key, priority=job.priority, run_after=job.run_after, id=job.id, cap=CAP + 1
    )
    return Count.upto(found["n"], CAP)

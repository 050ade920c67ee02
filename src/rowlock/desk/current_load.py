"""The current load: running jobs, slot use, backlog; shared by stats, workers and explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model import stored_json
from rowlock.model.count import Count
from rowlock.model.lane import kinds_by_lane
from rowlock.model.workload import Backlog, LaneLoad, Running
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rowlock.desk.guard import Guard
    from rowlock.model.lane import Lane
    from rowlock.store.database import Record
    from rowlock.store.executor import SqlExecutor

SlotsUsed = dict[tuple[int | None, str | None], int]
"""(worker id, lane) to running jobs."""


async def running(reads: SqlExecutor, guard: Guard, *, n: int) -> list[Running]:
    """Running jobs that the guard's principal may see, the longest running first."""
    return [running_of(row) for row in await reads.fetch("stats_running", n=n, **guard.visibility)]


async def holders(reads: SqlExecutor, guard: Guard, lane: str, *, n: int) -> list[Running]:
    """As running(), of one lane; also where the schema is behind."""
    return [running_of(row) for row in await reads.fetch("lane_holders", lane=lane, n=n, **guard.visibility)]


def running_of(row: Record) -> Running:
    """A Running from its row."""
    return Running(
        id=row["id"],
        kind=row["kind"],
        attempt=row["attempt"],
        lane=row["lane"],
        worker_id=row["worker_id"],
        worker=row["worker"],
        worker_silent=row["worker_silent"],
        since=row["since"],
        running_for=row["running_for"],
        cancel_requested=row["cancel_requested"],
        progress=rows.progress_of(row),
        tenant=row["tenant"],
        refs=stored_json.shown_object(row["refs"], "refs"),
        tags=tuple(row["tags"] or ()),
    )


async def slot_use(reads: SqlExecutor) -> SlotsUsed:
    """How many jobs of each lane each worker runs."""
    return {(row["claimed_by"], row["lane"]): row["used"] for row in await reads.fetch("slot_use")}


async def backlog(reads: SqlExecutor) -> list[Backlog]:
    """Queued jobs by kind, the longest waiting first."""
    return [
        Backlog(
            row["kind"],
            row["lane"],
            due=Count(row["due"], exact=not row["due_capped"]),
            scheduled=Count(row["scheduled"], exact=not row["scheduled_capped"]),
            oldest_wait=row["oldest_wait"],
            oldest_id=row["oldest_id"],
        )
        for row in await reads.fetch("stats_backlog")
    ]


async def clock(reads: SqlExecutor) -> datetime:
    """The database's clock."""
    (row,) = await reads.fetch("clock")
    moment: datetime = row["now"]
    return moment


def owners(lanes: Iterable[Lane], kinds: Iterable[str]) -> dict[str, str]:
    """Kind to the lane that serves it; kinds of no lane are left out."""
    served = kinds_by_lane(lanes, set(kinds))
    return {kind: name for name, names in served.items() for kind in names}


async def lane_loads(reads: SqlExecutor, lanes: Sequence[Lane]) -> list[LaneLoad]:
    """Each lane with what runs in it, what it could run, and what waits for it. lanes: read in the same snapshot."""
    found = {row["lane"]: row for row in await reads.fetch("stats_lanes")}
    held = {row["lane"]: row["held"] for row in await reads.fetch("slots_held")}
    return [_lane_load(lane, found[lane.name], held.get(lane.name, 0)) for lane in lanes if lane.name in found]


def _lane_load(lane: Lane, row: Record, held: int) -> LaneLoad:
    return LaneLoad(
        lane,
        running=row["running"],
        slots=row["slots"],
        workers=row["workers"],
        due=Count(row["due"], exact=not row["due_capped"]),
        scheduled=Count(row["scheduled"], exact=not row["scheduled_capped"]),
        oldest_wait=row["oldest_wait"],
        held=held,
    )

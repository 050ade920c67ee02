"""Load: reads what workers, lanes and queues hold right now; shared by the statistics, the workers desk and explain."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rowlock.model.count import Count, total
from rowlock.model.lane import kinds_by_lane
from rowlock.model.load import Backlog, LaneLoad, Running
from rowlock.store import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from rowlock.desk.guard import Guard
    from rowlock.model.lane import Lane
    from rowlock.model.load import WorkerView
    from rowlock.store.database import Database, Record, Snapshot

CAP: Final = 10_000
"""Rows a count looks at."""
SlotsUsed = dict[tuple[int | None, str | None], int]
"""(worker id, lane) to running jobs."""


async def running(
    reads: Snapshot | Database,
    guard: Guard,
    *,
    lane: str | None = None,
    longer_than: timedelta | None = None,
    n: int,
) -> list[Running]:
    """Running jobs that the guard's principal may see, the longest running first."""
    found = await reads.fetch("running_now", lane=lane, longer_than=longer_than, n=n, **guard.sight)
    return [running_of(row) for row in found]


def running_of(row: Record) -> Running:
    """A Running from its row."""
    return Running(
        id=row["id"],
        kind=row["kind"],
        attempt=row["attempt"],
        lane=row["lane"],
        worker_id=row["claimed_by"],
        worker=row["worker"],
        worker_silent=row["worker_silent"],
        since=row["claimed_at"],
        running_for=row["running_for"],
        cancel_requested=row["cancel_requested"],
        progress=rows.progress_of(row),
    )


async def slot_use(reads: Snapshot | Database) -> SlotsUsed:
    """How many jobs of each lane each worker runs."""
    return {(row["claimed_by"], row["lane"]): row["used"] for row in await reads.fetch("slot_use")}


async def backlog(reads: Snapshot | Database, lanes: Sequence[Lane]) -> tuple[list[Backlog], datetime]:
    """Queued jobs by kind, the longest waiting first; and the database's clock."""
    found = await reads.fetch("backlog", cap=CAP)
    by_kind: defaultdict[str, list[Record]] = defaultdict(list)
    for row in found:
        by_kind[row["kind"]].append(row)
    lane_of = owners(lanes, by_kind)
    depth = [_backlog(kind, lane_of.get(kind), pairs) for kind, pairs in by_kind.items()]
    depth.sort(key=lambda item: (-_seconds(item.oldest_wait), item.kind))
    return depth, found[0]["now"] if found else await clock(reads)


def _backlog(kind: str, lane: str | None, pairs: Sequence[Record]) -> Backlog:
    now = pairs[0]["now"]
    oldest = min(row["head"] for row in pairs)
    return Backlog(
        kind,
        lane,
        due=total(Count.upto(row["due"], row["cap"]) for row in pairs),
        scheduled=total(Count.upto(row["scheduled"], row["cap"]) for row in pairs),
        oldest_wait=now - oldest if oldest <= now else None,
    )


async def clock(reads: Snapshot | Database) -> datetime:
    """The database's clock."""
    (row,) = await reads.fetch("clock")
    moment: datetime = row["now"]
    return moment


def owners(lanes: Iterable[Lane], kinds: Iterable[str]) -> dict[str, str]:
    """Kind to the lane that serves it; kinds of no lane are left out."""
    served = kinds_by_lane(lanes, set(kinds))
    return {kind: name for name, names in served.items() for kind in names}


def lane_loads(
    lanes: Sequence[Lane], workers: Sequence[WorkerView], backlog: Sequence[Backlog], use: SlotsUsed
) -> list[LaneLoad]:
    """Each lane with what runs in it, what it could run, and what waits for it."""
    return [_lane_load(lane, workers, [item for item in backlog if item.lane == lane.name], use) for lane in lanes]


def _lane_load(lane: Lane, workers: Sequence[WorkerView], waiting: Sequence[Backlog], use: SlotsUsed) -> LaneLoad:
    working = [worker for worker in workers if worker.works and worker.serves(lane.name)]
    return LaneLoad(
        lane,
        running=sum(n for (_, name), n in use.items() if name == lane.name),
        slots=sum(worker.slots_in(lane) for worker in working),
        workers=len(working),
        due=total(item.due for item in waiting),
        scheduled=total(item.scheduled for item in waiting),
        oldest_wait=max((item.oldest_wait for item in waiting if item.oldest_wait is not None), default=None),
    )


def _seconds(wait: timedelta | None) -> float:
    return -1.0 if wait is None else wait.total_seconds()

"""app.workers: workers, the jobs in their slots, and draining a worker."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk import audit, current_load
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import WorkerNotFound
from rowlock.model.access import Permission
from rowlock.model.notify_messages import DrainRequested, encode
from rowlock.model.similar_names import closest
from rowlock.model.workload import SetAsideView, SlotUse, Status, WorkerStatus, WorkerView
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.model.workload import Running
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor

_MOST: Final = 20_000
"""Running jobs shown at most."""


class Workers:
    """Workers."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.WORKERS_VIEW)
    async def status(self) -> Status:
        """Lanes with slot use and backlog, and workers with the jobs in their slots."""
        async with self._open().snapshot() as snapshot:
            lanes = await lane_rows.read(snapshot)
            workers = await views(snapshot)
            backlog, loads = await current_load.backlog(snapshot), await current_load.lane_loads(snapshot, lanes)
            use, now = await current_load.slot_use(snapshot), await current_load.clock(snapshot)
            running = await current_load.running(snapshot, self._guard, n=_MOST)
        return Status(
            at=now,
            lanes=loads,
            workers=[
                WorkerStatus(
                    worker,
                    [
                        SlotUse(lane.name, use.get((worker.id, lane.name), 0), worker.slots_in(lane))
                        for lane in lanes
                        if worker.serves(lane.name)
                    ],
                    _of(worker, running),
                )
                for worker in workers
            ],
            unserved=[item for item in backlog if item.lane is None],
        )

    @changes(Permission.WORKERS_MANAGE)
    async def drain(self, worker: int | str) -> Sequence[WorkerView]:
        """Drain a worker: it claims no more, ends its jobs and leaves. It hears of that within two seconds.

        worker: an id, or a name, which several workers may share. WorkerNotFound: there is none.
        """
        database = self._open()
        everyone = await views(database)
        number = worker if isinstance(worker, int) else int(worker) if worker.isascii() and worker.isdigit() else None
        asked = await database.fetch("worker_drain", id=number, name=str(worker))
        if not asked:
            raise _not_found(worker, everyone)
        ids = frozenset(row["id"] for row in asked)
        # The message makes these workers beat at once; the answer to the beat carries the order.
        await database.fetch("notify", channel=database.channel, payload=encode(DrainRequested(ids)))
        for view in everyone:
            if view.id in ids:
                before = {"name": view.name, "told": view.told}
                await audit.record(
                    database, self._guard, "worker.drain", f"worker:{view.id}", before=before, after={"told": "drain"}
                )
        return [view for view in await views(database) if view.id in ids]

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[WorkerView]:
        """Workers that have not signed off."""
        return await views(self._open())


async def views(source: SqlExecutor) -> list[WorkerView]:
    """Every worker that has not signed off, by id."""
    return [view_of(row) for row in await source.fetch("workers")]


def view_of(row: Record) -> WorkerView:
    """A WorkerView from its row."""
    said = row["set_aside"] if not row["silent"] else None
    set_aside: dict[str, Any] = json.loads(said) if said else {"jobs": [], "count": 0}
    return WorkerView(
        id=row["id"],
        name=row["name"],
        host=row["host"],
        pid=row["pid"],
        version=row["version"],
        lanes=row["lanes"],
        kinds=row["kinds"],
        started_at=row["started_at"],
        seen_at=row["seen_at"],
        state=row["state"],
        silent=row["silent"],
        running=row["running"],
        slots=json.loads(row["slots"]) if row["slots"] else None,
        stuck=row["stuck"] or 0,
        told=row["told"],
        supervisor=row["supervisor"],
        set_aside=[_set_aside_of(said) for said in set_aside["jobs"]],
        set_aside_count=set_aside["count"],
    )


def _set_aside_of(said: Mapping[str, Any]) -> SetAsideView:
    return SetAsideView(
        said["job"], said["step"], said["error"], timedelta(seconds=round(said["seconds"])), said["blocked_by"]
    )


def _of(worker: WorkerView, running: Sequence[Running]) -> list[Running]:
    return [job for job in running if job.worker_id == worker.id]


def _not_found(worker: int | str, everyone: Sequence[WorkerView]) -> WorkerNotFound:
    names = sorted({view.name for view in everyone})
    known = f"there are {', '.join(names)}" if names else "there are none"
    near = closest(str(worker), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return WorkerNotFound(f"No worker has the id or name {worker!r}; {known}.{hint}")

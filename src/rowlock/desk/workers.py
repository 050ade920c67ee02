"""app.workers: workers, the jobs in their slots, and draining a worker."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk import audit, current_load
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import WorkerNotFound
from rowlock.model.access import Permission
from rowlock.model.notify_messages import DrainRequested, encode
from rowlock.model.similar_names import closest
from rowlock.model.workload import HeldSlot, SlotUse, Status, WorkerStatus, WorkerView
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
            shown = await only_visible(snapshot, self._guard, workers)
            backlog, loads = await current_load.backlog(snapshot), await current_load.lane_loads(snapshot, lanes)
            use, now = await current_load.slot_use(snapshot), await current_load.clock(snapshot)
            running = await current_load.running(snapshot, self._guard, n=_MOST)
        return Status(
            at=now,
            lanes=loads,
            workers=[
                WorkerStatus(
                    visible,
                    [
                        SlotUse(
                            lane.name,
                            use.get((worker.id, lane.name), 0) + worker.held_in(lane.name),
                            worker.slots_in(lane),
                        )
                        for lane in lanes
                        if worker.serves(lane.name)
                    ],
                    _of(worker, running),
                )
                for worker, visible in zip(workers, shown, strict=True)
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
        told = [view for view in await views(database) if view.id in ids]
        return await only_visible(database, self._guard, told)

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[WorkerView]:
        """Workers that have not signed off."""
        return list(await only_visible(self._open(), self._guard, await views(self._open())))


async def views(source: SqlExecutor) -> list[WorkerView]:
    """Every worker that has not signed off, by id."""
    return [view_of(row) for row in await source.fetch("workers")]


def view_of(row: Record) -> WorkerView:
    """A WorkerView from its row."""
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
        held=_held(row),
        told=row["told"],
        supervisor=row["supervisor"],
    )


def _held(row: Record) -> tuple[HeldSlot, ...]:
    """Stored with the seconds since the handler was told to stop: the clocks of workers decide nothing."""
    found = json.loads(row["held"]) if row["held"] else ()
    return tuple(
        HeldSlot(job_id, kind, lane, row["seen_at"] - timedelta(seconds=seconds))
        for job_id, kind, lane, seconds in found
    )


async def only_visible(source: SqlExecutor, guard: Guard, workers: Sequence[WorkerView]) -> Sequence[WorkerView]:
    """The workers, with held slots of those jobs only that the guard's principal may see."""
    numbers = [slot.job_id for worker in workers for slot in worker.held]
    if not numbers or guard.visibility["sees_all"]:
        return workers
    seen = {row["id"] for row in await source.fetch("jobs_by_id", ids=numbers, **guard.visibility)}
    return [replace(each, held=tuple(slot for slot in each.held if slot.job_id in seen)) for each in workers]


def _of(worker: WorkerView, running: Sequence[Running]) -> list[Running]:
    return [job for job in running if job.worker_id == worker.id]


def _not_found(worker: int | str, everyone: Sequence[WorkerView]) -> WorkerNotFound:
    names = sorted({view.name for view in everyone})
    known = f"there are {', '.join(names)}" if names else "there are none"
    near = closest(str(worker), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return WorkerNotFound(f"No worker has the id or name {worker!r}; {known}.{hint}")

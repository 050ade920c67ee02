"""app.workers: workers, the jobs in their slots, and draining a worker."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk import audit, current_load
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.job_orders import JobOrders
from rowlock.desk.phrases import span_text
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import WorkerNotFound, WrongState
from rowlock.model.access import Permission
from rowlock.model.notify_messages import DrainRequested, encode
from rowlock.model.spelling.similar_names import closest
from rowlock.model.workload import (
    SILENT,
    HeldSlot,
    SetAsideRowView,
    SetAsideView,
    SlotUse,
    Status,
    WorkerStatus,
    WorkerView,
)
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.job import Job
    from rowlock.model.queue_pair import Pair
    from rowlock.model.workload import Running
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor, SqlSession

_MOST: Final = 20_000
"""Running jobs shown at most."""


class Workers:
    """Workers."""

    def __init__(
        self,
        database: Callable[[], Database],
        guard: Guard = TRUSTED,
        wake: Callable[[Iterable[tuple[Pair, datetime]]], None] = lambda _: None,
    ) -> None:
        self._open, self._guard = database, guard
        platform = guard.for_the_platform
        self._jobs = VisibleJobs(database, platform)
        self._orders = JobOrders(database, wake, platform, self._jobs)

    @reads(Permission.WORKERS_VIEW)
    async def status(self) -> Status:
        """Lanes with slot use and backlog, and workers with the jobs in their slots."""
        async with self._open().snapshot() as snapshot:
            lanes = await lane_rows.read(snapshot)
            workers = await views(snapshot)
            shown = await only_visible(snapshot, self._guard, workers)
            backlog, loads = await current_load.backlog(snapshot), await current_load.lane_loads(snapshot, lanes)
            use, now = await current_load.slot_use(snapshot), await current_load.clock(snapshot)
            running = await jobs_in_slots(snapshot, self._guard)
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
        everyone = await views(self._open())
        async with self._open().transaction() as session:
            asked = await session.fetch("worker_drain", **_named(worker))
            ids = frozenset(row["id"] for row in asked)
            fresh = [view for view in everyone if view.id in ids and view.requested != "drain"]
            for view in fresh:
                await self._record(session, "worker.drain", view, {"requested": "drain"})
            # The message makes these workers beat at once; the answer to the beat carries the order.
            if fresh:
                message = DrainRequested(frozenset(view.id for view in fresh))
                await session.fetch("notify", channel=session.channel, payload=encode(message))
        if not asked:
            raise _not_found(worker, everyone)
        asked_now = [view for view in await views(self._open()) if view.id in ids]
        return await only_visible(self._open(), self._guard, asked_now)

    @changes(Permission.WORKERS_MANAGE)
    async def forget(self, worker: int | str) -> Sequence[WorkerView]:
        """Declare silent workers gone: their jobs are lost now, not only after the heartbeat_timeout of their lanes.

        worker: an id, or a name, which several workers may share. WrongState: it sent a heartbeat within 15 seconds.
        """
        everyone = await views(self._open())
        async with self._open().transaction() as session:
            gone = frozenset(row["id"] for row in await session.fetch("worker_forget", **_named(worker)))
            forgotten = [view for view in everyone if view.id in gone]
            for view in forgotten:
                await self._record(session, "worker.forget", view, {"state": "gone"})
        if forgotten:
            return forgotten
        alive = [view for view in everyone if worker in (view.id, view.name, str(view.id))]
        if not alive:
            raise _not_found(worker, everyone)
        message = (
            f"Worker {alive[0].name} sent a heartbeat within the last {span_text(SILENT)}, so it lives. Drain it "
            f"instead: rowlock workers drain {alive[0].name}"
        )
        raise WrongState(message)

    async def _record(self, session: SqlSession, action: str, view: WorkerView, after: Mapping[str, object]) -> None:
        before = {"name": view.name, "requested": view.requested, "state": view.state}
        before = {key: before[key] for key in ("name", *after)}
        await audit.record(session, self._guard, action, f"worker:{view.id}", before=before, after=after)

    @reads(Permission.WORKERS_MANAGE, scoped=True)
    async def job_for_order(self, job_id: int | str) -> Job:
        """Any job of the platform; what this principal may not read of it is left out."""
        return await self._jobs.one(job_id)

    @changes(Permission.WORKERS_MANAGE, scoped=True)
    async def cancel_job(
        self, job_id: int | str, *, stop: bool = False, by: str | None = None, note: str | None = None
    ) -> Job:
        """Cancel any job of the platform. stop: end it now, whatever its handler does; a late result is refused."""
        return await (self._orders.stop if stop else self._orders.cancel)(job_id, by, note)

    @changes(Permission.WORKERS_MANAGE, scoped=True)
    async def reprioritise_job(
        self, job_id: int | str, priority: int, *, by: str | None = None, note: str | None = None
    ) -> Job:
        """Give any waiting job of the platform another priority."""
        return await self._orders.reprioritise(job_id, priority, by, note)

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[WorkerView]:
        """Workers that have not signed off."""
        return list(await only_visible(self._open(), self._guard, await views(self._open())))


async def views(source: SqlExecutor) -> list[WorkerView]:
    """Every worker that has not signed off, by id."""
    return [view_of(row) for row in await source.fetch("workers")]


async def jobs_in_slots(source: SqlExecutor, guard: Guard) -> Sequence[Running]:
    """Every running job, the longest running first; labels and progress only of jobs that the principal may read."""
    reads = bool(guard.principal.scopes(Permission.READ))
    return [
        job if row["readable"] and reads else job.without_content()
        for row in await source.fetch("slot_jobs", n=_MOST, **guard.visibility)
        for job in [current_load.running_of(row)]
    ]


def view_of(row: Record) -> WorkerView:
    """A WorkerView from its row."""
    text = row["set_aside"] if not row["silent"] else None
    set_aside: dict[str, Any] = json.loads(text) if text else {"jobs": [], "count": 0}
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
        requested=row["told"],
        supervisor=row["supervisor"],
        memory=row["memory"],
        set_aside=[_set_aside_of(entry) for entry in set_aside["jobs"]],
        set_aside_count=set_aside["count"],
        set_aside_rows=[_set_aside_row_of(entry) for entry in set_aside.get("rows", ())],
        carriers=json.loads(row["carriers"]) if row["carriers"] else None,
    )


def _set_aside_of(entry: Mapping[str, Any]) -> SetAsideView:
    return SetAsideView(
        entry["job"], entry["step"], entry["error"], timedelta(seconds=round(entry["seconds"])), entry["blocked_by"]
    )


def _set_aside_row_of(entry: Mapping[str, Any]) -> SetAsideRowView:
    return SetAsideRowView(entry["row"], entry["step"], entry["error"], timedelta(seconds=round(entry["seconds"])))


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
    if not numbers or guard.is_unlimited:
        return workers
    seen = {row["id"] for row in await source.fetch("jobs_by_id", ids=numbers, **guard.visibility)}
    return [replace(each, held=tuple(slot for slot in each.held if slot.job_id in seen)) for each in workers]


def _of(worker: WorkerView, running: Sequence[Running]) -> list[Running]:
    return [job for job in running if job.worker_id == worker.id]


def _named(worker: int | str) -> dict[str, object]:
    """The parameters of a statement about workers of this id or name."""
    number = worker if isinstance(worker, int) else int(worker) if worker.isascii() and worker.isdigit() else None
    return {"id": number if number is None or number < 2**63 else None, "name": str(worker)}


def _not_found(worker: int | str, everyone: Sequence[WorkerView]) -> WorkerNotFound:
    names = sorted({view.name for view in everyone})
    known = f"there are {', '.join(names)}" if names else "there are none"
    near = closest(str(worker), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return WorkerNotFound(f"No worker has the id or name {worker!r}; {known}.{hint}")

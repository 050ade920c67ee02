"""Workers over the wire: who works on what since when, and how to let one go."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path

from rowlock.api.dependencies import Asked
from rowlock.api.routes.lanes import LaneAnswer
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, CountAnswer, ProgressAnswer
from rowlock.model import ids
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from datetime import timedelta

    from rowlock.model.workload import Backlog, LaneLoad, Running, Status, WorkerStatus, WorkerView

routes = Routes("workers")
Worker = Annotated[str, Path(description="Its id or its name.", max_length=300, pattern=r"^[^\x00]+$")]


class RunningAnswer(Answer):
    """A job in a slot. worker_silent: no beat for 15 seconds, or the worker's row is gone."""

    id: str
    kind: str
    attempt: int
    lane: str | None
    worker_id: str | None
    worker: str | None
    worker_silent: bool
    since: datetime
    running_s: float
    cancel_requested: bool
    progress: ProgressAnswer | None
    tenant: str | None
    refs: dict[str, Any]
    tags: list[str]

    @classmethod
    def of(cls, job: Running) -> RunningAnswer:
        """From the desk's value."""
        return cls(
            id=job.public_id,
            kind=job.kind,
            attempt=job.attempt,
            lane=job.lane,
            worker_id=None if job.worker_id is None else str(job.worker_id),
            worker=job.worker,
            worker_silent=job.worker_silent,
            since=job.since,
            running_s=job.running_for.total_seconds(),
            cancel_requested=job.cancel_requested,
            progress=None if job.progress is None else ProgressAnswer.of(job.progress),
            tenant=job.tenant,
            refs=dict(job.refs),
            tags=list(job.tags),
        )


class WorkerAnswer(Answer):
    """A worker. lanes null: every lane; stuck: slots held by handlers that do not stop; told: what it was ordered."""

    id: str
    name: str
    host: str
    pid: int
    version: str
    state: str
    silent: bool
    lanes: list[str] | None
    kinds: list[str]
    started_at: datetime
    seen_at: datetime
    running: int
    stuck: int
    told: str | None

    @classmethod
    def of(cls, worker: WorkerView) -> WorkerAnswer:
        """From the desk's value."""
        return cls(
            id=str(worker.id),
            name=worker.name,
            host=worker.host,
            pid=worker.pid,
            version=worker.version,
            state=worker.state,
            silent=worker.silent,
            lanes=None if worker.lanes is None else list(worker.lanes),
            kinds=list(worker.kinds),
            started_at=worker.started_at,
            seen_at=worker.seen_at,
            running=worker.running,
            stuck=worker.stuck,
            told=worker.told,
        )


class SlotsAnswer(Answer):
    """The slots of one worker in one lane."""

    lane: str
    used: int
    slots: int


class BusyWorkerAnswer(WorkerAnswer):
    """A worker with its slots and what is in them, the longest running first."""

    slots: list[SlotsAnswer]
    jobs: list[RunningAnswer]

    @classmethod
    def busy(cls, status: WorkerStatus) -> BusyWorkerAnswer:
        """From the desk's value."""
        return cls(
            **WorkerAnswer.of(status.worker).model_dump(),
            slots=[SlotsAnswer(lane=each.lane, used=each.used, slots=each.slots) for each in status.slots],
            jobs=[RunningAnswer.of(job) for job in status.jobs],
        )


class LaneLoadAnswer(LaneAnswer):
    """A lane with its use. total_slots: of all its workers that beat; oldest_wait_s: null when nothing is due."""

    running: int
    total_slots: int
    workers: int
    due: CountAnswer
    scheduled: CountAnswer
    oldest_wait_s: float | None

    @classmethod
    def loaded(cls, load: LaneLoad) -> LaneLoadAnswer:
        """From the desk's value."""
        return cls(
            **LaneAnswer.of(load.lane).model_dump(),
            running=load.running,
            total_slots=load.slots,
            workers=load.workers,
            due=CountAnswer.of(load.due),
            scheduled=CountAnswer.of(load.scheduled),
            oldest_wait_s=seconds(load.oldest_wait),
        )


class BacklogAnswer(Answer):
    """Queued jobs of one kind. lane null: no lane serves it; scheduled: not due yet; oldest_*: of those due."""

    kind: str
    lane: str | None
    due: CountAnswer
    scheduled: CountAnswer
    oldest_wait_s: float | None
    oldest_id: str | None

    @classmethod
    def of(cls, backlog: Backlog) -> BacklogAnswer:
        """From the desk's value."""
        return cls(
            kind=backlog.kind,
            lane=backlog.lane,
            due=CountAnswer.of(backlog.due),
            scheduled=CountAnswer.of(backlog.scheduled),
            oldest_wait_s=seconds(backlog.oldest_wait),
            oldest_id=None if backlog.oldest_id is None else ids.encode(backlog.oldest_id),
        )


class StatusAnswer(Answer):
    """Lanes, slot use, which jobs are in which slots since when, and queue depth. unserved: kinds of no lane."""

    at: datetime
    lanes: list[LaneLoadAnswer]
    workers: list[BusyWorkerAnswer]
    unserved: list[BacklogAnswer]

    @classmethod
    def of(cls, status: Status) -> StatusAnswer:
        """From the desk's value."""
        return cls(
            at=status.at,
            lanes=[LaneLoadAnswer.loaded(load) for load in status.lanes],
            workers=[BusyWorkerAnswer.busy(worker) for worker in status.workers],
            unserved=[BacklogAnswer.of(backlog) for backlog in status.unserved],
        )


class WorkersAnswer(Answer):
    """Workers that an order reached."""

    items: list[WorkerAnswer]


@routes.get("/admin/workers/status", needs=Permission.WORKERS_VIEW)
async def get_status(desk: Asked) -> StatusAnswer:
    """Lanes, slot use, which jobs are in which slots since when, and queue depth."""
    return StatusAnswer.of(await desk.workers.status())


@routes.post("/admin/workers/{worker}/drain", needs=Permission.WORKERS_MANAGE, status_code=202)
async def drain_worker(desk: Asked, worker: Worker) -> WorkersAnswer:
    """Let a worker end its jobs, claim no more and leave; within two seconds it has heard of it."""
    return WorkersAnswer(items=[WorkerAnswer.of(each) for each in await desk.workers.drain(worker)])


def seconds(span: timedelta | None) -> float | None:
    """A duration as the wire has it."""
    return None if span is None else span.total_seconds()

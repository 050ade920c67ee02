"""Workers, the jobs in their slots, and the backlog before them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc, seconds
from rowlock.api.schemas.fields import INSTANT, CountAnswer
from rowlock.api.schemas.jobs import ProgressAnswer
from rowlock.api.schemas.lanes import LaneAnswer
from rowlock.model import ids

if TYPE_CHECKING:
    from rowlock.model.workload import Backlog, HeldSlot, LaneLoad, Running, Status, WorkerStatus, WorkerView

COUNT = {"value": 84, "exact": True}
Due = Annotated[CountAnswer, doc("Queued jobs that could start now.", COUNT)]
Scheduled = Annotated[CountAnswer, doc("Queued jobs that are not due yet.", {"value": 3, "exact": True})]
OldestWait = Annotated[float | None, doc("Seconds that the oldest due job has waited; null: none is due.", 12.5)]


class RunningAnswer(Answer):
    """A job in a slot."""

    id: fields.PublicId
    kind: fields.Kind
    attempt: fields.Attempt
    lane: fields.LaneOrNull
    worker_id: Annotated[str | None, doc("Id of the worker that runs it; null: its row is gone.", "17")]
    worker: fields.WorkerOrNull
    worker_silent: Annotated[bool, doc("True: the worker sent no heartbeat for 15 seconds, or its row is gone.", False)]
    since: Annotated[datetime, doc("When the attempt started.", INSTANT)]
    running_for: Annotated[float, doc("Seconds since the attempt started.", 72.4)]
    cancel_requested: fields.CancelRequested
    progress: Annotated[ProgressAnswer | None, doc("Last progress report of the attempt; null: none.")]
    tenant: fields.TenantOrNull
    refs: fields.Refs
    tags: fields.Tags

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
            running_for=job.running_for.total_seconds(),
            cancel_requested=job.cancel_requested,
            progress=None if job.progress is None else ProgressAnswer.of(job.progress),
            tenant=job.tenant,
            refs=dict(job.refs),
            tags=list(job.tags),
        )


class WorkerAnswer(Answer):
    """A worker process."""

    id: Annotated[str, doc("Id of the worker.", "17")]
    name: Annotated[str, doc("Name of the worker: host and process id unless configured.", "web-1:4711")]
    host: Annotated[str, doc("Host that it runs on.", "web-1")]
    pid: Annotated[int, doc("Process id on that host.", 4711)]
    version: Annotated[str, doc("Version of Rowlock that it runs.", "1.0.0")]
    state: Annotated[str, doc("up, draining or stopped.", "up")]
    silent: Annotated[bool, doc("True: no heartbeat for 15 seconds.", False)]
    lanes: Annotated[list[str] | None, doc("Lanes that it serves; null: every lane.", ["reports"])]
    kinds: Annotated[list[str], doc("Kinds whose code it has.", ["render_report"])]
    started_at: Annotated[datetime, doc("When it started.", INSTANT)]
    seen_at: Annotated[datetime, doc("When its last heartbeat came.", INSTANT)]
    memory: Annotated[
        int | None,
        doc("Resident memory of the process in bytes, without child processes; null: not known.", 48_234_496),
    ]
    running: Annotated[int, doc("Jobs that it runs.", 2)]
    stuck: Annotated[int, doc("Slots held by handlers that were stopped and do not return.", 0)]
    set_aside_count: Annotated[int, doc("Jobs of which the database does not take a write now.", 0)]
    requested: Annotated[str | None, doc("What a person ordered it to do, such as drain; null: nothing.", None)]

    @classmethod
    def of(cls, worker: WorkerView, **more: Any) -> Any:  # noqa: ANN401 - a subclass of itself
        """From the desk's value. more: fields of a subclass."""
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
            memory=worker.memory,
            running=worker.running,
            stuck=worker.stuck,
            set_aside_count=worker.set_aside_count,
            requested=worker.requested,
            **more,
        )


class SlotsAnswer(Answer):
    """The slots of one worker in one lane."""

    lane: Annotated[str, doc("Name of the lane.", "reports")]
    used: Annotated[int, doc("Slots that are taken: by running jobs and by held slots.", 1)]
    slots: Annotated[int, doc("Slots in all.", 2)]


class HeldSlotAnswer(Answer):
    """A slot whose handler goes on although its job has ended or runs elsewhere."""

    job_id: fields.PublicId
    kind: fields.Kind
    lane: Annotated[str, doc("Name of the lane.", "reports")]
    since: Annotated[datetime, doc("When the handler was told to stop.", INSTANT)]

    @classmethod
    def of(cls, slot: HeldSlot) -> HeldSlotAnswer:
        """From the desk's value."""
        return cls(job_id=slot.public_id, kind=slot.kind, lane=slot.lane, since=slot.since)


class BusyWorkerAnswer(WorkerAnswer):
    """A worker with its slots and the jobs in them."""

    slots: Annotated[list[SlotsAnswer], doc("Slots by lane.")]
    jobs: Annotated[list[RunningAnswer], doc("Jobs that it runs, the longest running first.")]
    held: Annotated[list[HeldSlotAnswer], doc("Slots of handlers that were told to stop and have not.")]

    @classmethod
    def busy(cls, status: WorkerStatus) -> BusyWorkerAnswer:
        """From the desk's value."""
        answer: BusyWorkerAnswer = cls.of(
            status.worker,
            slots=[SlotsAnswer(lane=each.lane, used=each.used, slots=each.slots) for each in status.slots],
            jobs=[RunningAnswer.of(job) for job in status.jobs],
            held=[HeldSlotAnswer.of(slot) for slot in status.worker.held],
        )
        return answer


class LaneLoadAnswer(LaneAnswer):
    """A lane with its use."""

    running: Annotated[int, doc("Jobs of the lane that run.", 3)]
    used: Annotated[int, doc("Slots in which nothing else can start: running jobs and held slots.", 3)]
    held: Annotated[int, doc("Slots of handlers that were told to stop and have not; their jobs have ended.", 0)]
    total_slots: Annotated[int, doc("Slots of all workers that send heartbeats.", 4)]
    workers: Annotated[int, doc("Workers that serve the lane.", 2)]
    due: Due
    scheduled: Scheduled
    oldest_wait: OldestWait

    @classmethod
    def loaded(cls, load: LaneLoad) -> LaneLoadAnswer:
        """From the desk's value."""
        answer: LaneLoadAnswer = cls.of(
            load.lane,
            running=load.running,
            used=load.used,
            held=load.held,
            total_slots=load.slots,
            workers=load.workers,
            due=CountAnswer.of(load.due),
            scheduled=CountAnswer.of(load.scheduled),
            oldest_wait=seconds(load.oldest_wait),
        )
        return answer


class LanesAnswer(Answer):
    """Every lane with its use."""

    items: Annotated[list[LaneLoadAnswer], doc("Lanes by name.")]


class BacklogAnswer(Answer):
    """Queued jobs of one kind."""

    kind: fields.Kind
    lane: Annotated[str | None, doc("Lane that serves the kind; null: none does.", "reports")]
    due: Due
    scheduled: Scheduled
    oldest_wait: OldestWait
    oldest_id: Annotated[str | None, doc("Public id of the oldest due job; null: none is due.", fields.JOB_ID)]

    @classmethod
    def of(cls, backlog: Backlog) -> BacklogAnswer:
        """From the desk's value."""
        return cls(
            kind=backlog.kind,
            lane=backlog.lane,
            due=CountAnswer.of(backlog.due),
            scheduled=CountAnswer.of(backlog.scheduled),
            oldest_wait=seconds(backlog.oldest_wait),
            oldest_id=None if backlog.oldest_id is None else ids.encode(backlog.oldest_id),
        )


class StatusAnswer(Answer):
    """Lanes, workers with the jobs in their slots, and kinds that no lane serves."""

    at: Annotated[datetime, doc("The database's clock when this was read.", INSTANT)]
    lanes: Annotated[list[LaneLoadAnswer], doc("Lanes by name, with their use.")]
    workers: Annotated[list[BusyWorkerAnswer], doc("Workers with their slots and jobs.")]
    unserved: Annotated[list[BacklogAnswer], doc("Backlog of kinds that no lane serves.")]

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

    items: Annotated[list[WorkerAnswer], doc("Workers that got the order.")]

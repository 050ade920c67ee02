"""Telemetry: the events that listeners receive, and the job fields of log records.

The vocabulary is the Event classes below; docs/reference/events.md lists them. An event is built only while a listener
is there: emitters check `active` first.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

from typing_extensions import override

from rowlock.errors import ConfigurationError
from rowlock.model import ids, redact, trace_context

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowlock.model.lane import Lane
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.telemetry")
E = TypeVar("E", bound="Event")
Keep: TypeAlias = Callable[[int, object, tuple[Any, ...], object], None]
Listener: TypeAlias = Callable[[E], object]


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. name: the name in logs, metrics and the documentation."""

    name: ClassVar[str]


@dataclass(frozen=True, slots=True)
class JobEvent(Event):
    """Something that happened to one job."""

    job_id: int
    kind: str

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode(self.job_id)


@dataclass(frozen=True, slots=True)
class AttemptEvent(JobEvent):
    """Something that happened to one attempt, in this process."""

    lane: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class JobEnqueued(JobEvent):
    """A job was written; inside a caller's transaction it may still be rolled back."""

    name: ClassVar[str] = "job.enqueued"
    what: str


@dataclass(frozen=True, slots=True)
class JobClaimed(AttemptEvent):
    """This worker has claimed the job. trace: the trace context that its enqueue stored, header to value."""

    name: ClassVar[str] = "job.claimed"
    waited: timedelta
    trace: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BatchClaimed(Event):
    """One claim has taken these jobs. seconds: from its start to the database's answer."""

    name: ClassVar[str] = "batch.claimed"
    jobs: Sequence[JobClaimed]
    seconds: float


@dataclass(frozen=True, slots=True)
class JobStarted(AttemptEvent):
    """Its handler is about to be called."""

    name: ClassVar[str] = "job.started"


@dataclass(frozen=True, slots=True)
class JobFinished(AttemptEvent):
    """The job is final and the database has acknowledged it."""

    name: ClassVar[str] = "job.finished"
    state: str
    seconds: float
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class JobRetried(AttemptEvent):
    """The attempt failed and another follows after the delay; acknowledged."""

    name: ClassVar[str] = "job.retried"
    seconds: float
    delay: timedelta
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class JobSnoozed(AttemptEvent):
    """The handler asked to run again after the delay; acknowledged."""

    name: ClassVar[str] = "job.snoozed"
    seconds: float
    delay: timedelta


@dataclass(frozen=True, slots=True)
class JobUnreadable(AttemptEvent):
    """The arguments do not fit this worker's code: the job waits for one that can read them; acknowledged."""

    name: ClassVar[str] = "job.unreadable"
    seconds: float
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class JobSuspended(AttemptEvent):
    """The handler waits for a signal and has given its slot back; acknowledged."""

    name: ClassVar[str] = "job.suspended"
    seconds: float
    signal: str


@dataclass(frozen=True, slots=True)
class JobInterrupted(AttemptEvent):
    """The worker had to stop first: the job went back to the queue; acknowledged."""

    name: ClassVar[str] = "job.interrupted"
    seconds: float


@dataclass(frozen=True, slots=True)
class JobDied(AttemptEvent):
    """The job's own child process died; the job runs again or waits for a person; acknowledged."""

    name: ClassVar[str] = "job.died"
    seconds: float
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class JobLost(AttemptEvent):
    """The claim was gone when the attempt ended: nothing it wrote was accepted."""

    name: ClassVar[str] = "job.lost"
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchFlushed(Event):
    """The database has answered one write of outcomes. jobs: the events of its attempts, each emitted after this."""

    name: ClassVar[str] = "batch.flushed"
    jobs: Sequence[AttemptEvent]
    seconds: float


@dataclass(frozen=True, slots=True)
class JobRescued(JobEvent):
    """Upkeep has taken the job from a lost worker."""

    name: ClassVar[str] = "job.rescued"
    state: str


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker has registered and begins to claim."""

    name: ClassVar[str] = "worker.started"
    worker_id: int
    worker: str
    lanes: Sequence[str]


@dataclass(frozen=True, slots=True)
class WorkerDraining(Event):
    """A worker claims nothing more and waits for its running jobs."""

    name: ClassVar[str] = "worker.draining"
    worker_id: int
    worker: str


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """A worker has ended."""

    name: ClassVar[str] = "worker.stopped"
    worker_id: int
    worker: str


@dataclass(frozen=True, slots=True)
class LaneChanged(Event):
    """A worker has read a changed lane. now: None when the lane is gone."""

    name: ClassVar[str] = "lane.changed"
    lane: str
    now: Lane | None


@dataclass(frozen=True, slots=True)
class UpkeepDone(Event):
    """This process has run a duty of upkeep."""

    name: ClassVar[str] = "upkeep.done"
    duty: str
    changed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """A handler blocks the worker's event loop; emitted in the heartbeat's thread while the loop is blocked."""

    name: ClassVar[str] = "loop.blocked"
    seconds: float
    place: str


EVENTS: Final[tuple[type[Event], ...]] = (
    JobEnqueued,
    JobClaimed,
    BatchClaimed,
    JobStarted,
    BatchFlushed,
    JobFinished,
    JobRetried,
    JobSnoozed,
    JobUnreadable,
    JobSuspended,
    JobInterrupted,
    JobDied,
    JobLost,
    JobRescued,
    WorkerStarted,
    WorkerDraining,
    WorkerStopped,
    LaneChanged,
    UpkeepDone,
    LoopBlocked,
)


class Events:
    """The listeners of one application. `active` is False until there is one."""

    __slots__ = ("_listeners", "active")

    def __init__(self) -> None:
        self.active = False
        self._listeners: list[tuple[tuple[type[Event], ...], Callable[[Any], object]]] = []

    def listen(self, callback: Callable[[Any], object], *events: type[Event]) -> None:
        """Call the callback with each of these events and their subclasses, in the thread where they happen."""
        if inspect.iscoroutinefunction(callback):
            message = (
                "A listener is called where the event happens and cannot be awaited: write a plain function, "
                "which may start a task."
            )
            raise ConfigurationError(message)
        for event in events:
            if not (isinstance(event, type) and issubclass(event, Event)):
                message = f"Expected event classes such as JobFinished; got {event!r}."
                raise ConfigurationError(message)
        self._listeners.append((events, callback))
        self.active = True

    def emit(self, event: Event) -> None:
        """Call the listeners of the event; an exception of a listener is logged and goes no further."""
        for events, callback in self._listeners:
            if isinstance(event, events):
                try:
                    callback(event)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    logger.exception("a listener failed at %s", event.name)


# --- logging ---------------------------------------------------------------------------------------------------------

CURRENT: Final[ContextVar[Row | None]] = ContextVar("rowlock_job", default=None)
"""The claimed row of the job whose handler is running here."""
TRACED: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("rowlock_trace", default=None)
"""trace_id and span_id of the span in which that handler is running, if a tracer made one."""


def job_fields(row: Row) -> dict[str, object]:
    """The fields of a log record about a job: of the job, and of its trace if it has one."""
    fields = {
        **id_fields(row["id"]),
        "kind": row["kind"],
        "lane": row["lane"],
        "attempt": row["attempt"],
        "fence": row["fence"],
    }
    traced = TRACED.get()
    if traced is not None and CURRENT.get() is row:
        return {**fields, **traced}
    trace_id = trace_context.trace_id(row["meta"])
    return fields if trace_id is None else {**fields, "trace_id": trace_id}


def id_fields(number: int) -> dict[str, object]:
    """The fields of a log record that name a job. job_id: the public id; job_number: the column jobs.id."""
    return {"job_id": ids.encode(number), "job_number": number}


def current_fields() -> dict[str, object]:
    """The fields of the job whose handler is running here; empty outside of handlers."""
    row = CURRENT.get()
    return {} if row is None else job_fields(row)


class JobLogFilter(logging.Filter):
    """Adds the job to every record that is logged inside a handler, by any library, and masks secrets in its fields.

    Add it to logging handlers (not loggers): handler.addFilter(JobLogFilter()). It never drops a record.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields of the job where the record has none of its own."""
        row = CURRENT.get()
        if row is not None:
            if redact.SECRET in row["args"]:
                record.__dict__.update(without_secrets(extra_fields(record), row))
            for key, value in job_fields(row).items():
                record.__dict__.setdefault(key, value)
        return True


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """ctx.log: a logger whose records carry the job, also without the filter."""

    def __init__(self, target: logging.Logger, row: Row, keep: Keep | None = None) -> None:
        """keep: stores the record with the job, whether or not the logger passes it on."""
        super().__init__(target, job_fields(row))
        self._row, self._keep = row, keep

    @override
    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Store the record with the job and log it."""
        if self._keep is not None:
            self._keep(level, msg, args, kwargs.get("exc_info"))
        # This frame is not the caller's.
        super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})

    @override
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the job fields to the caller's extra."""
        given = kwargs.get("extra") or {}
        kwargs["extra"] = {**(self.extra or {}), **without_secrets(given, self._row)}
        return msg, kwargs


_OWN_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Fields that every record has."""


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a record that were given as extra=, or added by a filter."""
    return {key: value for key, value in record.__dict__.items() if key not in _OWN_FIELDS}


def without_secrets(fields: Mapping[str, object], row: Row) -> dict[str, object]:
    """Fields of a log record with the secret arguments of the job masked; a field of any other type, as a whole."""
    secrets = redact.secrets_in(row["args"])
    return {key: _masked(value, secrets) for key, value in fields.items()} if secrets else dict(fields)


def _masked(value: object, secrets: frozenset[str]) -> object:
    if isinstance(value, str):
        return redact.scrub(value, secrets)
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a formatter could not print it either
        return value
    return value if redact.scrub(text, secrets) == text else redact.MASK

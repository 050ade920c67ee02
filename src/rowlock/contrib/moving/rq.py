"""RQ's queues on Rowlock: Queue(…).enqueue(function, …) and @job.

    from rowlock import Rowlock
    from rowlock.contrib.moving.rq import Queue, Retry, RowlockConnection, job

    connection = RowlockConnection(Rowlock(), queues=("high", "low"))     # was: Redis()
    connection.register(count_words)

    Queue("high", connection=connection).enqueue(count_words, "https://example.org", retry=Retry(max=3))

An RQ worker imports whatever function a job names. Here a worker runs functions that were registered, or decorated with
@job, and no others.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.contrib.moving.queue_kinds import QueueKinds, checked_app, dotted_path, expires_in, handler_of
from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.model import retry as retries
from rowlock.model.spelling.keyword_options import suggests_options
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.app import Rowlock
    from rowlock.flow.progress.context import Context
    from rowlock.flow.progress.sync_context import SyncContext
    from rowlock.model import job as jobs
    from rowlock.tasks import BoundTask, Enqueued

__all__ = ["Job", "Queue", "Retry", "RowlockConnection", "job"]

GUIDE: Final = "See docs/howto/moving_from_rq.md."
_DEFAULT: Final = "default"
_META: Final = "rq"
"""Key in a job's meta: what RQ stores with a job and Rowlock has no column for."""
_OPTIONS: Final = frozenset({"ttl", "retry", "meta", "description"})
_REFUSED: Final = {
    "job_timeout": "It is an option of the function: connection.register(function, timeout=…).",
    "timeout": "It is an option of the function: connection.register(function, timeout=…).",
    "result_ttl": "Finished jobs stay as long as their kind says: rowlock retention set KIND DURATION.",
    "failure_ttl": "Finished jobs stay as long as their kind says: rowlock retention set KIND DURATION.",
    "depends_on": "Use chain(…) or a Workflow of rowlock, or job.handle().then_sync(task.step(…)).",
    "job_id": "Ids are the database's. For one job per key: task.options(idempotency_key=…).enqueue_sync(…).",
    "at_front": "Use a priority: task.options(priority=10).enqueue_sync(…).",
    "repeat": "Declare a schedule: @app.schedule(…).",
    "on_success": "Use a hook of the kind: @task.on_success.",
    "on_failure": "Use a hook of the kind: @task.on_exhausted.",
    "on_stopped": "Use a hook of the kind: @task.on_exhausted.",
    "webhooks": "Use app.webhooks.",
    "pipeline": "For the caller's transaction: task.options(connection=…).enqueue_sync(…).",
    "unique": "Use task.options(unique_key=…).enqueue_sync(…).",
}
"""Options of RQ that have another place here. They are never taken for arguments of the function."""
_STATUS: Final = {
    State.PENDING: "deferred",
    State.BLOCKED: "deferred",
    State.QUEUED: "queued",
    State.RUNNING: "started",
    State.COMPLETED: "finished",
    State.COMPLETED_WITH_ERRORS: "finished",
    State.FAILED: "failed",
    State.CANCELLED: "canceled",
    State.EXPIRED: "canceled",
}


class Retry:
    """How often a failed job is tried again, and after how many seconds: one number, or one for each retry."""

    def __init__(self, max: int, interval: int | Iterable[int] = 0) -> None:  # noqa: A002 - RQ's name
        if max < 1:
            raise InvalidOption(f"Retry(max=…) is the number of retries, at least 1; got {max!r}.")
        self.max = max
        self.intervals = [interval] if isinstance(interval, int) else list(interval)
        if not self.intervals or min(self.intervals) < 0:
            raise InvalidOption(f"Retry(interval=…) is a number of seconds, or several; got {interval!r}.")


class RowlockConnection:
    """Stands where the connection to Redis stood: the application, its queues, and the functions that workers run."""

    def __init__(
        self,
        rowlock: Rowlock,
        *,
        queues: Sequence[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """queues: queues besides "default"; each is a lane. clock: for a ttl beside enqueue_at()."""
        self.rowlock, self.clock = checked_app(rowlock, "RowlockConnection(…)"), clock
        self.kinds = QueueKinds(self.rowlock, _DEFAULT, tuple(queues), "RowlockConnection(app, queues=(…,))")
        self._names: dict[str, Retry | None] = {}
        """The registered functions, and the retry of those that have one by themselves."""

    def register(
        self,
        *functions: Callable[..., Any],
        timeout: float | None = None,
        retry: Retry | None = None,
        queue: str | None = None,
    ) -> None:
        """Declare functions as kinds, so that workers know them. timeout: seconds; then jobs run in child processes.

        retry: for calls that bring none. queue: their own.
        """
        for function in functions:
            name = dotted_path(function)
            self._names[name] = retry
            self.kinds.declare(
                handler_of(function, name, on_error=_set_interval),
                name,
                queue,
                # A job's own number of attempts decides; without retry= it has one.
                retry=retries.Retry(attempts=1 if retry is None else retry.max + 1, minimum=0, multiplier=1, jitter=0),
                timeout=timeout,
                executor=None if timeout is None else "process",
                # RQ counts the job of a worker that died as failed; a retry counts for it, too.
                on_worker_lost="fail" if retry is None else "retry",
            )

    def name_of(self, function: Callable[..., Any] | str) -> str:
        """The name of a registered function; ConfigurationError for another one."""
        name = function if isinstance(function, str) else dotted_path(function)
        if name not in self._names:
            raise ConfigurationError(
                f"{name} is not registered. Workers run the functions that they know: connection.register({name}) in a "
                "module that workers import, or @job(…) above the function."
            )
        return name

    def retry_of(self, name: str) -> Retry | None:
        """The retry that a registered function has by itself."""
        return self._names[name]


def _set_interval(context: Context | SyncContext, error: Exception) -> None:
    """Have the error say when its job is tried again: Rowlock reads retry_after of an error."""
    stored: Any = context.job.meta.get(_META) or {}
    intervals = stored.get("intervals")
    if intervals:
        error.retry_after = intervals[min(len(intervals), context.job.attempt) - 1]  # type: ignore[attr-defined]  # set here


class Queue:
    """A queue of RQ; here a lane of that name."""

    def __init__(self, name: str = _DEFAULT, connection: RowlockConnection | None = None) -> None:
        if not isinstance(connection, RowlockConnection):
            raise ConfigurationError(f"Queue(…) takes connection=RowlockConnection(Rowlock(…)); got {connection!r}.")
        self.name, self.connection = name, connection

    def enqueue(self, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a function with these arguments. Options: ttl, retry, meta, description; args and kwargs as in RQ."""
        return self._enqueue(function, args, kwargs)

    def enqueue_call(
        self,
        func: Callable[..., Any] | str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Job:
        """enqueue() with the arguments as a tuple and a dict."""
        return self._enqueue(func, (), {**options, "args": args, "kwargs": kwargs or {}})

    def enqueue_in(self, time_delta: timedelta, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a function that starts so long from now."""
        return self._enqueue(function, args, kwargs, run_in=time_delta)

    def enqueue_at(self, moment: datetime, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a function that starts at that moment, a datetime with a time zone."""
        return self._enqueue(function, args, kwargs, run_at=moment)

    def _enqueue(
        self,
        function: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        run_at: datetime | None = None,
        run_in: timedelta | None = None,
    ) -> Job:
        name = self.connection.name_of(function)
        options = {key: kwargs.pop(key) for key in sorted(kwargs.keys() & (_OPTIONS | _REFUSED.keys()))}
        if "args" in kwargs or "kwargs" in kwargs:
            args, kwargs = tuple(kwargs.pop("args", None) or ()), dict(kwargs.pop("kwargs", None) or {})
        bound = self._bound(name, _CallOptions(**options), run_at, run_in)
        return Job(bound.enqueue_sync(*args, **kwargs).public_id, self.connection)

    def _bound(
        self, name: str, options: _CallOptions, run_at: datetime | None, run_in: timedelta | None
    ) -> BoundTask[..., Any]:
        retry = self.connection.retry_of(name) if options.retry is None else options.retry
        about: dict[str, Any] = {} if retry is None else {"intervals": retry.intervals}
        about |= {} if options.description is None else {"description": options.description}
        return self.connection.kinds.task(name, self.name).options(
            run_at=run_at,
            run_in=run_in,
            expires_in=expires_in(options.ttl, self.connection.clock, run_at=run_at, run_in=run_in),
            max_attempts=None if retry is None else retry.max + 1,
            meta={**(options.meta or {}), **({_META: about} if about else {})},
        )


class _CallOptions:
    """RQ's options of one call, checked."""

    @suggests_options("enqueue()", hints=_REFUSED)
    def __init__(
        self,
        *,
        ttl: float | None = None,
        retry: Retry | None = None,
        meta: Mapping[str, Any] | None = None,
        description: str | None = None,
    ) -> None:
        self.ttl, self.retry, self.meta, self.description = ttl, retry, meta, description


def job(
    queue: Queue | str,
    connection: RowlockConnection | None = None,
    *,
    timeout: float | None = None,
    retry: Retry | None = None,
    ttl: float | None = None,
) -> Callable[[Any], Any]:
    """Decorate a function: it is registered, and gets delay() and enqueue()."""
    place = queue if isinstance(queue, Queue) else Queue(queue, connection)

    def decorate(function: Any) -> Any:
        place.connection.register(function, timeout=timeout, retry=retry, queue=place.name)
        options = {} if ttl is None else {"ttl": ttl}
        function.delay = function.enqueue = functools.partial(place.enqueue, function, **options)
        return function

    return decorate


class Job:
    """A job by its id, as RQ's Job."""

    def __init__(self, job_id: str, connection: RowlockConnection) -> None:
        self.id, self.connection = job_id, connection

    @classmethod
    def fetch(cls, job_id: str, connection: RowlockConnection) -> Job:
        """The job of that id; JobNotFound if there is none."""
        found = cls(job_id, connection)
        found.job()
        return found

    def job(self) -> jobs.Job:
        """The job of Rowlock as it stands now."""
        return self.connection.rowlock.sync.jobs.get(self.id)

    def handle(self) -> Enqueued[Any]:
        """The handle that enqueue_sync() of a task returns."""
        return self.connection.rowlock.task(self.job().kind).handle(self.id)

    def get_id(self) -> str:
        """The id."""
        return self.id

    def get_status(self) -> str:
        """queued, scheduled, deferred, started, finished, failed or canceled."""
        job = self.job()
        scheduled = job.state is State.QUEUED and job.run_after > job.created_at + timedelta(seconds=1)
        return "scheduled" if scheduled else _STATUS[job.state]

    def return_value(self, timeout: float | None = 0) -> Any:
        """The result of a job that has completed; None while it has not. timeout: seconds to wait for its end."""
        if timeout == 0:
            return self.handle().wait_sync() if self.is_finished else None
        return self.handle().wait_sync(timeout)

    @property
    def is_finished(self) -> bool:
        """Whether it completed."""
        return self.get_status() == "finished"

    @property
    def is_failed(self) -> bool:
        """Whether it failed for good."""
        return self.get_status() == "failed"

    @property
    def meta(self) -> Mapping[str, object]:
        """The meta that it was enqueued with."""
        return {key: value for key, value in self.job().meta.items() if key != _META}

    @property
    def exc_info(self) -> str | None:
        """The traceback of a job that failed."""
        text = (self.job().errors or {}).get("traceback")
        return None if text is None else str(text)

    def cancel(self) -> None:
        """Cancel it."""
        self.connection.rowlock.sync.jobs.cancel(self.id)

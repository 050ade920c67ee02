"""What a bound Celery task sees as self while it runs, and the exceptions with which it ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from rowlock.errors import ConfigurationError, InvalidOption, RowlockError
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.model.progress import Skip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.flow.progress.context import Context


class RetryLimits(Protocol):
    """Celery's options of a task, as far as self.retry() reads them."""

    max_retries: int | None
    default_retry_delay: float

    @property
    def most_retries(self) -> int:
        """Retries that a job of the task may have."""


class BindingTask(Protocol):
    """The task, as far as self reads it."""

    name: str

    @property
    def limits(self) -> RetryLimits:
        """How often it may be retried."""

    def queue_of(self, kind: str) -> str:
        """The queue that a kind of the task stands for."""

    def now(self) -> datetime:
        """The time by which an eta is read."""


class RetryRequested(RowlockError):
    """self.retry() raises it: the job is tried again after so long."""

    def __init__(self, cause: BaseException | None, after: timedelta) -> None:
        super().__init__(str(cause) if cause is not None else "self.retry() was called")
        self.after = after


class MaxRetriesExceededError(RowlockError):
    """self.retry() was called once too often."""


class Ignore(Skip):
    """A task raises it to end its job as cancelled; Celery would record no state."""


class Reject(Skip):
    """A task raises it to end its job as cancelled; Celery would hand the message back to the broker."""


@dataclass(frozen=True, slots=True)
class RequestOfTask:
    """self.request: the job that runs, in Celery's words."""

    id: str | None
    retries: int
    task: str
    kwargs: Mapping[str, object]
    args: tuple[object, ...] = ()
    """Always empty: arguments are stored by name."""
    hostname: str | None = None
    called_directly: bool = False
    delivery_info: Mapping[str, object] | None = None


class RunningTask:
    """The first argument of a task with bind=True."""

    def __init__(self, task: BindingTask, context: Context | SyncContext | None) -> None:
        """context: None in a direct call."""
        self._task, self.context = task, context
        """context: that of Rowlock, with progress(), checkpoint, log, lock() and more."""

    def __getattr__(self, name: str) -> Any:
        """Any other member of the task, such as name, app or delay()."""
        return getattr(self._task, name)

    @property
    def request(self) -> RequestOfTask:
        """The job that runs."""
        if self.context is None:
            return RequestOfTask(None, 0, self._task.name, {}, called_directly=True)
        job = self.context.job
        queue = self._task.queue_of(job.kind)
        return RequestOfTask(
            job.public_id,
            job.attempt - 1,
            self._task.name,
            job.args,
            hostname=job.worker,
            delivery_info={"routing_key": queue, "priority": job.priority},
        )

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,  # noqa: FBT001, FBT002 - Celery's
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> RetryRequested:
        """Raise what has the job tried again: raise self.retry(exc=error, countdown=60).

        After max_retries it raises exc, or MaxRetriesExceededError.
        """
        if args is not None or kwargs is not None or options:
            given = "args" if args is not None else "kwargs" if kwargs is not None else min(options)
            raise InvalidOption(
                f"self.retry() takes exc, countdown, eta, max_retries and throw here; got {given}. A retry runs the "
                "same job again. For other arguments enqueue another job and return."
            )
        declared = self._task.limits
        if max_retries is not None and max_retries > declared.most_retries:
            raise ConfigurationError(
                f"self.retry(max_retries={max_retries}) is more than {self._task.name} declares. Write "
                f"@shared_task(max_retries={max_retries}): the number of attempts is stored with each job."
            )
        if self.context is None:
            raise exc or RetryRequested(None, timedelta(0))
        limit = declared.max_retries if max_retries is None else max_retries
        if limit is not None and self.request.retries >= limit:
            raise exc or MaxRetriesExceededError(f"{self._task.name} was retried {limit} times.")
        made = RetryRequested(exc, self._pause(eta, countdown))
        if throw:
            raise made from exc
        return made

    def _pause(self, eta: datetime | None, countdown: float | None) -> timedelta:
        if eta is not None:
            if eta.utcoffset() is None:
                raise InvalidOption(f"eta must have a time zone such as datetime.now(UTC); got {eta!r}.")
            return max(eta - self._task.now(), timedelta(0))
        return timedelta(seconds=self._task.limits.default_retry_delay if countdown is None else countdown)

    def update_state(self, task_id: str | None = None, state: str | None = None, meta: Any = None) -> None:
        """Report progress: meta has current and total, and a message under status. States of one's own do not exist."""
        given = meta if isinstance(meta, dict) else {}
        done = given.get("current", given.get("done"))
        if task_id is not None or done is None or not isinstance(self.context, SyncContext):
            raise InvalidOption(
                "update_state() reports progress here, of a running task that is no coroutine: "
                "update_state(state='PROGRESS', meta={'current': 3, 'total': 10}). Or use self.context.progress(…). "
                f"Got state={state!r}, meta={meta!r}."
            )
        text = given.get("status", given.get("message"))
        self.context.progress(done, given.get("total"), None if text is None else str(text))

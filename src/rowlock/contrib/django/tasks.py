"""RowlockBackend: Django's tasks run as jobs of Rowlock.

    TASKS = {"default": {"BACKEND": "rowlock.contrib.django.tasks.RowlockBackend", "QUEUES": ["default", "emails"]}}

Every task function is a kind, named by its path; on another queue than "default" the kind is path/queue, because a lane
is chosen by kind. A worker knows the tasks in the modules that settings.ROWLOCK['modules'] names.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from inspect import iscoroutinefunction
from random import Random
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.module_loading import import_string

from rowlock.bridge import in_thread
from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.task_framework import (
    DEFAULT_TASK_QUEUE_NAME,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
    task_finished,
    task_started,
)
from rowlock.errors import ConfigurationError, InvalidId
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.model.kind import Executor
from rowlock.model.options import Span
from rowlock.model.retry import Retry
from rowlock.model.state import FINAL, SUCCESS, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.contrib.django.models import Job as JobRow
    from rowlock.model.job import Job

logger = logging.getLogger("rowlock.django")
_OPTIONS: Final = ("lanes", "retry", "timeout", "executor")
_META: Final = "django_task"
"""Key in a job's meta: the backend and queue of the task, and its run_after if it has one."""
_UNKNOWN: Final = "unknown"
"""The name of a worker that is forgotten, or was not looked up."""
_NO_EXCEPTION: Final = "rowlock.errors.JobFailed"
"""The class of the error of a task that ended without an exception: cancelled, expired, lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowlockTask(Task):
    """A task with options of its kind: @task(retry=Retry(attempts=5), timeout="10m"), since Django 6.1."""

    retry: Retry | None = None
    timeout: Span | None = None
    executor: Executor | None = None


class RowlockBackend(BaseTaskBackend):
    """Enqueues tasks as jobs, in the open transaction of Django's connection if there is one.

    OPTIONS: lanes (queue name to lane; by default a queue's lane has its name), and for tasks that do not say so
    themselves retry (a Retry; by default a failed task is not retried), timeout and executor.
    """

    task_class = RowlockTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        unknown = sorted(set(self.options) - set(_OPTIONS))
        if unknown:
            message = f"TASKS[{alias!r}]['OPTIONS'] has no {unknown[0]!r}; there are {', '.join(_OPTIONS)}."
            raise ConfigurationError(message)
        self._lanes: dict[str, str] = dict(self.options.get("lanes", {}))

    # --- declaring ---------------------------------------------------------------------------------------------------

    def validate_task(self, task: Any) -> None:  # noqa: ANN401 - a Task
        """Refuse a task that cannot run. Django calls this for every task that it makes, so kinds are declared here."""
        super().validate_task(task)
        for queue in {DEFAULT_TASK_QUEUE_NAME, *self.queues, *self._lanes, task.queue_name}:
            self._declare(task, queue)

    def kind_of(self, task: Any, queue: str) -> str:  # noqa: ANN401 - a Task
        """The kind of a task on that queue. Of a queue that no setting names, workers know nothing."""
        known = queue in self.queues or queue in self._lanes
        return str(task.module_path) + (f"/{queue}" if known and queue != DEFAULT_TASK_QUEUE_NAME else "")

    def _declare(self, task: Any, queue: str) -> None:  # noqa: ANN401 - a Task
        app, kind = project_app(), self.kind_of(task, queue)
        known = app.tasks.get(kind)
        if known is not None and getattr(known.__wrapped__, "django_task", None) is None:
            message = f"{kind} is the name of a kind that is declared with app.job(). Give that kind another name."
            raise InvalidTask(message)
        if known is not None and known.__wrapped__.django_task is task.func:  # type: ignore[attr-defined]  # checked above
            return
        lane = self._lanes.get(queue, queue)
        app.job(
            kind,
            lane=None if lane == DEFAULT_TASK_QUEUE_NAME or "/" not in kind else lane,
            retry=self._option(task, "retry") or Retry(attempts=1, losses=3),
            timeout=self._option(task, "timeout"),
            executor=self._option(task, "executor"),
        )(_handler_of(task, self))

    def _option(self, task: Any, name: str) -> Any:  # noqa: ANN401 - the option's own
        chosen = getattr(task, name, None)
        return self.options.get(name) if chosen is None else chosen

    # --- enqueueing and reading --------------------------------------------------------------------------------------

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a Task, a TaskResult
        """Enqueue a job for the task. It is committed with the surrounding transaction, or at once without one."""
        self.validate_task(task)
        self._warn_of_strange_module(task)
        given = normalize_json({"args": list(args), "kwargs": dict(kwargs)})
        about = {"backend": self.alias, "queue": task.queue_name}
        run_at = _aware(task.run_after)
        if run_at is not None:
            about["run_after"] = run_at.isoformat()
        known = project_app().task(self.kind_of(task, task.queue_name))
        made = known.options(priority=int(task.priority), run_at=run_at, meta={_META: about}).enqueue_sync(
            args=given["args"], kwargs=given["kwargs"]
        )
        row = _row(made.id)
        result = self._result(task, row.pk, TaskResultStatus.READY, given, enqueued_at=_shown(row.created_at))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:  # noqa: ANN401 - a TaskResult
        """The result as it stands now."""
        from rowlock.contrib.django.models import Job

        try:
            row = _read(lambda: _row(result_id))
        except (InvalidId, Job.DoesNotExist):
            raise TaskResultDoesNotExist(result_id) from None
        about = (row.meta or {}).get(_META)
        if about is None or about["backend"] != self.alias:
            raise TaskResultDoesNotExist(result_id)
        task = import_string(row.kind.partition("/")[0]).using(
            priority=row.priority,
            queue_name=about["queue"],
            run_after=_run_after(about),
            backend=self.alias,
        )
        return self._result_of_row(task, row)

    def _warn_of_strange_module(self, task: Any) -> None:  # noqa: ANN401 - a Task
        modules = project_app().configuration.modules
        module = task.func.__module__
        if module.rpartition(".")[2] not in modules and module not in modules:
            logger.warning(
                "%s: workers import the modules named %s of installed apps; a task in %s runs only where something "
                "else imports it. Move it, or name its module in settings.ROWLOCK['modules'].",
                task.module_path,
                " and ".join(modules),
                module,
            )

    def _result_of_row(self, task: Any, row: JobRow) -> Any:  # noqa: ANN401 - a Task, a TaskResult
        attempts = [each for each in row.attempts_before if each.started_at is not None]
        status = _status(State(row.state))
        started = min(
            [each.started_at for each in attempts] + ([row.claimed_at] if row.claimed_at else []), default=None
        )
        result = self._result(
            task,
            row.pk,
            status,
            row.args,
            enqueued_at=_shown(row.created_at),
            started_at=_shown(started),
            last_attempted_at=_shown(row.claimed_at),
            finished_at=_shown(row.finished_at),
            errors=_errors(row, status),
            worker_ids=_workers(row),
        )
        object.__setattr__(result, "_return_value", row.result if status == TaskResultStatus.SUCCESSFUL else None)
        return result

    def _result(
        self,
        task: Any,  # noqa: ANN401 - a Task
        number: str,
        status: Any,  # noqa: ANN401 - a TaskResultStatus
        given: Mapping[str, Any],
        **about: Any,  # noqa: ANN401 - fields of TaskResult
    ) -> Any:  # noqa: ANN401 - a TaskResult
        unset: dict[str, Any] = {
            "started_at": None,
            "last_attempted_at": None,
            "finished_at": None,
            "errors": [],
            "worker_ids": [],
        }
        return TaskResult(
            task=task,
            id=number,
            status=status,
            args=given["args"],
            kwargs=given["kwargs"],
            backend=self.alias,
            **{**unset, **about},
        )

    # --- running -----------------------------------------------------------------------------------------------------

    def running(self, task: Any, job: Job, workers: list[str] | None) -> Any:  # noqa: ANN401 - a Task, a TaskResult
        """The result of the attempt that is about to run, for its context and for signals.

        workers: the worker of each attempt; None: not looked up, as only a context shows them.
        """
        about: Any = job.meta[_META]
        task = task.using(priority=job.priority, queue_name=about["queue"], run_after=_run_after(about))
        now = _shown(job.claimed_at)
        return self._result(
            task,
            job.public_id,
            TaskResultStatus.RUNNING,
            dict(job.args),
            enqueued_at=_shown(job.created_at),
            started_at=now,
            last_attempted_at=now,
            worker_ids=[_UNKNOWN] * job.attempt if workers is None else workers,
        )

    def retries(self, task: Any, job: Job, error: BaseException) -> bool:  # noqa: ANN401 - a Task
        """Whether the job is tried again after this error."""
        retry = self._option(task, "retry") or Retry(attempts=1)
        return retry.next_delay(job.attempt, error, Random(0)) is not None  # noqa: S311 - the delay is not used


class _Attempt:
    """One attempt at a task: its arguments, and the signals that Django sends around it."""

    def __init__(self, backend: RowlockBackend, task: Any, job: Job, workers: list[str] | None) -> None:  # noqa: ANN401 - a Task
        self._backend, self._task, self._job = backend, task, job
        self.result = backend.running(task, job, workers)
        self.about = {"sender": type(backend), "task_result": self.result}

    @property
    def context(self) -> tuple[Any, ...]:
        return (TaskContext(task_result=self.result),) if self._task.takes_context else ()

    def succeeded(self, value: object) -> Any:  # noqa: ANN401 - JSON
        """Note the value; TypeError if it is not JSON."""
        normal = normalize_json(value)
        object.__setattr__(self.result, "_return_value", normal)
        self._ended(TaskResultStatus.SUCCESSFUL)
        return normal

    def failed(self, error: BaseException) -> bool:
        """Note the error; whether the task has failed for good."""
        if self._backend.retries(self._task, self._job, error):
            return False
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        self.result.errors.append(TaskError(exception_class_path=path, traceback="".join(format_exception(error))))
        self._ended(TaskResultStatus.FAILED)
        return True

    def _ended(self, status: Any) -> None:  # noqa: ANN401 - a TaskResultStatus
        object.__setattr__(self.result, "status", status)
        object.__setattr__(self.result, "finished_at", timezone.now())


def _handler_of(task: Any, backend: RowlockBackend) -> Any:  # noqa: ANN401 - a Task, a handler
    """The handler of a task's kind: it takes the arguments as Django stores them."""

    def run(ctx: SyncContext, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - the task's own
        attempt = _Attempt(backend, task, ctx.job, _workers_of(ctx.job.id) if task.takes_context else None)
        task_started.send(**attempt.about)
        try:
            value = attempt.succeeded(task.func(*attempt.context, *args, **kwargs))
        except BaseException as error:
            if isinstance(error, (Exception, SystemExit)) and attempt.failed(error):
                task_finished.send(**attempt.about)
            raise
        task_finished.send(**attempt.about)
        return value

    async def run_async(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - the task's own
        workers = await sync_to_async(_workers_of)(ctx.job.id) if task.takes_context else None
        attempt = _Attempt(backend, task, ctx.job, workers)
        await task_started.asend(**attempt.about)
        try:
            value = attempt.succeeded(await task.func(*attempt.context, *args, **kwargs))
        except Exception as error:
            if attempt.failed(error):
                await task_finished.asend(**attempt.about)
            raise
        await task_finished.asend(**attempt.about)
        return value

    handler: Any = run_async if iscoroutinefunction(task.func) else run
    # A child process finds the handler by importing the module of the task.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(handler, name, getattr(task.func, name))
    handler.django_task = task.func
    return handler


# --- rows ------------------------------------------------------------------------------------------------------------


def _row(job_id: int | str) -> JobRow:
    """The job with its worker and its earlier attempts, which are in attempts_before."""
    from rowlock.contrib.django.models import Job

    row: JobRow = Job.objects.select_related("claimed_by").get(pk=job_id)
    row.attempts_before = list(row.earlier_attempts.all())
    return row


def _workers(row: JobRow) -> list[str]:
    """The worker of each attempt, the present one included."""
    before = [each for each in row.attempts_before if each.started_at is not None]
    names = [each.worker_name or _UNKNOWN for each in before]
    if row.claimed_at is not None and all(each.started_at != row.claimed_at for each in before):
        names.append(row.claimed_by.name if row.claimed_by else _UNKNOWN)
    return names


def _workers_of(job_id: int) -> list[str]:
    return _workers(_row(job_id))


def _read(work: Any) -> Any:  # noqa: ANN401 - a function and its value
    """Call it here, or in a thread if an event loop runs here, where Django's connections cannot be used."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    from django.db import connections

    found: list[Any] = []

    def read() -> None:
        try:
            found.append(work())
        finally:
            connections.close_all()

    in_thread(read)
    return found[0]


def _status(state: State) -> Any:  # noqa: ANN401 - a TaskResultStatus
    if state in SUCCESS:
        return TaskResultStatus.SUCCESSFUL
    if state in FINAL:
        return TaskResultStatus.FAILED
    return TaskResultStatus.RUNNING if state is State.RUNNING else TaskResultStatus.READY


def _errors(row: JobRow, status: Any) -> list[Any]:  # noqa: ANN401 - a TaskResultStatus, TaskErrors
    """One error per failed attempt, the last one included."""
    errors = [each.error for each in row.attempts_before if each.error]
    if status == TaskResultStatus.FAILED and row.errors and row.errors not in errors:
        errors.append(row.errors)
    return [_error(each) for each in errors]


def _error(stored: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a TaskError
    name = stored.get("type")
    path = _NO_EXCEPTION if not name else name if "." in name else f"builtins.{name}"
    text = stored.get("traceback") or stored.get("message") or stored.get("reason") or ""
    return TaskError(exception_class_path=path, traceback=str(text))


def _run_after(about: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a datetime or None
    text = about.get("run_after")
    return None if text is None else _shown(timezone.datetime.fromisoformat(text))


def _aware(moment: Any) -> Any:  # noqa: ANN401 - a datetime or None
    """With USE_TZ = False Django's times are naive, in the current time zone."""
    return moment if moment is None or timezone.is_aware(moment) else timezone.make_aware(moment)


def _shown(moment: Any) -> Any:  # noqa: ANN401 - a datetime or None
    """A time as the project writes times: aware, or naive with USE_TZ = False."""
    from django.conf import settings

    if moment is None or timezone.is_aware(moment) == settings.USE_TZ:
        return moment
    return timezone.make_naive(moment) if timezone.is_aware(moment) else timezone.make_aware(moment)

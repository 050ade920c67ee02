"""Procrastinate's decorator and calls on Rowlock: a module of tasks runs here once its import line has changed.

    from rowlock import Rowlock
    from rowlock.contrib.moving.procrastinate import App

    app = App(Rowlock())

    @app.task(queue="sums", retry=3, queueing_lock="nightly", lock="ledger")
    def add(a, b): ...

    add.defer(a=1, b=2)

The command `rowlock move procrastinate` brings the jobs that wait in Procrastinate's table.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from rowlock.contrib.moving.queue_kinds import QueueKinds, checked_app, dotted_path, handler_of
from rowlock.errors import ConfigurationError, InvalidOption, UniqueConflict
from rowlock.model.kind import Gate
from rowlock.model.progress import Skip
from rowlock.model.retry import MOST_ATTEMPTS, Retry
from rowlock.model.spelling.keyword_options import suggests_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rowlock.app import Rowlock
    from rowlock.flow.progress.context import Context
    from rowlock.flow.progress.sync_context import SyncContext
    from rowlock.tasks import BaseTask, BoundTask

__all__ = ["AlreadyEnqueued", "App", "Blueprint", "JobAborted", "JobContext", "RetryStrategy"]

GUIDE: Final = "See docs/howto/moving_from_procrastinate.md."
_DEFAULT: Final = "default"
_MEMBERS: Final = {
    "periodic": "Declare a schedule: @app.rowlock.schedule(…). It passes no timestamp; ctx.job.run_after is the time.",
    "run_worker": "Use the command rowlock worker.",
    "run_worker_async": "Use async with app.rowlock.worker(): or the command rowlock worker.",
    "job_manager": "Use the desk: app.rowlock.jobs, or app.rowlock.sync.jobs in blocking code.",
    "schema_manager": "Use the command rowlock schema upgrade.",
    "connector": "Rowlock makes connections of its own: app.rowlock.database().",
    "with_connector": "In tests use rowlock.testing; there is no connector.",
    "replace_connector": "In tests use rowlock.testing; there is no connector.",
    "perform_import_paths": "Import the modules that declare tasks beside the application.",
}


class AlreadyEnqueued(UniqueConflict):
    """A job with the same queueing lock waits already."""


class JobAborted(Skip):
    """A task raises it to end its job as cancelled."""


@dataclass(frozen=True, kw_only=True)
class RetryStrategy:
    """When a failed task is tried again: wait + linear_wait * attempts + exponential_wait ** (attempts + 1) seconds."""

    max_attempts: int | None = None
    """Retries, the first attempt not counted; None: without limit."""
    wait: int = 0
    linear_wait: int = 0
    exponential_wait: int = 0
    retry_exceptions: Iterable[type[Exception]] | None = None

    def policy(self) -> Retry:
        """Rowlock's own."""
        return Retry(
            attempts=MOST_ATTEMPTS if not self.max_attempts else self.max_attempts + 1,
            on=tuple(self.retry_exceptions) if self.retry_exceptions else (Exception,),
            delay=lambda attempt, _error: self._pause(attempt - 1),
        )

    def _pause(self, attempts: int) -> float:
        return float(self.wait + self.linear_wait * attempts + self.exponential_wait ** (attempts + 1))


def retry_policy(retry: int | RetryStrategy | Retry, name: str) -> Retry:
    """Rowlock's policy for what Procrastinate's retry= may be."""
    match retry:
        case Retry():
            return retry
        case RetryStrategy():
            return retry.policy()
        case int():
            return RetryStrategy(max_attempts=None if retry is True else retry).policy() if retry else Retry(attempts=1)
        case _:
            raise ConfigurationError(
                f"{name}: retry is a boolean, a number, a RetryStrategy of {__name__} or a Retry of rowlock; got "
                f"{retry!r}."
            )


class Blueprint:
    """Tasks that an application adds later, under a namespace: app.add_tasks_from(blueprint, namespace="cat")."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorate a function: @app.task, or @app.task(queue=…, lock=…, queueing_lock=…, retry=…, pass_context=…).

        options also: name, aliases, priority.
        """
        if function is None:
            return functools.partial(self.task, **options)
        task = Task(function, **options)
        self._add(task)
        return task

    def _add(self, task: Task) -> None:
        self.tasks[task.name] = task

    def add_tasks_from(self, blueprint: Blueprint, *, namespace: str) -> None:
        """Add the tasks of a blueprint. A task is called namespace:name in Procrastinate and namespace/name here."""
        for task in blueprint.tasks.values():
            task.name = f"{namespace}:{task.name}"
            task.aliases = tuple(f"{namespace}:{alias}" for alias in task.aliases)
            self._add(task)


class App(Blueprint):
    """Stands for Procrastinate's App: declares tasks as kinds of a Rowlock application, and defers them."""

    def __init__(self, rowlock: Rowlock, *, queues: Sequence[str] = ()) -> None:
        """queues: further queues that configure(queue=…) names; each is a lane."""
        super().__init__()
        self.rowlock = checked_app(rowlock, "App(…)")
        self.kinds = QueueKinds(self.rowlock, _DEFAULT, tuple(queues), "App(app, queues=(…,))")

    if not TYPE_CHECKING:  # a checker that sees this method believes in any name

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"Procrastinate's App on Rowlock has no {name!r}. {_MEMBERS.get(name, GUIDE)}")

    @override
    def _add(self, task: Task) -> None:
        super()._add(task)
        task.declare_in(self)

    def configure_task(self, name: str, **options: Any) -> JobDeferrer:
        """configure() of a task by its name."""
        if name not in self.tasks:
            self.rowlock.task(kind_name(name))  # says which kinds there are
            raise ConfigurationError(f"{name} is a kind of @app.job: enqueue it with its own task. {GUIDE}")
        return self.tasks[name].configure(**options)

    @contextlib.contextmanager
    def open(self, *_: object) -> Iterator[App]:
        """Do nothing: connections are opened at first use."""
        yield self

    def open_async(self, *_: object) -> contextlib.AbstractAsyncContextManager[App]:
        """open() for `async with`."""
        return contextlib.nullcontext(self)


def kind_name(task_name: str) -> str:
    """The name of a kind has no colon, which elsewhere separates a namespace."""
    return task_name.replace(":", "/")


class Task:
    """A task as Procrastinate's decorator makes it: still callable, with defer(), defer_async() and configure()."""

    @suggests_options("app.task()", error=ConfigurationError)
    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        aliases: Sequence[str] | None = None,
        retry: bool | int | RetryStrategy | Retry = False,
        pass_context: bool = False,
        queue: str = _DEFAULT,
        priority: int = 0,
        lock: str | None = None,
        queueing_lock: str | None = None,
    ) -> None:
        self.func, self.queue, self.priority, self.pass_context = function, queue, priority, pass_context
        self.name, self.aliases = name or dotted_path(function), tuple(aliases or ())
        self.lock, self.queueing_lock = lock, queueing_lock
        self.retry = retry_policy(retry, self.name)
        self._app: App | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now; nothing is enqueued."""
        return self.func(*args, **kwargs)

    def declare_in(self, app: App) -> None:
        """Declare its kinds; the lock becomes a gate of one place."""
        self._app = app
        handler = handler_of(
            self.func, self.name, first=functools.partial(JobContext, self) if self.pass_context else None
        )
        app.kinds.declare(
            handler,
            kind_name(self.name),
            self.queue,
            priority=self.priority,
            retry=self.retry,
            gate=gate_of(self.lock),
            aliases=tuple(map(kind_name, self.aliases)),
            # A job of a worker that died stays in `doing` until a person, or a task of one's own, retries it.
            on_worker_lost="hold" if self.retry.attempts == 1 else "retry",
        )

    @property
    def app(self) -> App:
        """The application that the task was added to."""
        if self._app is None:
            raise ConfigurationError(f"{self.name} is a task of a blueprint. First: app.add_tasks_from(blueprint, …).")
        return self._app

    @property
    def task(self) -> BaseTask[..., Any]:
        """The task of Rowlock, with enqueue(), options() and hooks: what @app.job would have made."""
        return self.app.kinds.task(kind_name(self.name))

    def configure(self, **options: Any) -> JobDeferrer:
        """Options of one job: lock, queueing_lock, schedule_at, schedule_in, queue, priority, connection, task_kwargs.

        task_kwargs: arguments that defer() may add to.
        """
        return JobDeferrer(self, _ConfigureOptions(**options))

    def defer(self, **task_kwargs: Any) -> int:
        """Enqueue a job; returns its number."""
        return self.configure().defer(**task_kwargs)

    async def defer_async(self, **task_kwargs: Any) -> int:
        """defer() for asynchronous code."""
        return await self.configure().defer_async(**task_kwargs)

    def batch_defer(self, *task_kwargs: Mapping[str, Any]) -> list[int]:
        """Enqueue a job for each mapping of arguments, all or none."""
        return self.configure().batch_defer(*task_kwargs)

    async def batch_defer_async(self, *task_kwargs: Mapping[str, Any]) -> list[int]:
        """batch_defer() for asynchronous code."""
        return await self.configure().batch_defer_async(*task_kwargs)


class _ConfigureOptions:
    """The options of configure(), checked."""

    @suggests_options("configure()")
    def __init__(
        self,
        *,
        lock: str | None = None,
        queueing_lock: str | None = None,
        task_kwargs: Mapping[str, Any] | None = None,
        schedule_at: datetime | None = None,
        schedule_in: Mapping[str, float] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        connection: object | None = None,
    ) -> None:
        if schedule_at is not None and schedule_in is not None:
            raise InvalidOption("schedule_at and schedule_in were both given. Pass one of them.")
        self.lock, self.queueing_lock, self.task_kwargs = lock, queueing_lock, dict(task_kwargs or {})
        self.schedule_at, self.queue, self.priority, self.connection = schedule_at, queue, priority, connection
        self.schedule_in = None if schedule_in is None else timedelta(**schedule_in)


class JobDeferrer:
    """A task with the options of configure()."""

    def __init__(self, task: Task, options: _ConfigureOptions) -> None:
        self._task, self._options = task, options

    def defer(self, **task_kwargs: Any) -> int:
        """Enqueue a job; returns its number. AlreadyEnqueued: one with its queueing lock waits."""
        with _translated():
            return self._bound().enqueue_sync(**self._options.task_kwargs | task_kwargs).id

    async def defer_async(self, **task_kwargs: Any) -> int:
        """defer() for asynchronous code."""
        with _translated():
            return (await self._bound().enqueue(**self._options.task_kwargs | task_kwargs)).id

    def batch_defer(self, *task_kwargs: Mapping[str, Any]) -> list[int]:
        """Enqueue a job for each mapping of arguments, all or none."""
        with _translated():
            return [made.id for made in self._bound().enqueue_many_sync(self._items(task_kwargs))]

    async def batch_defer_async(self, *task_kwargs: Mapping[str, Any]) -> list[int]:
        """batch_defer() for asynchronous code."""
        with _translated():
            return [made.id for made in await self._bound().enqueue_many(self._items(task_kwargs))]

    def _items(self, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**self._options.task_kwargs, **each} for each in given]

    def _bound(self) -> BoundTask[..., Any]:
        task, options = self._task, self._options
        queueing_lock = options.queueing_lock if options.queueing_lock is not None else task.queueing_lock
        return task.app.kinds.task(kind_name(task.name), options.queue).options(
            run_at=options.schedule_at,
            run_in=options.schedule_in,
            priority=options.priority,
            gate=gate_of(options.lock),
            connection=options.connection,
            **unique_options(queueing_lock),
        )


def gate_of(lock: str | None) -> Gate | None:
    """Jobs with one lock run one at a time, in their order."""
    return None if lock is None else Gate(lock, 1, fifo=True)


def unique_options(queueing_lock: str | None) -> dict[str, Any]:
    """One waiting job with a queueing lock, whatever its task; a running one does not count."""
    if queueing_lock is None:
        return {}
    return {"unique_key": queueing_lock, "unique_scope": "waiting", "unique_across_kinds": True}


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except UniqueConflict as conflict:
        raise AlreadyEnqueued(str(conflict), conflict.job_id) from conflict


@dataclass(frozen=True)
class JobOfTask:
    """context.job: the job that runs, in Procrastinate's words."""

    id: int
    task_name: str
    task_kwargs: Mapping[str, object]
    queue: str
    attempts: int
    """Attempts before this one."""
    priority: int
    lock: str | None
    queueing_lock: str | None
    scheduled_at: datetime | None


@dataclass(frozen=True)
class JobContext:
    """The first argument of a task with pass_context=True."""

    task: Task
    context: Context | SyncContext
    """That of Rowlock, with progress(), checkpoint, log, lock() and more."""
    additional_context: dict[str, Any] = field(init=False)
    """What the worker's lifespans yielded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "additional_context", dict(self.context.state))

    @property
    def app(self) -> App:
        """The application of the task."""
        return self.task.app

    @property
    def job(self) -> JobOfTask:
        """The job that runs."""
        job = self.context.job
        return JobOfTask(
            id=job.id,
            task_name=self.task.name,
            task_kwargs=job.args,
            queue=self.app.kinds.queue_of(job.kind),
            attempts=job.attempt - 1,
            priority=job.priority,
            lock=job.gate_key,
            queueing_lock=None if job.unique_key is None else job.unique_key.removeprefix("*:"),
            scheduled_at=job.run_after,
        )

    @property
    def worker_name(self) -> str | None:
        """The name of the worker."""
        return self.context.job.worker

    def should_abort(self) -> bool:
        """Whether the job was asked to stop, or its worker shuts down."""
        return self.context.cancelled

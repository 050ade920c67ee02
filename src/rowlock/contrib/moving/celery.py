"""Celery's decorators and calls on Rowlock: a module of tasks runs here once its import line has changed.

    from rowlock import Rowlock
    from rowlock.contrib.moving.celery import Celery, chain, chord, group, shared_task

    app = Celery(Rowlock())

    @shared_task(bind=True, max_retries=3)
    def send_mail(self, order_id): ...

    send_mail.delay(7)

Each task is a kind of Celery's name, such as shop.tasks.send_mail. Workers are Rowlock's. To have Celery workers run
jobs of Rowlock is another thing: see rowlock.delivery.celery.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from rowlock.contrib.moving.celery_canvas import Chain, Chord, Group, Signature
from rowlock.contrib.moving.celery_results import AsyncResult as ResultOfApp
from rowlock.contrib.moving.celery_running import Ignore, MaxRetriesExceededError, Reject, RetryRequested, RunningTask
from rowlock.contrib.moving.queue_kinds import QueueKinds, checked_app, dotted_path, expires_in, handler_of
from rowlock.errors import ConfigurationError, InvalidOption, Stopped
from rowlock.model.retry import MOST_ATTEMPTS, Retry
from rowlock.model.spelling.keyword_options import suggests_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.app import Rowlock
    from rowlock.tasks import BaseTask, BoundTask

__all__ = [
    "AsyncResult",
    "Celery",
    "Ignore",
    "MaxRetriesExceededError",
    "Reject",
    "SoftTimeLimitExceeded",
    "Task",
    "chain",
    "chord",
    "current_app",
    "group",
    "shared_task",
    "signature",
]

GUIDE: Final = "See docs/howto/moving_from_celery.md."
SoftTimeLimitExceeded = Stopped
"""Raised in a task whose time is over, as elsewhere; here a cancel and a shutdown raise it, too."""
_DEFAULT: Final = "celery"
"""Celery's name of the queue that a task without another one goes to."""
_MAX_RETRIES: Final = 3
_RETRY_DELAY: Final = 180
"""Seconds: Celery's own."""
_BACKOFF_MAX: Final = 600
_OF_THE_TASK: Final = {
    "base": "A task is a function here; share code with functions, app.middleware or Depends(…).",
    "rate_limit": "Celery counts per worker, Rowlock over all: declare the kind with @app.job(rate=Rate(…)).",
    "serializer": "Arguments are JSON, checked against the signature. Pass ids instead of objects.",
    "compression": "PostgreSQL compresses large arguments by itself.",
    "routing_key": "A queue is a lane: queue=….",
    "exchange": "A queue is a lane: queue=….",
    "backend": "The result is stored with the job.",
    "pydantic": "Arguments are validated by pydantic anyway, from the annotations.",
}
_OF_A_CALL: Final = {
    "link": "Use chain(task.s(…), callback.s()), or a hook: @task.on_success.",
    "link_error": "Use a hook: @task.on_exhausted.",
    "task_id": "Ids are the database's. For one job per key: task.task.options(idempotency_key=…).enqueue_sync(…).",
    "serializer": _OF_THE_TASK["serializer"],
    "compression": _OF_THE_TASK["compression"],
    "routing_key": "A queue is a lane: queue=….",
    "exchange": "A queue is a lane: queue=….",
    "retry": "The enqueue is a row in PostgreSQL: it succeeds, or raises.",
    "retry_policy": "The enqueue is a row in PostgreSQL: it succeeds, or raises.",
    "connection": "For the caller's transaction: task.task.options(connection=…).enqueue_sync(…).",
    "producer": "There is no broker.",
    "headers": "Use task.task.options(meta=…).enqueue_sync(…).",
    "shadow": "A kind has one name.",
    "time_limit": "It is an option of the task: @shared_task(time_limit=…).",
    "soft_time_limit": "It is an option of the task: @shared_task(soft_time_limit=…).",
    "ignore_result": "It is an option of the task: @shared_task(ignore_result=True).",
}
_MEMBERS: Final = {
    "apply": "Call the task: task(…) runs it here and now.",
    "chunks": "Use group(task.s(part) for part in parts), or enqueue_many of task.task.",
    "map": "Use group(task.s(each) for each in them).",
    "starmap": "Use group(task.s(*each) for each in them).",
    "subtask": "Use task.s(…).",
    "on_failure": "Use a hook of the kind: @task.task.on_exhausted.",
    "on_retry": "Use a hook of the kind: @task.task.on_failure.",
}
_APP_MEMBERS: Final = {
    "conf": "Celery's settings are not read: Rowlock reads ROWLOCK_… variables, or Rowlock(settings=Settings(…)).",
    "config_from_object": "Celery's settings are not read: Rowlock reads ROWLOCK_… variables.",
    "control": "Use the desk: app.rowlock.sync.jobs.cancel(…), app.rowlock.sync.workers, or the command rowlock.",
    "add_periodic_task": "Declare a schedule: @app.rowlock.schedule(…).",
    "on_after_configure": "Declare schedules at import: @app.rowlock.schedule(…).",
    "worker_main": "Use the command rowlock worker.",
    "start": "Use the command rowlock worker.",
    "backend": "The result is stored with the job.",
    "amqp": "There is no broker.",
}


class Celery:
    """Stands for the Celery application: declares tasks as kinds of a Rowlock application, and sends them."""

    def __init__(
        self,
        rowlock: Rowlock,
        *,
        queues: Sequence[str] = (),
        default_queue: str = _DEFAULT,
        acks_late: bool = False,
        ignore_result: bool = False,
        priorities: Literal["rabbitmq", "redis"] = "rabbitmq",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
    ) -> None:
        """queues: further queues that calls name; each is a lane. default_queue, acks_late, ignore_result: as Celery's
        settings task_default_queue, task_acks_late and task_ignore_result.

        priorities: "redis" if low numbers run first, as with Celery's Redis broker. clock: for an expires= that is a
        moment; random: for the jitter of retries.
        """  # noqa: D205 - two sentences that belong together
        self.rowlock = checked_app(rowlock, "Celery(…)")
        setting = "Celery(app, queues=(…,))"
        self.kinds = QueueKinds(self.rowlock, default_queue, tuple(queues), setting)
        self.acks_late, self.ignore_result = acks_late, ignore_result
        self.priority_sign = -1 if priorities == "redis" else 1
        self.clock, self.random = clock, random or Random()  # noqa: S311 - jitter, not secrets
        self.tasks: dict[str, Task] = {}
        _SHARED.add(self)

    if not TYPE_CHECKING:  # a checker that sees this method believes in any name

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"Celery on Rowlock has no {name!r}. {_APP_MEMBERS.get(name, GUIDE)}")

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorate a function: @app.task or @app.task(bind=True, …). options: as of shared_task."""
        if function is None:
            return functools.partial(self.task, **options)
        made = _Declared(function, **options)
        return self.declare(made)

    def declare(self, declared: _Declared) -> Task:
        """Make a task of a decorated function, and a kind for each queue."""
        task = self.tasks[declared.name] = Task(self, declared)
        handler = handler_of(
            declared.function,
            declared.name,
            first=functools.partial(RunningTask, task) if declared.bind else None,
            keep_result=not (self.ignore_result if declared.ignore_result is None else declared.ignore_result),
        )
        late = self.acks_late if declared.acks_late is None else declared.acks_late
        limit = declared.soft_time_limit or declared.time_limit
        self.kinds.declare(
            handler,
            declared.name,
            declared.queue,
            priority=self.priority_sign * (declared.priority or 0),
            retry=declared.retry(self.random),
            # Without acks_late a Celery task is acknowledged before it runs, and runs once at most.
            on_worker_lost="retry" if late else "fail",
            timeout=limit,
            executor=None if limit is None else "process",
            expires_in=declared.expires,
        )
        return task

    def autodiscover_tasks(self, packages: Iterable[str] | None = None, related_name: str = "tasks") -> None:
        """Import the module of that name of each package that has one, so that its tasks are declared."""
        if packages is None:
            raise ConfigurationError(
                "autodiscover_tasks() takes the packages here: autodiscover_tasks(['shop', 'mail']). In a Django "
                "project Rowlock imports the modules that settings.ROWLOCK['modules'] names."
            )
        for package in packages:
            with contextlib.suppress(ModuleNotFoundError):
                if find_spec(f"{package}.{related_name}") is None:
                    continue
            import_module(f"{package}.{related_name}")

    def send_task(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Send a task by its name; UnknownKind if its module is not imported here."""
        return self._named(name).apply_async(args, kwargs, **options)

    def signature(self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Signature:
        """The signature of a task by its name."""
        return self._named(name).signature(args, kwargs)

    def _named(self, name: str) -> Task:
        if name not in self.tasks:
            self.rowlock.task(name)  # says which kinds there are
            raise ConfigurationError(f"{name} is a kind of @app.job: enqueue it with its own task. {GUIDE}")
        return self.tasks[name]

    def AsyncResult(self, task_id: str) -> ResultOfApp:  # noqa: N802 - Celery's name
        """The handle of a job by its id."""
        return ResultOfApp(task_id, self.rowlock)


class _Declared:
    """A decorated function with Celery's options, checked."""

    @suggests_options("A task", error=ConfigurationError, hints=_OF_THE_TASK)
    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        bind: bool = False,
        queue: str | None = None,
        priority: int | None = None,
        max_retries: int | None = _MAX_RETRIES,
        default_retry_delay: float = _RETRY_DELAY,
        autoretry_for: Sequence[type[BaseException]] = (),
        dont_autoretry_for: Sequence[type[BaseException]] = (),
        retry_backoff: bool | int = False,
        retry_backoff_max: int = _BACKOFF_MAX,
        retry_jitter: bool = True,
        retry_kwargs: Mapping[str, Any] | None = None,
        acks_late: bool | None = None,
        ignore_result: bool | None = None,
        time_limit: float | None = None,
        soft_time_limit: float | None = None,
        expires: float | None = None,
        # Without an effect: errors are always stored, a job's start always shown, and losses decided by acks_late.
        store_errors_even_if_ignored: bool = False,  # noqa: ARG002 - as above
        track_started: bool = True,  # noqa: ARG002 - as above
        reject_on_worker_lost: bool = True,  # noqa: ARG002 - as above
        throws: object = (),  # noqa: ARG002 - as above
        typing: bool = True,  # noqa: ARG002 - as above
    ) -> None:
        self.function, self.bind, self.queue, self.priority = function, bind, queue, priority
        self.name = name or dotted_path(function)
        self.max_retries, self.default_retry_delay = max_retries, default_retry_delay
        self.autoretry_for, self.dont_autoretry_for = tuple(autoretry_for), tuple(dont_autoretry_for)
        self.backoff = int(retry_backoff)
        self.backoff_max, self.jitter = retry_backoff_max, retry_jitter
        self.retry_kwargs = dict(retry_kwargs or {})
        self.acks_late, self.ignore_result, self.expires = acks_late, ignore_result, expires
        self.time_limit, self.soft_time_limit = time_limit, soft_time_limit
        unknown = sorted(self.retry_kwargs.keys() - {"max_retries", "countdown"})
        if unknown:
            raise ConfigurationError(
                f"{self.name}: retry_kwargs has max_retries and countdown here; got {unknown[0]!r}. {GUIDE}"
            )

    @property
    def most_retries(self) -> int:
        """Retries that a job of the task may have; None elsewhere is as many as Rowlock can count."""
        given = [self.max_retries, self.retry_kwargs.get("max_retries", 0)]
        return MOST_ATTEMPTS - 1 if None in given else max(map(int, given))

    def retry(self, random: Random) -> Retry:
        """Rowlock's policy: self.retry() and the exceptions of autoretry_for are tried again, others are not."""
        most_automatic = self.retry_kwargs.get("max_retries", self.max_retries)

        def delay(attempt: int, error: BaseException) -> timedelta | None:
            if isinstance(error, RetryRequested):
                return error.after
            if most_automatic is not None and attempt > most_automatic:
                return None
            return self.pause(attempt - 1, random)

        return Retry(
            attempts=self.most_retries + 1,
            on=(RetryRequested, *self.autoretry_for),
            never=self.dont_autoretry_for,
            delay=delay,
        )

    def pause(self, retries: int, random: Random) -> timedelta:
        """How long to wait before the next attempt, after so many retries."""
        if not self.backoff:
            return timedelta(seconds=self.retry_kwargs.get("countdown", self.default_retry_delay))
        seconds = min(self.backoff_max, self.backoff * 2 ** min(retries, 32))
        return timedelta(seconds=random.randrange(seconds + 1) if self.jitter else seconds)


class Task:
    """A task as Celery's decorator makes it: still callable, with delay(), apply_async(), s() and si()."""

    def __init__(self, app: Celery, declared: _Declared) -> None:
        self.app, self.declared, self.name = app, declared, declared.name
        self.max_retries, self.default_retry_delay = declared.max_retries, declared.default_retry_delay
        functools.update_wrapper(self, declared.function)

    if not TYPE_CHECKING:  # a checker that sees this method believes in any name

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"A Celery task on Rowlock has no {name!r}. {_MEMBERS.get(name, GUIDE)}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now; nothing is enqueued."""
        first = (RunningTask(self, None),) if self.declared.bind else ()
        return self.declared.function(*first, *args, **kwargs)

    run = __call__

    @property
    def task(self) -> BaseTask[..., Any]:
        """The task of Rowlock, with enqueue(), options() and hooks: what @app.job would have made."""
        return self.app.kinds.task(self.name)

    @property
    def limits(self) -> _Declared:
        """How often it may be retried."""
        return self.declared

    def queue_of(self, kind: str) -> str:
        """The queue that a kind of the task stands for."""
        return self.app.kinds.queue_of(kind)

    def now(self) -> datetime:
        """The time by which an eta is read."""
        return self.app.clock()

    def delay(self, *args: Any, **kwargs: Any) -> ResultOfApp:
        """Enqueue a job with these arguments."""
        return self.apply_async(args, kwargs)

    delay_on_commit = delay
    """Rowlock's row is part of the surrounding transaction of Django, so that delay() is enough."""

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> ResultOfApp:
        """Enqueue a job. options: countdown, eta, expires, queue, priority."""
        made = self.bound(options).enqueue_sync(*(args or ()), **(kwargs or {}))
        return ResultOfApp(made.public_id, self.app.rowlock)

    def apply_async_on_commit(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> ResultOfApp:
        """apply_async(), as delay_on_commit is delay()."""
        return self.apply_async(args, kwargs, **options)

    def bound(self, options: Mapping[str, Any], *, step: bool = False) -> BoundTask[..., Any]:
        """The task of Rowlock with Celery's options of one call. step: as part of a chain, group or chord."""
        given = _CallOptions(**options)
        if step and given.eta is not None:
            raise InvalidOption("A step of a chain, group or chord has no eta. Use countdown, from its turn on.")
        return self.app.kinds.task(self.name, given.queue).options(
            run_in=given.countdown,
            run_at=given.eta,
            priority=None if given.priority is None else self.app.priority_sign * given.priority,
            expires_in=expires_in(given.expires, self.app.clock, run_at=given.eta, run_in=given.countdown),
        )

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature: these arguments, for chain(), group() and chord()."""
        return Signature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """An immutable signature: the result of the task before is not added."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
    ) -> Signature:
        """s() with the arguments as a tuple and a dict, and options of apply_async()."""
        return Signature(self, tuple(args or ()), dict(kwargs or {}), dict(options or {}), immutable=immutable)

    def AsyncResult(self, task_id: str) -> ResultOfApp:  # noqa: N802 - Celery's name
        """The handle of a job by its id."""
        return self.app.AsyncResult(task_id)


class _CallOptions:
    """Celery's options of one call, checked."""

    @suggests_options("apply_async()", hints=_OF_A_CALL)
    def __init__(
        self,
        *,
        countdown: float | None = None,
        eta: datetime | None = None,
        expires: float | datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> None:
        self.countdown, self.eta, self.expires, self.queue, self.priority = countdown, eta, expires, queue, priority


# --- tasks without an application ------------------------------------------------------------------------------------


class _SharedTasks:
    """Functions decorated with shared_task, and the applications that they are declared in."""

    def __init__(self) -> None:
        self.declared: dict[str, _Declared] = {}
        self.apps: weakref.WeakSet[Celery] = weakref.WeakSet()
        self._current: weakref.ref[Celery] | None = None

    def add(self, app: Celery) -> None:
        """Declare the functions in a new application, which is the current one from now on."""
        self.apps.add(app)
        self._current = weakref.ref(app)
        for declared in self.declared.values():
            app.declare(declared)

    def share(self, declared: _Declared) -> SharedTask:
        """Declare a function in every application, present and future."""
        self.declared[declared.name] = declared
        for app in self.apps:
            app.declare(declared)
        return SharedTask(declared)

    @property
    def current(self) -> Celery:
        """The application that was made last."""
        app = None if self._current is None else self._current()
        if app is None:
            raise ConfigurationError("No Celery(Rowlock(…)) has been made yet. Import the module that makes it first.")
        return app


_SHARED: Final = _SharedTasks()
"""Global, as in Celery: a module of shared tasks does not know the application that will send them."""


class SharedTask:
    """A function decorated with shared_task: the task of that name in the current application."""

    def __init__(self, declared: _Declared) -> None:
        self._declared = declared
        functools.update_wrapper(self, declared.function)

    @property
    def here(self) -> Task:
        """The task in the current application."""
        return _SHARED.current.tasks[self._declared.name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now; nothing is enqueued."""
        return self.here(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Any member of the task."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.here, name)


def shared_task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a function of a module that does not import the application: @shared_task or @shared_task(bind=True, …).

    options: name, bind, queue, priority, expires, max_retries, default_retry_delay, autoretry_for, dont_autoretry_for,
    retry_backoff, retry_backoff_max, retry_jitter, retry_kwargs, acks_late, ignore_result, time_limit, soft_time_limit.
    """
    if function is None:
        return functools.partial(shared_task, **options)
    return _SHARED.share(_Declared(function, **options))


def current_app() -> Celery:
    """The application that was made last."""
    return _SHARED.current


def AsyncResult(task_id: str, app: Celery | None = None) -> ResultOfApp:  # noqa: N802 - Celery's name
    """The handle of a job by its id."""
    return (_SHARED.current if app is None else app).AsyncResult(task_id)


def signature(
    task: str | Task, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Signature:
    """The signature of a task, or of its name in the current application. options: of apply_async()."""
    found = _SHARED.current.tasks.get(task) if isinstance(task, str) else task
    if found is None:
        return _SHARED.current.signature(str(task))  # says what is known
    return found.signature(args, kwargs, options)


def chain(*tasks: Any) -> Any:
    """Signatures, groups and chains that run one after the other, each with the result of the one before."""
    return Chain.of(tasks)


def group(*tasks: Any) -> Group:
    """Signatures and chains that run side by side."""
    return Group.of(tasks)


def chord(header: Any, body: Any = None) -> Any:
    """Join a group and the signature that gets the list of its results, its body."""
    made = Chord(Group.of((header,) if not isinstance(header, Group) else tuple(header.tasks)))
    return made if body is None else made.with_body(body)

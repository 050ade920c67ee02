"""arq's worker settings and enqueue_job() on Rowlock: functions stay as they are.

    from rowlock import Rowlock
    from rowlock.contrib.moving.arq import create_pool

    app = Rowlock()
    pool = create_pool(app, WorkerSettings)     # was: await create_pool(RedisSettings())

    await pool.enqueue_job("download", "https://example.org", _job_id="daily", _defer_by=60)

To have arq workers run jobs of Rowlock is another thing: see rowlock.delivery.arq.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from rowlock.contrib.moving.queue_kinds import QueueKinds, checked_app, expires_in, handler_of
from rowlock.errors import ConfigurationError, InvalidOption, JobNotFound, RowlockError, WrongState
from rowlock.model import retry as retries
from rowlock.model.state import FINAL, State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rowlock.app import Rowlock
    from rowlock.flow.progress.context import Context
    from rowlock.tasks import Enqueued

__all__ = ["ArqRedis", "Function", "Job", "JobStatus", "Retry", "create_pool", "func"]

GUIDE: Final = "See docs/howto/moving_from_arq.md."
_QUEUE: Final = "arq:queue"
_MAX_TRIES: Final = 5
_TIMEOUT: Final = 300
_KEEP_RESULT: Final = 3600
_READ: Final = frozenset(
    {"functions", "on_startup", "on_shutdown", "max_tries", "job_timeout", "keep_result", "queue_name"}
)
_IGNORED: Final = frozenset(
    {"redis_settings", "redis_pool", "poll_delay", "queue_read_limit", "health_check_interval", "health_check_key"}
    | {"log_results", "handle_signals", "job_completion_wait", "burst", "allow_abort_jobs", "retry_jobs", "max_jobs"}
    | {"keep_result_forever", "expires_extra_ms", "max_burst_jobs", "ctx", "timezone"}
)
_REFUSED: Final = {
    "cron_jobs": "Declare schedules: @app.schedule(cron=…).",
    "on_job_start": "Use @app.middleware.",
    "on_job_end": "Use @app.middleware, or a hook of the kind.",
    "after_job_end": "Use a hook of the kind: @task.on_success.",
    "job_serializer": "Arguments are JSON, checked against the signature.",
    "job_deserializer": "Arguments are JSON, checked against the signature.",
}


class Retry(RowlockError):
    """A function raises it to be run again: raise Retry(defer=5). Any other exception fails the job."""

    def __init__(self, defer: float | timedelta | None = None) -> None:
        super().__init__(f"retry in {defer}" if defer is not None else "retry")
        self.after = defer if isinstance(defer, timedelta) else timedelta(seconds=defer or 0)


@dataclass(frozen=True, slots=True)
class Function:
    """A function with settings of its own, as func() makes it."""

    name: str
    coroutine: Callable[..., Any]
    timeout_s: float | None = None
    keep_result_s: float | None = None
    max_tries: int | None = None


def func(
    coroutine: Callable[..., Any],
    *,
    name: str | None = None,
    timeout: float | timedelta | None = None,
    keep_result: float | timedelta | None = None,
    max_tries: int | None = None,
) -> Function:
    """A function with settings of its own, for WorkerSettings.functions."""
    return Function(name or coroutine.__qualname__, coroutine, _seconds(timeout), _seconds(keep_result), max_tries)


def _seconds(value: float | timedelta | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def create_pool(
    rowlock: Rowlock,
    worker_settings: Any,
    *,
    queues: Sequence[str] = (),
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ArqRedis:
    """Declare the functions of arq's worker settings, a class or a dict, as kinds; returns what enqueues them.

    queues: further queues that _queue_name names; each is a lane. clock: for _expires beside _defer_until.
    """
    app = checked_app(rowlock, "create_pool(…)")
    settings = _settings(worker_settings)
    kinds = QueueKinds(app, settings.get("queue_name", _QUEUE), tuple(queues), "create_pool(app, …, queues=(…,))")
    keep = _seconds(settings.get("keep_result", _KEEP_RESULT))
    pool = ArqRedis(kinds, clock, float(keep or 0))
    for each in settings.get("functions", ()):
        pool.add(each, settings)
    _lifespan(app, pool, settings)
    return pool


def _settings(given: Any) -> dict[str, Any]:
    settings = given if isinstance(given, dict) else {key: getattr(given, key) for key in dir(given) if key[0] != "_"}
    for name, value in settings.items():
        if name in _REFUSED and value:
            raise ConfigurationError(f"{name} of the worker settings is not read. {_REFUSED[name]} {GUIDE}")
        if name not in _READ | _IGNORED | _REFUSED.keys():
            raise ConfigurationError(f"{name!r} is no setting of an arq worker that is known here. {GUIDE}")
    return dict(settings)


def _lifespan(app: Rowlock, pool: ArqRedis, settings: dict[str, Any]) -> None:
    startup, shutdown = settings.get("on_startup"), settings.get("on_shutdown")
    if startup is None and shutdown is None:
        return

    @app.worker_lifespan
    async def arq_startup() -> AsyncIterator[dict[str, Any]]:
        state: dict[str, Any] = {"redis": pool}
        if startup is not None:
            await startup(state)
        try:
            yield state
        finally:
            if shutdown is not None:
                await shutdown(state)


class ArqRedis:
    """Stands for arq's pool: enqueues functions by their names."""

    def __init__(self, kinds: QueueKinds, clock: Callable[[], datetime], keep_result: float) -> None:
        self.rowlock, self._kinds, self._clock, self._keep = kinds.app, kinds, clock, keep_result

    def add(self, function: Any, settings: dict[str, Any]) -> None:
        """Declare a function, or a Function of arq or of this module."""
        known: Any = function if hasattr(function, "coroutine") else func(function)
        tries = known.max_tries or settings.get("max_tries", _MAX_TRIES)
        timeout = _seconds(settings.get("job_timeout", _TIMEOUT)) if known.timeout_s is None else known.timeout_s
        handler = handler_of(known.coroutine, known.name, first=functools.partial(context_of, self))
        self._kinds.declare(
            handler,
            known.name,
            None,
            retry=retries.Retry(attempts=tries, on=(Retry,), delay=_pause, losses=max(tries, 1)),
            timeout=timeout,
        )

    async def enqueue_job(
        self,
        function: str,
        *args: Any,
        _job_id: str | None = None,
        _queue_name: str | None = None,
        _defer_until: datetime | None = None,
        _defer_by: float | timedelta | None = None,
        _expires: float | timedelta | None = None,
        _job_try: int | None = None,
        **kwargs: Any,
    ) -> Job | None:
        """Enqueue a function by its name. None: a job of this _job_id waits, runs, or was made within keep_result."""
        if _job_try is not None:
            raise InvalidOption("_job_try is not read: attempts are counted by the database. " + GUIDE)
        if _defer_until is not None and _defer_by is not None:
            raise InvalidOption("_defer_until and _defer_by were both given. Pass one of them.")
        keys: dict[str, Any] = {}
        if _job_id is not None:
            keys = {"unique_key": _job_id, "unique_across_kinds": True, "on_conflict": "keep"}
            keys |= {"idempotency_key": _job_id, "keep_key": self._keep} if self._keep else {}
        bound = self._kinds.task(function, _queue_name).options(
            run_at=_defer_until,
            run_in=_defer_by,
            expires_in=expires_in(_expires, self._clock, run_at=_defer_until, run_in=_defer_by),
            **keys,
        )
        made = await bound.enqueue(*args, **kwargs)
        return None if made.what == "kept" else Job(made.public_id, self)

    async def close(self) -> None:
        """Do nothing: the application is closed by itself."""

    aclose = close


def _pause(_attempt: int, error: BaseException) -> timedelta | None:
    return error.after if isinstance(error, Retry) else None


def context_of(pool: ArqRedis, context: Context) -> dict[str, Any]:
    """Arq's ctx: what on_startup put there, the job, and Rowlock's own context under "rowlock"."""
    job = context.job
    return {
        "redis": pool,
        **context.state,
        "job_id": job.public_id,
        "job_try": job.attempt,
        "enqueue_time": job.created_at,
        "score": int(job.run_after.timestamp() * 1000),
        "rowlock": context,
    }


class JobStatus(StrEnum):
    """arq's words for the states of a job."""

    deferred = "deferred"
    queued = "queued"
    in_progress = "in_progress"
    complete = "complete"
    not_found = "not_found"


class Job:
    """A job by its id, as arq's Job."""

    def __init__(self, job_id: str, redis: ArqRedis) -> None:
        self.job_id, self._pool = job_id, redis

    async def _handle(self) -> Enqueued[Any]:
        rowlock = self._pool.rowlock
        return rowlock.task((await rowlock.jobs.get(self.job_id)).kind).handle(self.job_id)

    async def result(self, timeout: float | None = None, *, poll_delay: float = 0.5) -> Any:  # noqa: ARG002 - nothing is polled
        """Wait for the result. JobFailed if the job did not complete, WaitTimeout if it takes longer."""
        return await (await self._handle()).wait(timeout)

    async def status(self) -> JobStatus:
        """Where the job is."""
        try:
            job = await self._pool.rowlock.jobs.get(self.job_id)
        except JobNotFound:
            return JobStatus.not_found
        if job.state in FINAL:
            return JobStatus.complete
        if job.state is State.RUNNING:
            return JobStatus.in_progress
        waits = job.run_after > job.created_at + timedelta(seconds=1)
        return JobStatus.deferred if waits or job.state is not State.QUEUED else JobStatus.queued

    async def abort(self, *, timeout: float | None = None) -> bool:
        """Cancel the job and wait for its end; whether it was cancelled."""
        with contextlib.suppress(WrongState):
            await self._pool.rowlock.jobs.cancel(self.job_id)
        ended = await self._pool.rowlock.jobs.wait(self.job_id, timeout=timeout)
        return ended.state is State.CANCELLED

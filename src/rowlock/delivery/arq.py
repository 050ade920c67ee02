"""ArqDelivery: arq's queue in Redis brings jobs to arq workers."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from rowlock.delivery.backend import REDELIVER_AFTER, TASK, Delivery
from rowlock.delivery.reception import result_of
from rowlock.errors import ConfigurationError, MissingExtra
from rowlock.model.keys import shown

try:
    from arq.connections import RedisSettings, create_pool
    from arq.constants import default_queue_name, job_key_prefix
    from arq.jobs import Job as ArqJob
    from arq.worker import func
except ImportError as error:
    raise MissingExtra("arq", "arq") from error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from arq.connections import ArqRedis

    from rowlock.delivery.reception import Reception
    from rowlock.model.options import Span

_NO_LIMIT: Final = 10 * 365 * 86_400
"""Seconds. Timeouts belong to Rowlock, which knows those of each kind; arq's own would cut jobs off after 5 minutes."""
_OPEN_WITHIN: Final = 8.0
"""Seconds for a connection and the first answer; shorter than the time that the outbox has for a batch."""


class ArqDelivery(Delivery):
    """Sends job ids over Redis. arq workers started with worker_settings() run the jobs."""

    def __init__(
        self,
        redis: RedisSettings | None = None,
        *,
        queue: str = default_queue_name,
        queues: Mapping[str, str] | None = None,
        name: str = "arq",
        redeliver_after: Span = REDELIVER_AFTER,
    ) -> None:
        """redis: by default localhost. queue: arq's queue for every lane but those in queues, {lane: queue}."""
        super().__init__(name=name, redeliver_after=redeliver_after)
        if redis is not None and not isinstance(redis, RedisSettings):
            raise ConfigurationError(
                f"ArqDelivery takes arq's RedisSettings(…), or RedisSettings.from_dsn('redis://…'); got {shown(redis)}."
            )
        self.redis = redis or RedisSettings()
        self.queue, self.queues = queue, dict(queues or {})
        self._open_within = _OPEN_WITHIN
        self._reception: Reception | None = None
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[ArqRedis]]
        self._pools = weakref.WeakKeyDictionary()

    @override
    def bind(self, reception: Reception) -> None:
        """Remember whose jobs arq workers of this process run."""
        self._reception = reception

    def worker_settings(self, *, queue: str | None = None, **options: Any) -> type:  # noqa: ANN401 - arq's own options
        """The WorkerSettings for `arq module.WorkerSettings`. queue: by default that of this delivery.

        options: of arq's Worker, such as max_jobs or functions of your own.
        """
        if self._reception is None:
            raise ConfigurationError("This ArqDelivery belongs to no application yet; pass it to Rowlock(delivery=…).")
        return worker_settings_of(
            self._reception, {"redis_settings": self.redis, "queue_name": queue or self.queue, **options}
        )

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Send one message; returns arq's id of it."""
        redis, queue = await self._pool(), self.queues.get(queue_name, self.queue)
        job = await redis.enqueue_job(TASK, payload["job_id"], _queue_name=queue)
        return None if job is None else job.job_id

    @override
    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Arq's definition and status of a message; None: Redis does not have it."""
        for queue in {self.queue, *self.queues.values()}:
            job = ArqJob(backend_job_id, await self._pool(), _queue_name=queue)
            status = await job.status()
            if status.value != "not_found":
                info = await job.info()
                return {"status": status.value, "queue": queue} | (asdict(info) if info is not None else {})
        return None

    @override
    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result, while arq keeps it (an hour by default)."""
        result = await ArqJob(backend_job_id, await self._pool()).result_info()
        return None if result is None or not result.success else result.result

    @override
    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
        """The messages whose key is gone: flushed, evicted, expired, or brought to a process that did not run it."""
        redis, asked = await self._pool(), list(backend_job_ids)
        async with redis.pipeline(transaction=False) as pipe:
            for each in asked:
                pipe.exists(job_key_prefix + each)
            found = await pipe.execute()
        return [each for each, there in zip(asked, found, strict=True) if not there]

    async def _pool(self) -> ArqRedis:
        loop = asyncio.get_running_loop()
        opening = self._pools.get(loop)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            # Without arq's own retries: Rowlock tries again later, and says why. With a limit: a Redis that accepts
            # connections and never answers would keep every later call waiting for this one, also once it is well.
            pool = asyncio.wait_for(create_pool(replace(self.redis, conn_retries=0)), self._open_within)
            opening = self._pools[loop] = loop.create_task(pool)
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())  # the caller may have left
        return await asyncio.shield(opening)

    @override
    async def close(self) -> None:
        """Close the connections of the running event loop."""
        opening = self._pools.pop(asyncio.get_running_loop(), None)
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        if opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None:
            await opening.result().aclose()


def worker_settings_of(reception: Reception, options: dict[str, Any]) -> type:
    """Settings of arq workers that run Rowlock's jobs, take part in upkeep from their start, and end in order."""
    starting, ending = options.pop("on_startup", None), options.pop("on_shutdown", None)

    async def run_job(_ctx: dict[Any, Any], job_id: str) -> object:
        return result_of(await reception.run(job_id))

    async def on_startup(ctx: dict[Any, Any]) -> None:
        if starting is not None:
            await starting(ctx)
        await reception.start()

    async def on_shutdown(ctx: dict[Any, Any]) -> None:
        await reception.close()
        if ending is not None:
            await ending(ctx)

    run: Any = run_job  # arq's types ask for a coroutine with any arguments
    functions = [func(run, name=TASK, timeout=_NO_LIMIT, max_tries=_NO_LIMIT), *options.pop("functions", ())]
    return type(
        "WorkerSettings", (), {"functions": functions, "on_startup": on_startup, "on_shutdown": on_shutdown, **options}
    )

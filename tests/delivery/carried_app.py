"""An application whose jobs a carrier delivers; the tests and the processes that they start import it.

ROWLOCK_TEST_CARRIER: postgres, inline, arq, safir or celery. ROWLOCK_TEST_BROKER: the URL of its broker.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import asyncpg

from rowlock import Context, Gate, Job, Rate, Retry, Rowlock
from rowlock.delivery.inline import InlineDelivery
from rowlock.delivery.postgres import PostgresDelivery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.delivery.backend import Delivery


def delivery_of(carrier: str, broker: str) -> Delivery:
    """The carrier under test."""
    match carrier:
        case "postgres":
            return PostgresDelivery()
        case "inline":
            return InlineDelivery(redeliver_after="2s")
        case "arq":
            from arq.connections import RedisSettings  # noqa: PLC0415 - the carrier under test alone

            from rowlock.delivery.arq import ArqDelivery  # noqa: PLC0415

            return ArqDelivery(RedisSettings.from_dsn(broker), redeliver_after="5s")
        case "safir":
            from arq.connections import ArqRedis  # noqa: PLC0415 - as above
            from safir.arq import RedisArqQueue  # noqa: PLC0415 - as above

            from rowlock.delivery.safir import SafirDelivery  # noqa: PLC0415 - as above

            return SafirDelivery(RedisArqQueue(ArqRedis.from_url(broker)), redeliver_after="5s")
        case "celery":
            from celery import Celery  # noqa: PLC0415

            from rowlock.delivery.celery import CeleryDelivery  # noqa: PLC0415

            queue = Celery("carried", broker=broker, backend=broker if broker.startswith("redis") else None)
            queue.conf.update(
                worker_prefetch_multiplier=1,
                broker_connection_retry_on_startup=True,
                broker_connection_timeout=2,
                worker_cancel_long_running_tasks_on_connection_loss=False,
                task_ignore_result=not broker.startswith("redis"),
            )
            return CeleryDelivery(queue, redeliver_after="5s")
        case _:
            raise AssertionError(carrier)


def build(database_url: str, carrier: str, broker: str) -> Rowlock:  # noqa: C901 - a list of kinds
    """The application, with the kinds that the tests enqueue."""
    app = Rowlock(database_url, delivery=delivery_of(carrier, broker))

    async def ran(ctx: Context) -> None:
        link = await asyncpg.connect(database_url)
        try:
            await link.execute("INSERT INTO public.ran (job_id, pid) VALUES ($1, $2)", ctx.job.id, os.getpid())
        finally:
            await link.close()

    @app.job
    async def add(ctx: Context, first: int, second: int = 1) -> int:
        await ran(ctx)
        return first + second

    @app.job
    async def quick(number: int) -> int:
        return number

    @app.job(retry=Retry(attempts=3, minimum="0.2s", multiplier=1, jitter="0s"))
    async def flaky(ctx: Context, failures: int) -> int:
        await ran(ctx)
        if ctx.job.attempt <= failures:
            message = "not yet"
            raise ValueError(message)
        return ctx.job.attempt

    @flaky.on_success
    async def noted(job: Job) -> str:
        return f"after {job.public_id}"

    @app.job(approval=True)
    async def approved() -> str:
        return "approved"

    @app.job(lane="gated", gate=Gate("one", limit=1))
    async def gated(ctx: Context) -> None:
        await ran(ctx)
        await asyncio.sleep(0.1)

    @app.job(rate=Rate(5, per="1s"))
    async def rated(number: int) -> int:
        return number

    @app.job(lane="capped")
    async def capped(ctx: Context) -> None:
        await ran(ctx)
        await asyncio.sleep(0.05)

    @app.job(lane="long")
    async def long(ctx: Context, seconds: float = 60) -> str:
        await ran(ctx)
        await asyncio.sleep(seconds)
        return "slept"

    @app.job
    def in_thread(number: int) -> int:
        return -number

    _ = noted
    return app


def settings() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


if "ROWLOCK_TEST_CARRIER" in settings():
    app = build(
        settings()["ROWLOCK_DATABASE_URL"], settings()["ROWLOCK_TEST_CARRIER"], settings()["ROWLOCK_TEST_BROKER"]
    )
    if settings()["ROWLOCK_TEST_CARRIER"] == "arq":
        WorkerSettings = next(iter(app.carriers)).worker_settings(max_jobs=10, poll_delay=0.05)  # type: ignore[attr-defined]
    if settings()["ROWLOCK_TEST_CARRIER"] == "safir":
        from arq.connections import RedisSettings

        WorkerSettings = next(iter(app.carriers)).worker_settings(  # type: ignore[attr-defined]
            redis_settings=RedisSettings.from_dsn(settings()["ROWLOCK_TEST_BROKER"]), max_jobs=10, poll_delay=0.05
        )
    if settings()["ROWLOCK_TEST_CARRIER"] == "celery":
        celery_app = next(iter(app.carriers)).celery  # type: ignore[attr-defined]

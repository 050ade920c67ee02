from __future__ import annotations

import asyncio

import pytest

from rowlock import Rowlock
from rowlock.delivery.inline import InlineDelivery
from rowlock.errors import ConfigurationError


async def test_jobs_run_in_the_process_that_enqueues_them(database_url: str) -> None:
    inline = InlineDelivery()
    app = Rowlock(database_url, delivery=inline)

    @app.job
    async def child(number: int) -> int:
        return number

    @app.job
    async def parent() -> str:
        return (await child.enqueue(7)).public_id

    job = await parent.enqueue()
    child_id = await job.wait(timeout=60)
    assert (await app.jobs.wait(child_id, timeout=60)).result == 7
    await inline.idle()
    message = (await job.job()).backend_job_id
    assert message is not None
    assert await inline.get_job_result(message) == child_id
    assert await inline.get_job_metadata(message) == {"status": "complete"}
    await app.close()


def test_blocking_code_has_its_jobs_run_too(database_url: str) -> None:
    app = Rowlock(database_url, delivery=InlineDelivery())

    @app.job
    def add(first: int) -> int:
        return first + 1

    assert add.enqueue_sync(1).wait_sync(timeout=60) == 2
    asyncio.run(app.close())


async def test_without_an_application_it_runs_nothing() -> None:
    with pytest.raises(ConfigurationError, match="belongs to no application"):
        await InlineDelivery().enqueue("work", {"job_id": "1"})

"""Django's connections in handlers, run by a worker of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from orders.jobs import backend_pid, backend_pid_async
from tests.waiting import eventually

from rowlock.contrib.django import app

if TYPE_CHECKING:
    from rowlock.model.job import Job

pytestmark = pytest.mark.usefixtures("project")


def connected(pid: Any) -> bool:  # noqa: ANN401 - a job's result
    async def asked() -> bool:
        async with app.database().connection() as own:
            return bool(await own.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid))

    async def gone() -> bool:
        return not await asked()

    async def settled() -> bool:
        # A closed connection is seen for a moment longer.
        try:
            await eventually(gone, within=3)
        except AssertionError:
            return True
        return False

    return bool(app.wait_for(settled()))


def ran(job_id: int) -> Job:
    job: Job = app.wait_for(app.run_job(job_id))
    assert job.state == "completed", job.errors
    return job


def test_a_blocking_handler_leaves_no_connection_open() -> None:
    assert not connected(ran(backend_pid.enqueue_sync().id).result)


def test_an_async_handler_leaves_no_connection_open() -> None:
    assert not connected(ran(backend_pid_async.enqueue_sync().id).result)

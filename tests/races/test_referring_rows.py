"""A row of the user's own table that refers to a job, in a transaction that is open, holds it against deletion only."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened
from tests.upkeep.duty_running import duty_runner
from tests.waiting import in_time

from rowlock import Rowlock
from rowlock.errors import DatabaseBusy
from rowlock.model.state import State
from rowlock.store.jobs.held_rows import held_jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def referred_to(other: Store, job_id: int) -> AsyncIterator[None]:
    """An open transaction has inserted a row that refers to the job."""
    await other.execute("CREATE TABLE IF NOT EXISTS public.invoices (job_id bigint REFERENCES {s}.jobs (id))")
    async with other.connection.transaction():
        await other.execute("INSERT INTO public.invoices VALUES ($1)", job_id)
        yield
        await other.execute("DELETE FROM public.invoices")


ORDERS: dict[str, tuple[dict[str, object], Callable[[Rowlock, int], Awaitable[object]], State]] = {
    "cancel": ({}, lambda app, job: app.jobs.cancel(job), State.CANCELLED),
    "stop": ({}, lambda app, job: app.jobs.stop(job), State.CANCELLED),
    "approve": ({"approval": True}, lambda app, job: app.jobs.approve(job, by="root"), State.QUEUED),
    "reject": ({"approval": True}, lambda app, job: app.jobs.reject(job, by="root"), State.CANCELLED),
    "edit": ({}, lambda app, job: app.jobs.edit(job, priority=7), State.QUEUED),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_an_order_does_not_wait_for_a_row_that_refers_to_the_job(database_url: str, order: str) -> None:
    options, give, after = ORDERS[order]
    async with opened(database_url) as other, Rowlock(database_url) as app:

        @app.job
        async def bill() -> None: ...

        job = (await app.jobs.submit("bill", {}, **options)).job.id  # type: ignore[arg-type]  # options of a call
        async with referred_to(other, job):
            await in_time(give(app, job))
            assert (await app.jobs.get(job)).state is after


async def test_a_retry_does_not_wait_for_it(database_url: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other, Rowlock(database_url) as app:
        job = await store.enqueue()
        await store.execute("UPDATE {s}.jobs SET state = 'failed', finished_at = now()")
        async with referred_to(other, job):
            await in_time(app.jobs.retry(job))
            assert (await app.jobs.get(job)).state is State.QUEUED


@pytest.mark.parametrize("column", ["expires_at", "too_old_at", "answer_by"])
async def test_expiry_does_not_pass_it_over(database_url: str, column: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        job = await desk.store.enqueue()
        await other.execute(
            f"UPDATE {{s}}.jobs SET {column} = now() - interval '1 hour', state = $1",
            "pending" if column == "answer_by" else "queued",
        )
        async with referred_to(other, job):
            await desk.run("expire")
            assert (await desk.store.row(job))["finished_at"] is not None


async def test_a_deletion_leaves_it_and_names_it_while_other_jobs_are_deleted(database_url: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other, Rowlock(database_url) as app:
        jobs = [await store.enqueue() for _ in range(3)]
        await store.execute("UPDATE {s}.jobs SET state = 'failed', finished_at = now()")
        async with referred_to(other, jobs[1]):
            assert await held_jobs(store.database, jobs) == set()
            assert await held_jobs(store.database, jobs, to_delete=True) == {jobs[1]}
            with pytest.raises(DatabaseBusy):
                await app.jobs.delete(jobs[1])
            asked = await app.operations.preview("delete", ids=jobs)
            order = await app.operations.start("delete", ids=jobs, filter_hash=asked.filter_hash, expected_max=3)
            done = await app.operations.wait(order.id or 0, timeout=60)
            assert (done.done, done.failed) == (2, 1)
        assert await store.value("SELECT array_agg(id) FROM {s}.jobs") == [jobs[1]]

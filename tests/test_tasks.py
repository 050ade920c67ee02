from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pydantic import BaseModel

from rowlock import Context, InvalidArguments, JobFailed, JobNotFound, Rowlock, Settings, WaitTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Report(BaseModel):
    pages: int


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


async def test_a_task_is_still_its_function(app: Rowlock) -> None:
    @app.job("double.it")
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    assert await double(4) == 8
    assert (double.__name__, double.__doc__, double.kind) == ("double", "Twice as much.", "double.it")
    assert repr(double) == "<task double.it>"
    assert await app.jobs.list() == []


async def test_the_kind_is_the_functions_name_unless_given(app: Rowlock) -> None:
    @app.job
    async def first() -> None: ...

    @app.job()
    async def second() -> None: ...

    @app.job("third.kind")
    async def third() -> None: ...

    assert [task.kind for task in (first, second, third)] == ["first", "second", "third.kind"]
    assert list(app.tasks) == ["first", "second", "third.kind"]


async def test_a_module_imported_again_takes_over(app: Rowlock) -> None:
    def define() -> Any:  # noqa: ANN401 - a task
        @app.job
        async def work() -> None: ...

        return work

    old, new = define(), define()
    assert app.task("work") is new is not old


async def test_wait_returns_the_result_in_its_own_type(app: Rowlock) -> None:
    @app.job
    async def build(ctx: Context, pages: int) -> Report:
        assert ctx.job.kind == "build"
        return Report(pages=pages)

    async with app.worker():
        job = await build.enqueue(3)
        assert await job.wait(timeout=20) == Report(pages=3)
        assert (await job.job()).state == "completed"
        assert await job.wait() == Report(pages=3)


async def test_wait_tells_how_a_job_ended(app: Rowlock) -> None:
    @app.job
    async def fail() -> None:
        message = "no ink"
        raise ValueError(message)

    async with app.worker():
        job = await fail.options(max_attempts=1).enqueue()
        with pytest.raises(JobFailed, match=rf"Job {job.public_id} \(fail\) ended failed: no ink"):
            await job.wait(timeout=20)


async def test_wait_gives_up_and_leaves_the_job_alone(app: Rowlock) -> None:
    @app.job
    async def never() -> None: ...

    job = await never.enqueue()
    with pytest.raises(WaitTimeout, match=rf"Job {job.public_id} is still queued after 0\.05 s"):
        await job.wait(timeout=0.05)
    assert (await job.job()).state == "queued"


async def test_a_job_of_a_rolled_back_transaction_is_not_found(app: Rowlock, database_url: str) -> None:

    @app.job
    async def never() -> None: ...

    with psycopg.connect(database_url) as connection:
        job = never.options(connection=connection).enqueue_sync()
        connection.rollback()
    with pytest.raises(JobNotFound):
        await job.job()


async def test_options_leave_the_task_as_it_was(app: Rowlock) -> None:
    @app.job(priority=1)
    async def work() -> None: ...

    await work.options(priority=9).enqueue()
    await work.enqueue()
    assert [job.priority for job in await app.jobs.list()] == [1, 9]


async def test_an_engine_of_the_application_finds_the_database(database_url: str) -> None:
    async with Rowlock(database_url.replace("postgresql://", "postgresql+asyncpg://")) as app:
        with psycopg.connect(app.database_url) as connection:
            row = connection.execute("SELECT current_database()").fetchone()
    assert row is not None
    assert str(row[0]) in database_url


async def test_a_switched_off_worker_still_enqueues(database_url: str) -> None:
    async with Rowlock(settings=Settings(database_url=database_url, worker=False)) as app:

        @app.job
        async def work() -> None: ...

        async with app.worker() as worker:
            assert worker is None
            assert (await (await work.enqueue()).job()).state == "queued"


def test_args_name_the_arguments_of_a_call_for_a_bulk() -> None:
    app = Rowlock("postgresql://nowhere/x")

    @app.job
    async def report(ctx: Context, org_id: int, full: bool = False) -> None: ...

    assert report.args(7) == {"org_id": 7}
    assert report.args(org_id=7, full=True) == {"org_id": 7, "full": True}
    with pytest.raises(InvalidArguments, match="twice"):
        report.args(7, org_id=8)  # type: ignore[misc]

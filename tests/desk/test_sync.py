"""The blocking twins: in step with their sources, and at work from a thread without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import JobFailed, JobNotFound, Rowlock, State, WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.model.workload import Status

ROOT = Path(__file__).parents[2]
DESKS = ("jobs", "lanes", "workers", "stats")


def test_the_generated_file_is_in_step_with_its_sources() -> None:
    command = [sys.executable, str(ROOT / "tools" / "sync_twins.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", DESKS)
def test_every_public_method_has_a_twin_with_the_same_signature(name: str) -> None:
    app = Rowlock("postgresql://localhost/none")
    desk, twin = getattr(app, name), getattr(app.sync, name)
    public = {key for key, _ in inspect.getmembers(type(desk)) if not key.startswith("_")}
    assert public == {key for key, _ in inspect.getmembers(type(twin)) if not key.startswith("_")}
    assert len(public) > 2
    for key in public:
        ours, theirs = inspect.getattr_static(type(twin), key), inspect.getattr_static(type(desk), key)
        if not isinstance(theirs, property):
            assert inspect.signature(ours) == inspect.signature(theirs), key
            assert inspect.getdoc(ours) == inspect.getdoc(theirs), key
            assert not inspect.iscoroutinefunction(ours), key


@pytest.fixture
def blocking(database_url: str) -> Iterator[Rowlock]:
    app = Rowlock(database_url)
    yield app
    asyncio.run(app.close())


def test_the_desk_from_blocking_code(blocking: Rowlock) -> None:
    app = blocking

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    job = double.options(tags=["t"]).enqueue_sync(4)
    assert app.sync.jobs.get(job.public_id).state is State.QUEUED
    assert app.sync.jobs.explain(job.id).codes == ["kind_unserved"]
    assert [found.id for found in app.sync.jobs.list(tag="t")] == [job.id]
    assert app.sync.stats.overview().states[State.QUEUED].value == 1
    assert job.job_sync().kind == "double"
    with pytest.raises(WaitTimeout):
        job.wait_sync(timeout=0.01)
    app.sync.lanes.define("narrow", kinds=["double"], slots=1)
    thread = app.start_worker(name="clerk")
    try:
        assert job.wait_sync(timeout=20) == 8
        assert app.sync.jobs.wait(job.id, timeout=20).lane == "narrow"
        assert app.sync.lanes.set("narrow", slots=3).slots == 3
        status: Status = app.sync.workers.status()
        assert [worker.worker.name for worker in status.workers] == ["clerk"]
        assert [worker.name for worker in app.sync.workers.drain("clerk")] == ["clerk"]
    finally:
        thread.stop()
    assert app.sync.workers.list() == []
    assert app.sync.jobs.delete(job.id).result == 8
    with pytest.raises(JobNotFound):
        app.sync.jobs.get(job.id)


def test_errors_come_out_as_they_are(blocking: Rowlock) -> None:
    @blocking.job
    async def work() -> None: ...

    job = work.enqueue_sync()
    blocking.sync.jobs.cancel(job.id, by="ada")
    with pytest.raises(JobFailed, match="ended cancelled"):
        job.wait_sync(timeout=5)


def test_old_keywords_work_for_blocking_code_too(blocking: Rowlock) -> None:
    lanes: Any = blocking.sync.lanes
    with pytest.warns(DeprecationWarning, match="age= is now called aging_interval="):
        assert lanes.create("front", age="1m").aging_interval == timedelta(minutes=1)

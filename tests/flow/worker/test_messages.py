"""Which messages make a worker act: those that concern it, and no others. Real workers, real notifications."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, in_time, nothing_happens_for, until_cancelled

from rowlock.flow.worker import claim_loop, heartbeat
from rowlock.model.lane import Lane
from rowlock.store.connections.worker_connection import WorkerConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from rowlock import Rowlock
    from rowlock.flow.worker.worker import Worker
    from rowlock.store.executor import SqlSession

MANY = 50
LONG = timedelta(minutes=1)
"""Neither polling nor the regular heartbeat may fall into a test."""


class Idle:
    """A worker with nothing to do, and every statement that it sends."""

    def __init__(self, app: Rowlock, worker: Worker, statements: list[str]) -> None:
        self.app, self.worker, self.statements = app, worker, statements

    async def notify(self, **message: object) -> None:
        """Send one message to every listener."""
        await self.notify_text(json.dumps(message))

    async def notify_text(self, payload: str) -> None:
        """Send that payload to every listener."""
        database = self.app.database()
        await database.fetch("notify", channel=database.channel, payload=payload)

    async def sent(self, *, until: str = "claim") -> list[str]:
        """The statements it sent once every message so far is received, but for the claim that shows as much."""
        await self.notify(wake=[["ping", 0, 0, 0]])

        async def seen() -> bool:
            return "claim" in self.statements and until in self.statements

        await eventually(seen)
        await nothing_happens_for(0.1)  # the beat is another thread's
        sent = list(self.statements)
        sent.remove("claim")
        return sent


@pytest.fixture
async def idle(make_app: Callable[..., Rowlock], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Idle]:
    for module, name in ((heartbeat, "EVERY"), (claim_loop, "_IDLE_FROM"), (claim_loop, "_POLL_ONLY")):
        monkeypatch.setattr(module, name, LONG.total_seconds())
    app = make_app(lanes=(Lane("default", kinds=("*",), poll_interval=LONG), Lane("other", kinds=("elsewhere",))))
    statements: list[str] = []
    session = WorkerConnection.session

    def counted(link: WorkerConnection) -> AbstractAsyncContextManager[SqlSession]:
        if link.database is app.database():
            statements.append(link.role)
        return session(link)

    @app.job
    async def ping() -> None: ...

    @app.job
    async def elsewhere() -> None: ...

    @app.job
    async def sit() -> None:
        await until_cancelled()

    async with app.worker(["default"]) as worker:
        assert worker is not None
        await in_time(worker._listener.listening.wait())
        await (await ping.enqueue()).wait(timeout=10)
        monkeypatch.setattr(WorkerConnection, "session", counted)
        await settled(statements)
        yield Idle(app, worker, statements)


async def settled(statements: list[str]) -> None:
    """Wait for the claims that follow one that brought something, and forget them."""
    while True:
        before = len(statements)
        await nothing_happens_for(0.5)
        if len(statements) == before:
            statements.clear()
            return


class Busy:
    """Another application on the same database, with a worker and a kind of its own."""

    def __init__(self, app: Rowlock) -> None:
        self.app = app
        self.may_end: dict[int, asyncio.Event] = {}

        @app.job
        async def work(n: int) -> int:
            await self.may_end[n].wait()
            return n

        self.work = work

    async def running(self) -> list[int]:
        """The ids of many jobs, all of them running."""
        ids = []
        for n in range(MANY):
            self.may_end[n] = asyncio.Event()
            ids.append((await self.work.enqueue(n)).id)
        await eventually(lambda: self.are(ids, "running"))
        return ids

    async def are(self, ids: list[int], state: str) -> bool:
        """Whether all of these jobs are in that state."""
        return {job.state for job in [await self.app.jobs.get(job_id) for job_id in ids]} == {state}

    async def waiters(self) -> int:
        """How many ends the database is to announce."""
        async with self.app.database().connection() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM rowlock.job_waiters"))


@pytest.fixture
async def busy(make_app: Callable[..., Rowlock]) -> AsyncIterator[Busy]:
    busy = Busy(make_app())
    async with busy.app.worker({"default": MANY}, name="busy"):
        yield busy


async def test_an_end_that_others_await_makes_no_worker_beat(idle: Idle, busy: Busy) -> None:
    ids = await busy.running()
    waiting = [asyncio.create_task(busy.app.jobs.wait(job_id, timeout=30)) for job_id in ids]

    async def all_wait() -> bool:
        return await busy.waiters() == MANY

    await eventually(all_wait)
    for n, task in enumerate(waiting):
        busy.may_end[n].set()
        assert (await task).is_final
    assert await idle.sent() == []


async def test_cancels_and_stops_of_jobs_elsewhere_make_no_worker_beat(idle: Idle, busy: Busy) -> None:
    ids = await busy.running()
    for n, job_id in enumerate(ids):
        await (busy.app.jobs.cancel if n % 2 else busy.app.jobs.stop)(job_id)
    await eventually(lambda: busy.are(ids, "cancelled"))
    assert await idle.sent() == []


async def test_another_workers_drain_makes_no_worker_beat(idle: Idle, busy: Busy) -> None:
    await busy.app.workers.drain("busy")
    assert await idle.sent() == []


async def test_unknown_messages_and_jobs_of_kinds_it_does_not_serve_leave_a_worker_alone(idle: Idle) -> None:
    await idle.notify(wake=[["unheard_of", 0, 0, 0]])
    await idle.notify(wake=[["elsewhere", 0, 0, 0]])
    for payload in (
        "",
        "[]",
        "null",
        "{}",
        "no JSON",
        '{"tomorrow":[1]}',
        '{"wake":7}',
        '{"cancel":["x"]}',
        "[" * 7000,
    ):
        await idle.notify_text(payload)
    assert await idle.sent() == []


@pytest.mark.parametrize("message", [{"lanes": 1}, {"schedules": 1}, {"drain": 1}], ids=str)
async def test_what_may_concern_every_worker_makes_it_beat_at_once(idle: Idle, message: dict[str, object]) -> None:
    """With a drain that names no worker, as the release before sends it."""
    await idle.notify(**message)
    assert "beat" in await idle.sent(until="beat")


async def test_a_cancel_of_its_own_job_makes_a_worker_beat_at_once(idle: Idle) -> None:
    handle = await idle.app.tasks["sit"].enqueue()

    async def running() -> bool:
        return (await idle.app.jobs.get(handle.id)).state == "running"

    await eventually(running)
    await idle.app.jobs.cancel(handle.id)
    assert (await idle.app.jobs.wait(handle.id, timeout=10)).state == "cancelled"


async def test_its_own_drain_makes_a_worker_beat_at_once(idle: Idle) -> None:
    await idle.app.workers.drain(idle.worker.id)
    await asyncio.wait_for(idle.worker.stopped.wait(), 10)

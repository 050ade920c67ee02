from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.own_server import OwnServer
from tests.torture.conftest import staged
from tests.waiting import busy_for, eventually, nothing_happens_for, promptly

from rowlock.errors import RowlockError
from rowlock.model.state import State
from rowlock.store import embedded
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.torture.conftest import Scene

BACKENDS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE $1
"""
LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"


@dataclass
class Traffic:
    """Enqueues one job after the other and remembers the acknowledged ones."""

    scene: Scene
    acknowledged: list[int] = field(default_factory=list)
    refused: int = 0

    async def run(self) -> None:
        kinds = [self.scene.app.task("work"), self.scene.app.task("gated")]
        while True:
            try:
                handle = await kinds[len(self.acknowledged) % 2].enqueue(seconds=0.01)
            except (RowlockError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                self.refused += 1
                await busy_for(0.05)
            else:
                self.acknowledged.append(handle.id)
                await busy_for(0.01)

    async def more(self, n: int) -> None:
        """Wait for n more acknowledged jobs."""
        goal = len(self.acknowledged) + n

        async def there() -> bool:
            return len(self.acknowledged) >= goal

        await eventually(there)


async def latency(scene: Scene) -> float:
    began = time.monotonic()
    handle = await scene.app.task("work").enqueue()
    await scene.noted(handle.id, "start")
    return time.monotonic() - began


async def woken(scene: Scene, workers: int) -> None:
    """Wake-ups work: every worker listens, and a job starts sooner than an idle worker polls."""

    async def listening() -> bool:
        return bool(await scene.value(LISTENING, "rowlock:listen") >= workers)

    await eventually(listening)
    await promptly(lambda: latency(scene), under=1.0)


@pytest.fixture
async def own_scene(tmp_path: Path) -> AsyncIterator[tuple[Scene, OwnServer]]:
    """A scene on a server of its own."""
    with embedded.start(tmp_path / "postgres", settings={"fsync": "off"}) as held:
        await migrate.upgrade(held.url, "rowlock")
        server = OwnServer(held)
        async with staged(held.url, tmp_path) as scene:
            try:
                yield scene, server
            finally:
                server.start()


async def test_everything_acknowledged_survives_a_server_that_stops_at_once(
    own_scene: tuple[Scene, OwnServer],
) -> None:
    scene, server = own_scene
    scene.start()
    scene.start()
    traffic = Traffic(scene)
    running = asyncio.create_task(traffic.run())
    for away in (0.0, 2.0):
        await traffic.more(60)
        await server.stop()
        await nothing_happens_for(away)
        server.start()
        await traffic.more(1)
        handle = await scene.app.task("work").enqueue()
        await scene.noted(handle.id, "end")
    await traffic.more(60)
    running.cancel()
    assert all(process.popen.poll() is None for process in scene.processes)
    await scene.quiet()
    await woken(scene, 2)
    jobs = await scene.app.jobs.many(traffic.acknowledged)
    assert len(jobs) == len(traffic.acknowledged)
    assert {job.state for job in jobs} == {State.COMPLETED}
    assert traffic.refused > 0


async def test_a_worker_can_be_stopped_while_the_server_is_away(own_scene: tuple[Scene, OwnServer]) -> None:
    scene, server = own_scene
    worker = scene.start(shutdown_after=0.5)
    handle = await scene.app.task("work").enqueue(seconds=2)
    await scene.noted(handle.id, "start")
    await server.stop()
    worker.signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.end) == 0
    server.start()
    scene.start()
    await scene.quiet()
    history = await scene.app.jobs.history(handle.id)
    assert (history.job.state, history.job.attempt) == (State.COMPLETED, 1)
    assert [attempt.outcome for attempt in history.attempts] == ["lost"]


async def test_a_worker_whose_listening_backend_was_killed_hears_again(scene: Scene) -> None:
    worker = scene.start()
    await woken(scene, 1)
    assert await scene.fetch(BACKENDS, "rowlock:listen")

    async def noticed() -> bool:
        return "lost the LISTEN connection" in worker.said

    await eventually(noticed)
    await woken(scene, 1)
    await scene.quiet()


async def test_a_worker_outlives_the_death_of_all_its_backends(scene: Scene) -> None:
    worker = scene.start()
    traffic = Traffic(scene)
    running = asyncio.create_task(traffic.run())
    for _ in range(10):
        await traffic.more(10)
        await scene.fetch(BACKENDS, "rowlock:%")
    running.cancel()
    await scene.quiet()
    await woken(scene, 1)
    assert worker.popen.poll() is None
    jobs = await scene.app.jobs.many(traffic.acknowledged)
    assert {job.state for job in jobs} == {State.COMPLETED}
    connections = await scene.value(LISTENING.replace("= $1", "LIKE $1"), "rowlock:%")
    assert connections <= 4 + 4 + 4  # claim, finish, beat, listen; the worker's pool and the test's, of four each

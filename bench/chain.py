"""python -m bench.chain: from the end of one step's handler to the start of the next one's.

Three ways to do one thing after another: a chain whose next step is claimed by its id in the same process, the same
chain in a strict lane, whose steps go back through the queue, and a handler that enqueues the next job by itself. Each
is measured on an idle worker, and while other jobs of its lane are queued.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.results import percentile
from rowlock import Lane, Rowlock, Settings, chain
from rowlock.store import embedded
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from rowlock import Task

WARM: Final = 10
"""Rounds that do not count."""
OTHERS: Final = 500
"""Jobs in the lane beside one chain, of 10 ms each, in 10 slots."""


class Scene:
    """An application whose kinds note when they begin and end."""

    def __init__(self, settings: Settings) -> None:
        lanes = (Lane("default", kinds=("*",)), Lane("queue", kinds=("queued", "nap_queued"), order="strict"))
        self.app = Rowlock(settings=replace(settings, lanes=lanes))
        self.gaps: list[float] = []
        self._ended = 0.0
        self.over = asyncio.Event()

        @self.app.job("by_id")
        async def by_id(run: int, step: int) -> None:
            self._passed(run, step)

        @self.app.job("queued")
        async def queued(run: int, step: int) -> None:
            self._passed(run, step)

        @self.app.job("itself")
        async def itself(run: int, step: int) -> None:
            self._passed(run, step)
            if step == 1:
                await itself.enqueue(run, step + 1)

        @self.app.job("nap")
        async def nap() -> None:
            await asyncio.sleep(0.01)

        @self.app.job("nap_queued")
        async def nap_queued() -> None:
            await asyncio.sleep(0.01)

        self._by_id, self._queued, self._itself = by_id, queued, itself
        self._naps = nap, nap_queued

    def _passed(self, run: int, step: int) -> None:
        now = time.perf_counter()
        if step == 1:
            self._ended = time.perf_counter()
            return
        if run >= WARM:
            self.gaps.append(now - self._ended)
        self.over.set()

    def ways(self) -> dict[str, Callable[[int], Awaitable[object]]]:
        """What starts one round of each."""
        return {
            "chain, next step claimed by its id": lambda run: self._chained(self._by_id, run),
            "chain, next step through the queue": lambda run: self._chained(self._queued, run),
            "handler enqueues the next job": lambda run: self._itself.options(priority=1).enqueue(run, 1),
        }

    async def fill(self) -> None:
        """Give both lanes something else to do."""
        for nap in self._naps:
            await nap.enqueue_many([{}] * OTHERS)

    async def _chained(self, task: Task[[int, int], None], run: int) -> object:
        first = task.options(priority=1).step(run, 1)  # it alone overtakes what is queued
        return await chain(first, task.step(run, 2)).enqueue()


async def measure(settings: Settings, rounds: int) -> dict[str, list[float]]:
    """Seconds between two handlers, by way; one chain at a time on one worker."""
    await migrate.upgrade(str(settings.database_url), settings.schema)
    found = {}
    scene = Scene(settings)
    async with scene.app, scene.app.worker():
        for busy in (False, True):
            for name, start in scene.ways().items():
                scene.gaps = []
                for run in range(WARM + (max(1, rounds // 20) if busy else rounds)):
                    scene.over.clear()
                    if busy and run >= WARM:
                        await scene.fill()
                    await start(run)
                    await asyncio.wait_for(scene.over.wait(), 60)
                    await _empty(scene.app)
                found[f"{name}{f', {OTHERS} others queued' if busy else ''}"] = scene.gaps
    return found


async def _empty(app: Rowlock) -> None:
    while await app.jobs.list(states=["queued", "running"], limit=1):  # noqa: ASYNC110 - it is the database that knows
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory() as folder, embedded.start(Path(folder)) as held:
        yield held.url


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m bench.chain", description=(__doc__ or "").partition("\n\n")[2])
    options.add_argument("--rounds", type=int, default=300, help="pairs of each way; a twentieth of them beside others")
    options.add_argument(
        "--database-url", default=os.environ.get("ROWLOCK_DATABASE_URL"), help="default: a server of its own"
    )
    asked = options.parse_args()
    with _server(asked.database_url) as url:
        settings = Settings(database_url=url, schema="rowlock_bench_chain")
        try:
            found = asyncio.run(measure(settings, asked.rounds))
        finally:
            asyncio.run(migrate.downgrade(url, settings.schema, to=0))
    sys.stdout.write("| between two steps, ms | p50 | p95 | p99 |\n|---|---|---|---|\n")
    for name, gaps in found.items():
        told = " | ".join(f"{1000 * percentile(gaps, share):.1f}" for share in (0.5, 0.95, 0.99))
        sys.stdout.write(f"| {name} | {told} |\n")


if __name__ == "__main__":
    main()

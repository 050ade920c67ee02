"""A thousand jobs over two hundred streams while the API is restarted: every transition once, and in order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.api.routes.streaming import EventSource, Serving
from tests.host_processes import free_port
from tests.waiting import busy_for, eventually

from rowlock import Context, Retry, Rowlock
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(240)
JOBS, STREAMS = 1000, 200
PLAIN = ["job.created", "job.claimed", "job.completed", "end"]
RETRIED = ["job.created", "job.claimed", "job.retrying", "job.claimed", "job.completed", "end"]


async def _enough(ended: list[str], n: int) -> bool:
    return len(ended) >= n


async def test_every_transition_is_seen_once_and_in_order(database_url: str) -> None:
    app = Rowlock(database_url, settings=Settings())

    @app.job("work", retry=Retry(attempts=3, minimum="0s", jitter="0s"))
    async def work(ctx: Context, n: int) -> None:
        await busy_for(n % 10 / 100)
        if n % 5 == 0 and ctx.job.attempt == 1:
            raise ConnectionError

    jobs = await work.enqueue_many([{"n": n} for n in range(JOBS)])
    seen: dict[str, list[str]] = {job.public_id: [] for job in jobs}
    ended: list[str] = []
    opened = 0

    async def follow(mine: Iterator[str]) -> None:
        nonlocal opened
        # A client for each stream: one pool of 200 connections would look at all of them for every request.
        async with httpx.AsyncClient(verify=verify, timeout=30) as client:
            for job_id in mine:
                source = EventSource(client, f"{serving.base}/jobs/{job_id}/stream", "0")
                async with contextlib.aclosing(source.frames()) as frames:
                    async for frame in frames:
                        seen[job_id].append(frame.event)
                        if frame.event == "end":
                            break
                opened += source.opened
                ended.append(job_id)

    verify, queue = ssl.create_default_context(), iter(list(seen))
    async with Serving(database_url, free_port()) as serving, asyncio.timeout(200):
        following = [asyncio.ensure_future(follow(queue)) for _ in range(STREAMS)]
        ends = []
        async with app.worker({"default": 20}):
            for n, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
                await eventually(functools.partial(_enough, ended, 1 + n * JOBS // 4))
                ends.append(await serving.end(how))
                await serving.start()
            await asyncio.gather(*following)
    wrong = {
        job.public_id: seen[job.public_id]
        for n, job in enumerate(jobs)
        if seen[job.public_id] != (RETRIED if n % 5 == 0 else PLAIN)
    }
    assert wrong == {}
    assert opened > JOBS, "no stream was broken"
    # Open streams hold nothing up: the server leaves before it would give up on them.
    assert ends == [0, -signal.SIGKILL, 0]
    await app.close()

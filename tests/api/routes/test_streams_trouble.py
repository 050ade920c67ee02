"""Streams in trouble: another process answers, clients read slowly, the database goes away."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.api.routes.streaming import EventSource, Serving
from tests.factories import opened
from tests.host_processes import free_port
from tests.own_server import OwnServer
from tests.waiting import PATIENCE, busy_for, eventually

from rowlock.errors import RowlockError
from rowlock.model import ids
from rowlock.store import embedded
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from tests.factories import Store

pytestmark = pytest.mark.timeout(120)
LINES, LONG, STUCK = 10_000, 2_000, 12
GROWTH = 80_000
"""Kilobytes that a server may grow by; what it has to tell is three times as much."""


async def changes(source: EventSource, *wanted: tuple[str, int]) -> list[tuple[str, int]]:
    """Read a feed until all of these were told."""
    told: list[tuple[str, int]] = []
    async with asyncio.timeout(30), contextlib.aclosing(source.frames()) as frames:
        async for frame in frames:
            assert frame.event == "jobs", frame
            told += [(one["event"].removeprefix("job."), ids.decode(one["id"])) for one in frame.data["changes"]]
            if set(wanted) <= set(told):
                break
    return told


async def test_a_feed_goes_on_in_another_process(database_url: str) -> None:
    """All that can happen, while no process is there to look; each is told once."""
    port = free_port()
    async with opened(database_url) as store, httpx.AsyncClient(timeout=30) as client:
        worker = await store.worker()
        done, back, held, late = [await store.enqueue() for _ in range(4)]
        (claim, tried) = await store.claim(worker, done, back)
        await store.execute("UPDATE {s}.jobs SET created_at = created_at - interval '1 hour'")
        source = EventSource(client, f"http://127.0.0.1:{port}/api/v1/events")
        async with Serving(database_url, port) as serving:
            listening = asyncio.ensure_future(changes(source, ("claimed", late)))
            await eventually(functools.partial(_begun, source))
            await store.claim(worker, late)
            assert await listening == [("claimed", late)]
            await serving.end(signal.SIGKILL)
            await store.complete(claim)
            await store.give_back(tried, delay=3600)
            await store.cancel_waiting(held)
            made = await store.enqueue()
            await serving.start()
            expected = [("completed", done), ("queued", back), ("cancelled", held), ("created", made)]
            assert sorted(await changes(source, *expected)) == sorted(expected)
            last = await store.enqueue()
            assert await changes(source, ("created", last)) == [("created", last)]


async def _opened(source: EventSource, times: int) -> bool:
    return source.opened >= times


async def _begun(source: EventSource) -> bool:
    return bool(source.last_id)


async def logged(store: Store) -> int:
    """A job that ended with a log of twenty megabytes."""
    job_id = await store.enqueue()
    (claim,) = await store.claim(await store.worker(), job_id)
    await store.report(claim)
    await store.execute(
        "INSERT INTO {s}.job_logs SELECT $1, $2::bigint * 4294967296 + n, now(), 20, 'shop', repeat('x', $3) "
        "FROM generate_series(1, $4::integer) n",
        *(job_id, claim.fence, LONG, LINES),
    )
    await store.complete(claim)
    return job_id


async def slow_reader(port: int, path: str) -> socket.socket:
    """Asks, and reads nothing."""
    asking = socket.socket()
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asking.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(asking, ("127.0.0.1", port))
    await loop.sock_sendall(asking, f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    return asking


async def read_on(asking: socket.socket) -> list[int]:
    """The numbers of all lines until the end."""
    loop, parts = asyncio.get_running_loop(), list[bytes]()
    with asking:
        while part := await loop.sock_recv(asking, 1 << 20):
            parts.append(part)
    text = b"".join(parts)
    assert b"event: end\n" in text
    return [int(found) for found in re.findall(rb'"n":"(\d+)"', text)]


def kilobytes(process: asyncio.subprocess.Process | None) -> int:
    assert process is not None
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


async def test_clients_that_read_slowly_cost_little_and_miss_nothing(database_url: str) -> None:
    async with opened(database_url) as store, Serving(database_url, free_port()) as serving, asyncio.timeout(90):
        path = f"/api/v1/jobs/{ids.encode(await logged(store))}/stream?last_event_id=0"
        assert len(await read_on(await slow_reader(serving.port, path))) == LINES
        before = kilobytes(serving.process)
        stuck = [await slow_reader(serving.port, path) for _ in range(STUCK)]
        # Whoever reads everything meanwhile gave the server time enough for the others.
        assert len(await read_on(await slow_reader(serving.port, path))) == LINES
        assert kilobytes(serving.process) - before < GROWTH
        lines = await read_on(stuck.pop())
        assert lines == [2**32 + n for n in range(1, LINES + 1)]
        for asking in stuck:
            asking.close()


async def test_streams_stay_open_while_the_database_is_away(tmp_path: Path) -> None:
    """Stopped without a farewell, and started again: what happened before and after is told without a gap."""
    with embedded.start(tmp_path / "postgres", settings={"fsync": "off"}) as held, contextlib.ExitStack() as after:
        await migrate.upgrade(held.url, "rowlock")
        server = OwnServer(held)
        after.callback(server.start)  # whatever fails: a keeper that is held would outlive the test
        async with Serving(held.url, free_port()) as serving, httpx.AsyncClient(timeout=60) as client:
            async with opened(held.url) as store:
                job_ids = [await store.enqueue() for _ in range(5)]
                early = (await store.claim(await store.worker(), job_ids[0]))[0]
            paths = [f"{serving.base}/jobs/{ids.encode(job_id)}/stream" for job_id in job_ids]
            sources = [EventSource(client, path, "0") for path in paths]
            following = [asyncio.ensure_future(names(source)) for source in sources]
            feed = EventSource(client, f"{serving.base}/events")
            ends = [("completed", job_id) for job_id in job_ids]
            listening = asyncio.ensure_future(changes(feed, *ends))
            for source in (*sources, feed):
                await eventually(functools.partial(_begun, source))
            await server.stop()
            assert await eventually(lambda: _refused(client, paths[0])) == "unavailable"
            # Whoever opens one now is told so inside a stream: after another status a browser stays away for ever.
            late = EventSource(client, paths[1], "0")
            latecomer = asyncio.ensure_future(names(late))
            await eventually(functools.partial(_opened, late, 2))
            assert not any(one.done() for one in (*following, listening, latecomer))
            server.start()
            async with contextlib.AsyncExitStack() as stack:
                store = await _store(stack, held.url)
                claims = await store.claim(await store.worker("w2"), *job_ids[1:])
                await store.complete(early)
                await store.complete(*claims)
                async with asyncio.timeout(30):
                    lived = ["created", "claimed", "completed", "end"]
                    assert await asyncio.gather(*following) == [lived] * len(job_ids)
                    told = await listening
                    assert [name for name in await latecomer if name != "unavailable"] == lived
            assert 2000 <= late.retry <= 6000
            assert [told.count(end) for end in ends] == [1] * len(ends)
            assert [source.opened for source in (*sources, feed)] == [1] * (len(sources) + 1)


async def names(source: EventSource) -> list[str]:
    return [frame.event.removeprefix("job.") async for frame in source.frames()]


async def _refused(client: httpx.AsyncClient, url: str) -> str:
    """The code that a new stream is refused with; empty: it is not."""
    async with client.stream("GET", url) as response:
        return "" if response.is_success else json.loads(await response.aread())["code"]


async def _store(stack: contextlib.AsyncExitStack, url: str) -> Store:
    """As soon as the server is back."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(RowlockError, OSError):
                return await stack.enter_async_context(opened(url))
            await busy_for(0.05)

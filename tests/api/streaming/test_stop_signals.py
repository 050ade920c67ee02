"""Streams inside a host's server end when that server is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from tests.host_processes import served
from tests.waiting import eventually

from rowlock.api.streaming.stop_signals import StopSignals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

HOST = """
from fastapi import FastAPI

from rowlock import Rowlock
from rowlock.api import RowlockAPI

app = Rowlock()


@app.job
async def greet(name: str) -> str:
    return name


api = RowlockAPI(app)
host = FastAPI(lifespan=app.lifespan)
host.mount("/ops", api.asgi)
"""


async def lines_of(client: httpx.AsyncClient, path: str, seen: list[str]) -> None:
    async with client.stream("GET", path) as answer:
        async for line in answer.aiter_lines():
            seen.append(line)  # noqa: PERF401 - the test looks meanwhile


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "command",
    [
        ("uvicorn", "hosted:host", "--port", "{port}"),
        ("gunicorn", "hosted:host", "-k", "uvicorn.workers.UvicornWorker", "-b", "127.0.0.1:{port}"),
    ],
)
async def test_a_host_with_open_streams_stops_at_once(
    command: tuple[str, ...], database_url: str, tmp_path: Path
) -> None:
    hosted = served(tmp_path, HOST, *command, database_url=database_url, alive="/ops/healthz")
    async with hosted as host, host.client() as client:
        made = await client.post("/ops/api/v1/jobs", json={"kind": "greet", "args": {"name": "x"}, "run_in": "1h"})
        assert made.status_code == 202, made.text
        seen: list[list[str]] = [[], []]
        paths = ("/ops/api/v1/events", f"{made.headers['location']}/stream")
        readers = [asyncio.create_task(lines_of(client, *each)) for each in zip(paths, seen, strict=True)]

        async def both_began() -> bool:
            return all(seen)

        await eventually(both_began)
        # A stream lasts 55 s unless it is ended; uvicorn alone would wait for that long.
        assert await asyncio.to_thread(host.stop) < 20
        await asyncio.gather(*readers)
    assert "Traceback" not in host.told()


@contextlib.contextmanager
def handler_of(number: signal.Signals, handler: object) -> Iterator[None]:
    before = signal.getsignal(number)
    signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() takes
    try:
        yield
    finally:
        signal.signal(number, before)


class Streams:
    """What an API does when it hears a signal."""

    def __init__(self, heard: list[str] | None = None) -> None:
        self._heard = [] if heard is None else heard

    def close(self) -> None:
        self._heard.append("streams")


def test_the_handler_of_the_server_is_called_after_ours_and_comes_back() -> None:
    heard: list[str] = []
    streams = Streams(heard)

    def server(_number: int, _frame: object) -> None:
        heard.append("server")

    with handler_of(signal.SIGTERM, server):
        ours = StopSignals(streams.close)
        assert ours.watch()
        assert ours.watch()
        signal.raise_signal(signal.SIGTERM)
        assert heard == ["streams", "server"]
        ours.leave()
        assert signal.getsignal(signal.SIGTERM) is server


def test_a_handler_that_stepped_before_ours_stays() -> None:
    streams = Streams()
    with handler_of(signal.SIGTERM, lambda *_: None):
        ours = StopSignals(streams.close)
        ours.watch()

        def later(_number: int, _frame: object) -> None: ...

        signal.signal(signal.SIGTERM, later)
        ours.leave()
        assert signal.getsignal(signal.SIGTERM) is later


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_process_without_a_handler_keeps_its_default(handler: object) -> None:
    streams = Streams()
    with handler_of(signal.SIGTERM, handler):
        StopSignals(streams.close).watch()
        assert signal.getsignal(signal.SIGTERM) == handler


def test_another_thread_changes_nothing() -> None:
    def server(_number: int, _frame: object) -> None: ...

    streams, answers = Streams(), list[bool]()
    with handler_of(signal.SIGTERM, server):
        thread = threading.Thread(target=lambda: answers.append(StopSignals(streams.close).watch()))
        thread.start()
        thread.join()
        assert (answers, signal.getsignal(signal.SIGTERM)) == ([False], server)


def test_the_handler_of_an_api_that_is_gone_is_left_out() -> None:
    """A program that makes one API after the other, such as a test run, has no chain that grows."""
    heard: list[str] = []

    def server(_number: int, _frame: object) -> None:
        heard.append("server")

    with handler_of(signal.SIGTERM, server):
        for _ in range(3):
            StopSignals(Streams().close).watch()
        streams = Streams(heard)
        ours = StopSignals(streams.close)
        ours.watch()
        signal.raise_signal(signal.SIGTERM)
        assert heard == ["streams", "server"]
        ours.leave()
        assert signal.getsignal(signal.SIGTERM) is server


async def test_what_python_does_at_ctrl_c_stays() -> None:
    streams, before = Streams(), signal.getsignal(signal.SIGINT)
    StopSignals(streams.close).watch()
    assert signal.getsignal(signal.SIGINT) is before

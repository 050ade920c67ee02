"""Connections of a real server: half-sent requests, silent and greedy clients, and that others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.api.conftest import declare, with_token
from tests.waiting import PATIENCE, eventually, in_time, until

from rowlock import Rowlock
from rowlock.api.server import BackgroundServer
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SOON, NEVER = timedelta(milliseconds=300), timedelta(hours=1)
PATIENT: dict[str, Any] = {
    "serve_header_timeout": NEVER,
    "serve_body_timeout": NEVER,
    "serve_idle_timeout": NEVER,
    "serve_send_timeout": NEVER,
}


class Served:
    """A server in this process, and raw connections to it."""

    def __init__(self, server: BackgroundServer, address: tuple[str, int]) -> None:
        self.server, self._address = server, address
        self.headers = "Host: localhost\r\n" + "".join(f"{k}: {v}\r\n" for k, v in with_token(server.api).items())
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._address)
        self._writers.append(writer)
        return reader, writer

    def close(self) -> None:
        """Close what a failed test left open, lest the next test hears of it."""
        for writer in self._writers:
            writer.close()

    async def send(self, text: str | bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(text.encode() if isinstance(text, str) else text)
        await writer.drain()
        return reader, writer

    async def answer_to(self, text: str | bytes) -> bytes:
        """Everything that comes until the server closes the connection."""
        reader, writer = await self.send(text)
        try:
            return await in_time(reader.read())
        finally:
            writer.close()

    async def is_answering(self) -> bool:
        reader, writer = await self.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        try:
            return (await in_time(reader.read())).startswith(b"HTTP/1.1 200")
        finally:
            writer.close()

    @property
    def open(self) -> int:
        return len(self.server.server_state.connections)


@contextlib.asynccontextmanager
async def serving(database_url: str, **limits: Any) -> AsyncIterator[Served]:  # noqa: ANN401 - Settings'
    app = declare(Rowlock(database_url, settings=Settings(database_url, **(PATIENT | limits))))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = BackgroundServer(app, listening)
        async with server.serving():
            await until(lambda: server.started)
            with contextlib.closing(Served(server, listening.getsockname())) as served:
                yield served
    await app.close()


def problem(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower(), answer
    assert b"connection: close" in head.lower()
    told: dict[str, Any] = json.loads(body)
    assert f" {told['status']} ".encode() in head.splitlines()[0]
    return told


async def test_a_silent_connection_is_closed(database_url: str) -> None:
    async with serving(database_url, serve_header_timeout=SOON) as served:
        assert await served.answer_to("") == b""
        await until(lambda: served.open == 0)


async def test_half_a_header_is_answered_and_closed_however_slowly_it_grows(database_url: str) -> None:
    async with serving(database_url, serve_header_timeout=SOON) as served:
        told = problem(await served.answer_to("GET /healthz HTTP/1.1\r\nHost: loc"))
        assert (told["status"], told["code"]) == (408, "too-slow-request")
        reader, writer = await served.send("GET /healthz HTTP/1.1\r\nX-Slow: ")
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof() and not reader._buffer:  # type: ignore[attr-defined]  # whether an answer came
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        await until(lambda: served.open == 0)
        writer.close()


async def test_half_a_body_is_answered_and_closed(database_url: str) -> None:
    async with serving(database_url, serve_body_timeout=SOON) as served:
        for framing in ("Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"):
            head = f"POST /api/v1/jobs HTTP/1.1\r\n{served.headers}Content-Type: application/json\r\n"
            told = problem(await served.answer_to(head + framing))
            assert (told["status"], told["code"]) == (408, "too-slow-request"), told
        # A route that reads no body has answered before, and closes too.
        answer = await served.answer_to("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
        assert answer.startswith(b"HTTP/1.1 200")
        await until(lambda: served.open == 0)


async def test_a_second_request_has_no_more_time_than_the_first(database_url: str) -> None:
    first = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    half_a_body = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
    async with serving(database_url, serve_header_timeout=SOON, serve_body_timeout=SOON) as served:
        for rest in ("GET /healthz HTTP/1.1\r\nHo", half_a_body):
            answer = await served.answer_to(first + rest)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            await until(lambda: served.open == 0)


async def test_an_idle_connection_is_closed(database_url: str) -> None:
    async with serving(database_url, serve_idle_timeout=SOON) as served:
        answer = await served.answer_to("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")


async def test_a_client_that_never_reads_is_disconnected(database_url: str) -> None:
    async with serving(database_url, serve_send_timeout=SOON) as served:
        _, writer = await served.connect()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket
        request = f"GET /api/v1/openapi.json HTTP/1.1\r\n{served.headers}\r\n".encode()
        for _ in range(200):
            writer.write(request)
        await until(lambda: served.open == 0)
        writer.close()


async def test_a_slow_but_steady_client_is_served(database_url: str) -> None:
    async with serving(database_url) as served:
        body = json.dumps({"kind": "greet", "args": {"name": "Ada"}})
        text = f"POST /api/v1/jobs HTTP/1.1\r\n{served.headers}Connection: close\r\nContent-Type: application/json\r\n"
        text += f"Content-Length: {len(body)}\r\n\r\n{body}"
        reader, writer = await served.connect()
        for each in text.encode():
            writer.write(bytes([each]))
            await writer.drain()
        assert (await in_time(reader.read())).startswith(b"HTTP/1.1 202")
        writer.close()


async def test_no_more_connections_than_the_limit(database_url: str) -> None:
    async with serving(database_url, serve_connections=5) as served:
        greedy = [await served.send("GET / HTTP/1.1\r\n") for _ in range(5)]
        await until(lambda: served.open == 5)
        told = problem(await served.answer_to("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert (told["status"], told["code"]) == (503, "too-many-connections")
        for _, writer in greedy[:2]:
            writer.close()
        await eventually(served.is_answering)
        for _, writer in greedy[2:]:
            writer.close()


async def test_one_address_leaves_connections_to_others(database_url: str) -> None:
    async with serving(database_url, serve_connections_per_address=3) as served:
        greedy = [await served.send("GET / HTTP/1.1\r\n") for _ in range(3)]
        await until(lambda: served.open == 3)
        refused = await served.answer_to("")
        assert b"Retry-After: 5" in refused
        assert "for one address" in problem(refused)["detail"]
        for _, writer in greedy:
            writer.close()
        await eventually(served.is_answering)
    proxied = {"serve_connections_per_address": 1, "trusted_proxies": ("127.0.0.1",)}
    async with serving(database_url, **proxied) as served:
        many = [await served.connect() for _ in range(5)]
        assert await served.is_answering()
        for _, writer in many:
            writer.close()


@pytest.mark.timeout(240)
async def test_a_flood_of_half_requests_delays_nobody_for_long(database_url: str) -> None:
    async with serving(database_url, serve_header_timeout=SOON, serve_body_timeout=SOON) as served:
        half_a_body = f"POST /api/v1/jobs HTTP/1.1\r\n{served.headers}Content-Length: 9\r\n\r\n{{"
        halves = ("", "GET / HTTP/1.1\r\nX", half_a_body)
        flood = [await served.send(halves[n % 3]) for n in range(140)]
        await eventually(served.is_answering)
        await until(lambda: served.open == 0)
        for _, writer in flood:
            writer.close()


@pytest.mark.timeout(240)
async def test_one_caller_opens_no_more_streams_than_its_share(database_url: str) -> None:
    async with serving(database_url, serve_streams_per_caller=20, serve_streams=30) as served:
        request = f"GET /api/v1/events HTTP/1.1\r\n{served.headers}\r\n"
        tried = [await served.send(request) for _ in range(200)]
        answers = [await in_time(reader.readuntil(b"\r\n")) for reader, _ in tried]
        assert sorted({answer.split()[1] for answer in answers}) == [b"200", b"429"]
        assert sum(answer.split()[1] == b"200" for answer in answers) == 20
        url = f"http://localhost:{served._address[1]}/api/v1"
        async with httpx.AsyncClient(timeout=PATIENCE, base_url=url, headers=with_token(served.server.api)) as client:
            refused = await client.get("/events")
            assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
            assert refused.headers["retry-after"] == "5"
            assert (await client.get("/jobs")).status_code == 200  # everything but streams goes on
        for _, writer in tried:
            writer.close()
        await until(lambda: served.server.api.stream_limits.open == 0)
        reader, writer = await served.send(request)
        assert (await in_time(reader.readuntil(b"\r\n"))).split()[1] == b"200"
        writer.close()

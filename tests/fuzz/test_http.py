"""Raw bytes for a real server without authentication: strange hosts, proxies, framing and lines; none gets further."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.profile import PATIENCE, tried
from tests.waiting import until

from rowlock.api.server import BackgroundServer
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fuzz.conftest import Bench

TOKEN: Final = "a-token-that-only-we-have"  # noqa: S105 - of this test
OURS: Final = f"Authorization: Bearer {TOKEN}".encode()
STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ")
SOON: Final = timedelta(milliseconds=300)

NAMES: Final = st.sampled_from([b"localhost", b"127.0.0.1:8000", b"[::1]:1", b"LOCALHOST.", b"a.localhost"])
FOREIGN: Final = st.sampled_from(
    [
        *(b"a%sb.evil.example" % bytes([mark]) for mark in b'{}`"\\^|[\xfc@%'),
        b"", b" ", b"evil.example", b"user@localhost", b"localhost:x", b"localhost:99999", b"localhost,evil.example",
        b"localhost evil.example", b"localhost.evil.example", b"0.0.0.0", b"127.1", b"[::1", b"[::1%25lo]", b"0", b"*",
    ]
) | st.binary(max_size=8).filter(lambda text: b"\n" not in text and b"\r" not in text)  # fmt: skip
PROXIED: Final = st.sampled_from(
    [
        b"Forwarded",
        b"Via",
        b"X-Forwarded-For",
        b"X-Forwarded-Host",
        b"x-real-ip",
        b"CF-Connecting-IP",
        b"True-Client-IP",
    ]
).map(lambda name: name + b": 192.0.2.7")
OTHER: Final = st.sampled_from(
    [
        b"Origin: http://evil.example", b"Origin: null", b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Site: same-origin",
        b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 5, 5",
        b"Content-Length: x",
        b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: identity", b"Expect: 100-continue", b"Expect: anything", b"Upgrade: websocket",
        b"Connection: upgrade", b"Connection: keep-alive", b"Content-Type: application/json", b"Cookie: ;;=;\xff",
        b"Cookie: rowlock_local_80=x", b"X-Request-Id: \x1b[31m", b"X: " + b"y" * 40_000, b" folded: line", b"no colon",
        b"\x00: nul", b": empty", b"Authorization: Bearer wrong", b"Authorization: Bearer", b"Authorization: \xff",
        b"Last-Event-ID: \xff", b"Accept: text/event-stream", b"If-None-Match: *",
    ]
)  # fmt: skip
TARGETS: Final = st.sampled_from(
    [
        b"/api/v1/kinds", b"/api/v1/kinds?x=%ff", b"/api/v1/auth/local?token=x", b"/api/v1/jobs", b"/healthz", b"/",
        b"*",
        b"http://localhost/api/v1/kinds", b"http://evil.example/api/v1/kinds", b"//evil.example/api/v1/kinds", b"",
        b"/%2e%2e/%00", b"/\xff", b"localhost:443", b"/api/v1/kinds#x", b"/api/v1//kinds", b"/api/v1/kinds HTTP/1.1 x",
    ]
)  # fmt: skip
METHODS: Final = st.sampled_from(
    [b"GET", b"GET", b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"CONNECT", b"get", b"\0"]
)
VERSIONS: Final = st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""])
BODIES: Final = st.sampled_from(
    [b"", b"{}", b"5\r\nhello\r\n0\r\n\r\n", b"fffffffff\r\n", b"-1\r\n", b"0\r\nX: y\r\n\r\n"]
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bool]:
    """Raw bytes, and whether they may be served: one local host, our token, and no trace of a proxy."""
    host_lines = draw(st.lists(NAMES | FOREIGN, max_size=2))
    proxied = draw(st.lists(PROXIED, max_size=1))
    with_token = draw(st.booleans())
    local = {b"localhost", b"127.0.0.1:8000", b"[::1]:1", b"LOCALHOST.", b"a.localhost"}
    lines = [
        *(b"Host: " + host for host in host_lines),
        *proxied,
        *([OURS] if with_token else []),
        *draw(st.lists(OTHER, max_size=3)),
    ]
    lines = [*draw(st.permutations(lines)), b"Connection: close"]
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"]))
    first = b" ".join([draw(METHODS), draw(TARGETS), draw(VERSIONS)])
    raw = end.join([first, *lines, b"", draw(BODIES)])
    return raw, len(host_lines) == 1 and host_lines[0].strip() in local and not proxied and with_token


def is_protected(raw: bytes) -> bool:
    target = raw.split(b" ")[1:2]
    return bool(target) and b"/api/v1" in target[0] and b"/api/v1/auth" not in target[0]


async def answer_to(address: tuple[str, int], raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(raw)
            async with asyncio.timeout(60):
                return await reader.read()
        return b""
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def serving(bench: Bench, failures: list[Any]) -> AsyncIterator[tuple[str, int]]:
    bench.app.settings = Settings(
        bench.url, serve_header_timeout=SOON, serve_body_timeout=SOON, serve_idle_timeout=SOON, serve_token=TOKEN
    )
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = BackgroundServer(bench.app, listening)
        async with server.serving():
            await until(lambda: server.started)
            yield listening.getsockname()


@pytest.mark.timeout(PATIENCE and 3 * PATIENCE)
def test_no_bytes_reach_a_route_without_the_host_and_the_token(bench: Bench) -> None:
    failures: list[Any] = []
    stack = contextlib.AsyncExitStack()
    address = bench.run(stack.enter_async_context(serving(bench, failures)))
    served = [0]

    @tried(150)
    @given(requests())
    @example((b"GET /api/v1/kinds HTTP/1.1\r\nHost: localhost\r\n" + OURS + b"\r\nConnection: close\r\n\r\n", True))
    @example((b"GET /api/v1/kinds HTTP/1.1\r\n" + OURS + b"\r\nConnection: close\r\n\r\n", False))
    @example((b"GET /api/v1/kinds HTTP/1.0\r\n" + OURS + b"\r\n\r\n", False))
    @example((b"GET http://localhost/api/v1/kinds HTTP/1.1\r\nHost: a{b\r\n" + OURS + b"\r\n\r\n", False))
    @example((b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", False))
    @example((b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", False))
    @example((b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGARBAGE\r\n\r\n", False))
    def one(request: tuple[bytes, bool]) -> None:
        raw, allowed = request
        answer = bench.run(answer_to(address, raw))
        status = STATUS.match(answer)
        assert not answer or status, (raw, answer)
        assert not status or status[1] not in (b"500", b"502"), (raw, answer)
        is_served = status is not None and status[1].startswith(b"2")
        served[0] += is_served
        if is_served and is_protected(raw) and not raw.startswith(b"OPTIONS"):
            assert allowed, (raw, answer)
        assert not failures, (raw, failures)

    one()
    assert served[0]
    healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert bench.run(answer_to(address, healthy)).startswith(b"HTTP/1.1 200")
    bench.run(stack.aclose())

"""Host and Origin headers: what is read, and that everything else is refused instead of guessed."""

from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from rowlock.api.auth.hosts import Authority, WebOrigin, host_of, is_loopback, origin_of, own_origin, parse_authority


def connection(*headers: tuple[str, str], scheme: str = "http") -> HTTPConnection:
    raw = [(name.encode(), value.encode("utf-8")) for name, value in headers]
    return HTTPConnection({"type": "http", "headers": raw, "scheme": scheme, "server": ("127.0.0.1", 8000)})


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("localhost", "localhost", None),
        ("LocalHost:8000", "localhost", 8000),
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("[::1]:65535", "::1", 65_535),
        ("[0:0:0:0:0:0:0:1]", "::1", None),
        ("jobs.example", "jobs.example", None),
        ("my_service:80", "my_service", 80),
        ("xn--mnchen-3ya.example.", "xn--mnchen-3ya.example.", None),
    ],
)
def test_a_host_and_a_port_are_read(text: str, name: str, port: int | None) -> None:
    assert parse_authority(text) == Authority(name, port)


MALFORMED = [
    *(f"a{mark}b.evil.example" for mark in "{}`\"\\^|[]<>#?%@/;,!$&'()*+=~ \tü\x7f\0"),
    "",
    " ",
    "user@localhost",
    "localhost:",
    "localhost:x",
    "localhost:-1",
    "localhost:65536",
    "localhost:8000:8000",
    "localhost, evil.example",
    "localhost\t",
    " localhost",
    "::1",
    "[::1",
    "::1]",
    "[]",
    "[::1]x",
    "[::1%25eth0]",
    "[localhost]",
    "[127.0.0.1]",
    "-localhost",
    ".localhost",
    "local..host",
    "http://localhost",
    "localhost/",
    "l" * 256,
    "\N{FULLWIDTH DIGIT ONE}27.0.0.1",
    "localhost:8\N{FULLWIDTH DIGIT ZERO}",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_anything_else_is_no_host(text: str) -> None:
    assert parse_authority(text) is None
    assert host_of(connection(("host", text))) is None


def test_a_request_has_one_host() -> None:
    assert host_of(connection()) is None
    assert host_of(connection(("host", "localhost"), ("host", "localhost"))) is None
    assert host_of(connection(("host", "localhost:8000"))) == Authority("localhost", 8000)


@pytest.mark.parametrize(
    ("origin", "found"),
    [
        ("http://localhost:8000", WebOrigin("http", "localhost", 8000)),
        ("HTTPS://Jobs.example", WebOrigin("https", "jobs.example", 443)),
        ("http://[::1]", WebOrigin("http", "::1", 80)),
        ("null", None),
        ("", None),
        ("localhost", None),
        ("http:localhost", None),
        ("file://localhost", None),
        ("http://localhost/", None),
        ("http://user@localhost", None),
        ("http://evil.example http://localhost", None),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(origin: str, found: WebOrigin | None) -> None:
    assert origin_of(connection(("origin", origin))) == found


def test_origins_are_compared_with_their_ports() -> None:
    page = connection(("host", "localhost"), ("origin", "http://localhost:80"))
    assert origin_of(page) == own_origin(page)
    other = connection(("host", "localhost:8000"), ("origin", "http://localhost"))
    assert origin_of(other) != own_origin(other)
    assert own_origin(connection(("host", "a{b"), ("origin", "http://a{b"))) is None
    assert origin_of(connection(("origin", "http://localhost"), ("origin", "http://localhost"))) is None


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("app.localhost", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104 - a name to judge
        ("::", False),
        ("host", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.1", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_which_names_are_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here

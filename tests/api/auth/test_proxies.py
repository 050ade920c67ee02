"""Which proxies may say for whom they ask, and what they can say."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock import ConfigurationError
from rowlock.api.auth.proxies import TrustedProxies, parse_address

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8::/32", "127.0.0.1"])


def scope(client: str | None, *headers: tuple[str, str]) -> dict[str, Any]:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"client": client and (client, 1), "scheme": "http", "headers": raw}


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["203.0.113.9, 192.0.2.7"], "192.0.2.7"),  # the client wrote the first
        ("10.0.0.1", ["203.0.113.9", "192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, 10.0.0.2,10.0.0.3"], "192.0.2.7"),
        ("10.0.0.1", ["10.0.0.9, 10.0.0.2"], "10.0.0.9"),  # all trusted: the first of them
        ("10.0.0.1", ["192.0.2.7:4711"], "192.0.2.7"),
        ("10.0.0.1", ["[2001:470::7]:4711"], "2001:470::7"),
        ("10.0.0.1", ["::ffff:192.0.2.7"], "192.0.2.7"),
        ("2001:db8::1", ["192.0.2.7"], "192.0.2.7"),
        ("::ffff:10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["evil-text <b>"], "10.0.0.1"),
        ("10.0.0.1", ["\x1b[31m"], "10.0.0.1"),
        ("10.0.0.1", ["unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["192.0.2.7, nonsense"], "10.0.0.1"),  # what stands before nonsense proves nothing
        ("10.0.0.1", ["fe80::1%eth0"], "10.0.0.1"),
        ("192.0.2.1", ["192.0.2.7"], "192.0.2.1"),
        ("::1", ["192.0.2.7"], "::1"),
        ("testclient", ["192.0.2.7"], "testclient"),
    ],
)
def test_the_client_is_the_last_hop_that_is_no_trusted_proxy(peer: str, forwarded: list[str], client: str) -> None:
    seen = scope(peer, *(("x-forwarded-for", text) for text in forwarded))
    PROXIES.apply(seen)
    assert seen["client"][0] == client


@pytest.mark.parametrize(
    ("peer", "sent", "scheme"),
    [
        ("10.0.0.1", ["https"], "https"),
        ("10.0.0.1", ["HTTPS"], "https"),
        ("10.0.0.1", ["https, http"], "http"),
        ("10.0.0.1", ["http", "https"], "https"),
        ("10.0.0.1", ["javascript"], "http"),
        ("10.0.0.1", [""], "http"),
        ("192.0.2.1", ["https"], "http"),
    ],
)
def test_a_trusted_proxy_says_whether_its_client_used_tls(peer: str, sent: list[str], scheme: str) -> None:
    seen = scope(peer, *(("x-forwarded-proto", text) for text in sent))
    PROXIES.apply(seen)
    assert seen["scheme"] == scheme


def test_without_trusted_proxies_nobody_speaks_for_others() -> None:
    headers = (("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https"), ("forwarded", "for=192.0.2.7"))
    for peer in ("127.0.0.1", "::1", "10.0.0.1", None):
        seen = scope(peer, *headers)
        TrustedProxies().apply(seen)
        assert (seen["client"] and seen["client"][0], seen["scheme"]) == (peer, "http")
    socket = scope(None, *headers)
    PROXIES.apply(socket)
    assert (socket["client"], socket["scheme"]) == (None, "http")


@pytest.mark.parametrize("text", ["", "proxy.example", "10.0.0.1/8", "10.0.0.0/33", "*"])
def test_what_is_no_network_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a trusted proxy.*10\.0\.0\.0/8"):
        TrustedProxies([text])


@pytest.mark.parametrize("text", ["", "localhost", "10.0.0.1, 10.0.0.2", "10.0.0.256", "<b>", "1", "\0", "[::1"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None

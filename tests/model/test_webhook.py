"""URLs, patterns, secrets and signatures of webhooks."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook as Verifier

from rowlock.errors import InvalidOption
from rowlock.model import webhook

SHORT = "whsec_" + base64.b64encode(b"x" * 23).decode()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/hooks",
        "ftp://example.com/",
        "https://",
        "https:///path",
        "https://user:pass@example.com/",
        "https://example.com/#part",
        "https://example.com/a b",
        "https://example.com/\r\nX: y",
        "https://example.com\\@127.0.0.1/",
        "https://exämple.com/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://[::1",
        "https://example.com/" + "x" * 2000,
    ],
)
def test_a_url_that_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="An endpoint is a URL such as"):
        webhook.split_url(url)


def test_an_endpoint_has_a_host_and_maybe_a_port_and_a_query() -> None:
    parts = webhook.split_url("https://Example.com:8443/hooks?a=1")
    assert (parts.hostname, parts.port, parts.query) == ("example.com", 8443, "a=1")


def test_a_signature_is_that_of_the_official_package() -> None:
    secrets = [b"x" * 24, b"y" * 32]
    now = datetime.now(UTC)
    made = webhook.signature(secrets, "msg_1", int(now.timestamp()), b'{"a":1}')
    expected = [Verifier(webhook.secret_text(one)).sign("msg_1", now, '{"a":1}') for one in secrets]
    assert made.split() == expected


def test_a_secret_is_read_as_it_is_written() -> None:
    assert webhook.parse_secret(webhook.secret_text(b"z" * 32)) == b"z" * 32


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "whsec_%%%", SHORT, base64.b64encode(b"x" * 32).decode(), "whsec_" + "x" * 88],
)
def test_a_secret_that_is_none_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(InvalidOption, match="24 to 64 random bytes") as error:
        webhook.parse_secret(text)
    assert len(text) < 10 or text not in str(error.value)


@pytest.mark.parametrize("kinds", [[], [""], ["a*b"], ["**"], ["x" * 201], ["a\x00"], [f"k{n}" for n in range(101)]])
def test_patterns_of_kinds_are_names_or_their_beginning(kinds: list[str]) -> None:
    with pytest.raises(InvalidOption):
        webhook.checked_kinds(kinds)


def test_patterns_states_and_parts_are_put_in_order() -> None:
    assert webhook.checked_kinds("report.*") == ["report.*"]
    assert webhook.checked_kinds(["b", "a", "b"]) == ["b", "a"]
    assert webhook.checked_states(["failed", "pending", "completed"]) == ["pending", "completed", "failed"]
    assert webhook.checked_include({"result", "args"}) == ["args", "result"]


@pytest.mark.parametrize("states", [[], ["running"], ["queued"], ["done"]])
def test_states_that_cannot_be_asked_for_are_refused(states: list[str]) -> None:
    with pytest.raises(InvalidOption, match="one or more of the states pending, completed"):
        webhook.checked_states(states)


def test_parts_that_cannot_be_included_are_refused() -> None:
    with pytest.raises(InvalidOption, match="can include args, result, errors, meta; got password"):
        webhook.checked_include(["password"])


@pytest.mark.parametrize("text", ["x" * 501, "two\nlines"])
def test_a_description_is_one_line(text: str) -> None:
    with pytest.raises(InvalidOption):
        webhook.checked_description(text)

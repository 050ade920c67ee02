"""Which addresses webhooks may reach."""

from __future__ import annotations

import pytest

from rowlock.errors import WebhookRefused
from rowlock.model.webhook_rules import WebhookRules


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",  # noqa: S104 - an address that must be refused
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:db8::1",
        "2001:0:7f00:1::",
        "192.0.0.192",
        "::ffff:192.0.0.192",
        "192.88.99.1",
        "fec0::1",
        "3fff::1",
        "5f00::1",
        "::127.0.0.1",
        "64:ff9b:1::7f00:1",
        "100.100.100.200",
        "fd00:ec2::254",
    ],
)
def test_private_and_special_addresses_are_refused(address: str) -> None:
    assert not WebhookRules().allows(address)
    with pytest.raises(WebhookRefused, match="not a public address"):
        WebhookRules().check_host(address.partition("%")[0])


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert WebhookRules().allows(address)


def test_a_network_that_is_allowed_is_allowed_in_every_notation_of_its_addresses() -> None:
    rules = WebhookRules(("10.0.0.0/8", "fd00::/8"))
    assert all(map(rules.allows, ("10.1.2.3", "::ffff:10.1.2.3", "fd00::7")))
    assert not any(map(rules.allows, ("172.16.0.1", "fc00::7")))


def test_names_are_not_judged_before_they_are_resolved() -> None:
    WebhookRules().check_host("localhost")


def test_http_takes_a_setting() -> None:
    WebhookRules().check_scheme("https")
    WebhookRules(http=True).check_scheme("http")
    with pytest.raises(WebhookRefused, match="over https only"):
        WebhookRules().check_scheme("http")

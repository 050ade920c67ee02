"""WebhookRules: which endpoints webhooks may be sent to."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.errors import WebhookRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL: Final = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16")
)
"""Networks that IANA keeps for special purposes and that some versions of Python call global.

192.0.0.192 tells servers of a cloud their secrets, fec0::/10 are the site's own addresses.
"""


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """What the deployment lets webhooks reach. networks: private ones that are allowed; http: also without TLS."""

    networks: tuple[str, ...] = ()
    http: bool = False

    def check_scheme(self, scheme: str) -> None:
        """WebhookRefused for http, unless it is allowed."""
        if scheme != "https" and not self.http:
            message = (
                "Webhooks are sent over https only: the message and its receiver could be read or changed on the way. "
                "Allow http with ROWLOCK_WEBHOOK_HTTP=on, for tests or networks of your own."
            )
            raise WebhookRefused(message)

    def allows(self, text: str) -> bool:
        """Whether an address is public, or in a network that is allowed."""
        address = ipaddress.ip_address(text.partition("%")[0])
        inner = _inside(address)
        allowed = [ipaddress.ip_network(network) for network in self.networks]
        return _is_public(address, inner) or any(one in network for one in (address, *inner) for network in allowed)

    def check_host(self, host: str) -> None:
        """WebhookRefused for a written address that is not allowed; names are judged when they are resolved."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        if not self.allows(host):
            raise refused(host)


def _inside(address: Address) -> list[Address]:
    """The IPv4 address that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address] = [one for one in (address.ipv4_mapped, address.sixtofour) if one is not None]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def _is_public(address: Address, inner: Sequence[Address]) -> bool:
    return all(
        one.is_global
        and not one.is_multicast
        and not one.is_reserved
        and not one.is_unspecified
        and not any(one in network for network in _SPECIAL)
        for one in inner or (address,)
    )


def refused(host: str) -> WebhookRefused:
    """The error for a host that is or leads to no allowed address. It names none: they may be the deployment's own."""
    return WebhookRefused(
        f"{host} is not a public address, nor does it lead to one. "
        "Allow private networks with ROWLOCK_WEBHOOK_NETWORKS, such as 10.0.0.0/8."
    )

"""Trusted proxies: only they may say for whom they send a request, and whether that client used TLS."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
_SCHEMES: Final = frozenset({"http", "https"})
_MOST_HOPS: Final = 50
_EXAMPLE: Final = "Give an address such as 10.0.0.7 or a network such as 10.0.0.0/8."


class TrustedProxies:
    """The networks whose X-Forwarded-For and X-Forwarded-Proto count. Without any, both headers are ignored."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """networks: addresses or CIDR networks; ConfigurationError for anything else."""
        self._networks = tuple(map(network, networks))

    def __bool__(self) -> bool:
        """Whether any proxy is trusted."""
        return bool(self._networks)

    def trusts(self, address: str | None) -> bool:
        """Whether this is the address of a trusted proxy."""
        parsed = parse_address(address or "")
        return parsed is not None and self._trusts(parsed)

    def apply(self, scope: MutableMapping[str, Any]) -> None:
        """Put the client's address and scheme into the ASGI scope of a request that a trusted proxy sent."""
        peer = scope.get("client")
        if not self._networks or not peer or not self.trusts(peer[0]):
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        client = self._client(_last_values(headers, b"x-forwarded-for"))
        if client is not None:
            scope["client"] = (str(client), 0)
        scheme = (_last_values(headers, b"x-forwarded-proto") or [""])[-1].lower()
        if scheme in _SCHEMES:
            scope["scheme"] = scheme

    def _client(self, hops: list[str]) -> Address | None:
        """The last hop that is not a trusted proxy: each proxy appends the address it saw, and clients write the rest.

        A hop that is not an address ends the search: what stands before it was not written by a trusted proxy.
        """
        client = None
        for hop in reversed(hops[-_MOST_HOPS:]):
            parsed = parse_address(hop)
            if parsed is None:
                break
            client = parsed
            if not self._trusts(parsed):
                break
        return client

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def network(text: str) -> Network:
    """Read an address or a CIDR network."""
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ConfigurationError(f"{text!r} is not a trusted proxy: {error}. {_EXAMPLE}") from None


def parse_address(text: str) -> Address | None:
    """Read an IP address, with or without a port; None: the text is none. A zone (%eth0) is not accepted."""
    found = _WITH_PORT.fullmatch(text)
    plain = (found[1] or found[2]) if found else text
    if "%" in plain:
        return None
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _last_values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """The values of a list header, in order over all its lines."""
    text = b",".join(value for key, value in headers if key == name).decode("latin-1")
    return [part.strip() for part in text.split(",") if part.strip()]

"""Host and Origin headers, read strictly: which server the client believes it talks to."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

_NAME: Final = r"(?P<name>[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_-]{1,63})*\.?)"
_ADDRESS: Final = r"\[(?P<address>[0-9A-Fa-f:.]{2,45})\]"
_AUTHORITY: Final = re.compile(rf"(?:{_NAME}|{_ADDRESS})(?::(?P<port>[0-9]{{1,5}}))?")
"""A name, an IPv4 address or an IPv6 address in brackets, and a port. RFC 3986 allows more in a name; DNS does not."""
_LONGEST: Final = 255
_PORTS: Final = 65_535
_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Authority:
    """A host and a port as a client names them. name: in lower case, without brackets; port None: of the scheme."""

    name: str
    port: int | None

    @property
    def is_loopback(self) -> bool:
        """Whether the name or address can only mean this machine."""
        return is_loopback(self.name)


@dataclass(frozen=True, slots=True)
class WebOrigin:
    """The page that sends a request, as browsers name it. port: never None, so that origins can be compared."""

    scheme: str
    name: str
    port: int


def parse_authority(text: str) -> Authority | None:
    """Read `host`, `host:port` or `[address]:port`; None: the text is anything else."""
    found = _AUTHORITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found["port"] is not None and int(found["port"]) > _PORTS):
        return None
    name = found["name"]
    if name is None:
        try:
            name = str(ipaddress.IPv6Address(found["address"]))
        except ValueError:
            return None
    return Authority(name.lower(), None if found["port"] is None else int(found["port"]))


def host_of(connection: HTTPConnection) -> Authority | None:
    """The host that the client asked for; None: no Host header, several, or one that is not a host and a port.

    The header alone is read. Starlette's `url.hostname` answers with the server's own address where it is malformed.
    """
    sent = connection.headers.getlist("host")
    return parse_authority(sent[0]) if len(sent) == 1 else None


def origin_of(connection: HTTPConnection) -> WebOrigin | None:
    """The page that sent the request; None: no Origin header, several, `null`, or one that is not scheme://host:port."""
    sent = connection.headers.getlist("origin")
    return parse_origin(sent[0]) if len(sent) == 1 else None


def parse_origin(text: str) -> WebOrigin | None:
    """Read `scheme://host` or `scheme://host:port`; None: the text is anything else."""
    scheme, separator, rest = text.partition("://")
    authority = parse_authority(rest) if separator else None
    if authority is None or scheme.lower() not in _DEFAULT_PORTS:
        return None
    return _origin(scheme.lower(), authority)


def own_origin(connection: HTTPConnection, scheme: str | None = None) -> WebOrigin | None:
    """The origin of this server's own pages, by the Host header; None: that header is malformed."""
    host = host_of(connection)
    return None if host is None else _origin(scheme or connection.scope.get("scheme", "http"), host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _origin(scheme: str, authority: Authority) -> WebOrigin:
    port = _DEFAULT_PORTS.get(scheme, 0) if authority.port is None else authority.port
    return WebOrigin(scheme, authority.name, port)

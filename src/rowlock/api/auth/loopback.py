"""Without authentication, only direct requests from this machine are served."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from rowlock.api.auth import LOOPBACK
from rowlock.api.problems import Problem
from rowlock.api.routing import SAFE

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from rowlock.model.access import Principal

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
_SAME_SITE: Final = frozenset({"same-origin", "none"})


class Loopback:
    """Accepts direct requests from this machine: not through a proxy, from another site, or by a rebound name."""

    def __init__(self, *, any_address: bool = False) -> None:
        self._any_address = any_address

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The local principal; a Problem for any other request."""
        refuse_cross_site(connection)
        if not self._any_address and not _from_here(connection):
            raise Problem(
                "no-auth-configured",
                "No authentication is configured, so only this machine is served, without a proxy. "
                "Give RowlockAPI(auth=…) an authenticator.",
            )
        return LOOPBACK


def refuse_cross_site(connection: HTTPConnection) -> None:
    """Refuse changes sent by a page of another site: browsers let any page send requests to this machine."""
    if connection.scope.get("method", "GET") in SAFE:
        return
    site = connection.headers.get("sec-fetch-site")
    origin = connection.headers.get("origin")
    same = site in _SAME_SITE if site is not None else origin in (None, _own_origin(connection))
    if not same:
        raise Problem("cross-site", "Changes are accepted from this server's own pages and from programs only.")


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _from_here(connection: HTTPConnection) -> bool:
    client = connection.client
    if client is not None and not is_loopback(client.host):
        return False
    if any(name in connection.headers for name in _FORWARDED):
        return False
    # After DNS rebinding, the attacker's name is still in the Host header.
    return is_loopback(connection.url.hostname or "localhost")


def _own_origin(connection: HTTPConnection) -> str:
    return f"{connection.url.scheme}://{connection.headers.get('host', '')}"

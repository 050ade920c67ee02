"""Where a server may listen: without authentication, on this machine only."""

from __future__ import annotations

import ipaddress
from typing import Final

from rowlock.errors import ConfigurationError
from rowlock.model.access import ALL, Permission, Principal

WITHHELD: Final = frozenset({Permission.READ_ARGS, Permission.TOKENS_MANAGE})
"""Permissions that nobody has without authentication: secrets in clear text, and rights that outlive the server."""
LOOPBACK: Final = Principal("loopback", permissions=ALL - WITHHELD, is_anonymous=True)
"""The principal of requests from this machine while no authentication is configured: the developer."""


def bind_allowed(host: str, auth: object | None, *, insecure: bool = False) -> bool:
    """Whether a server may listen on the host: anywhere with authentication, else only on this machine."""
    return auth is not None or insecure or _is_loopback(host)


def require_bind(host: str, auth: object | None, *, insecure: bool = False) -> None:
    """Raise ConfigurationError unless bind_allowed()."""
    if not bind_allowed(host, auth, insecure=insecure):
        message = (
            f"Refused to listen on {host!r}: no authentication is configured, so everybody who reaches the port could "
            "use it. Configure --auth, bind to 127.0.0.1, or pass --insecure-no-auth."
        )
        raise ConfigurationError(message)


def _is_loopback(host: str) -> bool:
    # Stricter than hosts.is_loopback(): a resolver may map other names below .localhost to any address.
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

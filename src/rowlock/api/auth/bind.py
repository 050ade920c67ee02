"""Closed by default: without authentication only this machine is served."""

from __future__ import annotations

import ipaddress
from typing import Final

from rowlock.errors import ConfigurationError
from rowlock.model.access import ALL, Principal

LOOPBACK: Final = Principal("loopback", permissions=ALL, roles=("platform_admin",))
"""Whoever asks from this machine while no authentication is configured: the developer in front of it."""


def bind_allowed(host: str, auth: object | None, *, insecure: bool = False) -> bool:
    """Whether a server may listen there: anywhere with authentication, else on this machine alone."""
    return auth is not None or insecure or _is_loopback(host)


def require_bind(host: str, auth: object | None, *, insecure: bool = False) -> None:
    """ConfigurationError when bind_allowed() says no."""
    if not bind_allowed(host, auth, insecure=insecure):
        message = (
            f"Refused to listen on {host!r}: no authentication is configured, and everybody who can reach it could do "
            "everything. Configure one, bind to 127.0.0.1, or say --insecure-no-auth."
        )
        raise ConfigurationError(message)


def _is_loopback(host: str) -> bool:
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

"""TCP keepalives and user timeouts: how soon each end's kernel notices that the other end is gone.

Without them a client waits a quarter of an hour for an acknowledgement, and a server keeps the locks of a vanished
client for two hours.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncpg

_IDLE: Final = 10
_EVERY: Final = 5
_COUNT: Final = 3
_UNACKNOWLEDGED: Final = 15
"""Seconds, all but the count."""

SERVER: Final = {
    "tcp_keepalives_idle": str(_IDLE),
    "tcp_keepalives_interval": str(_EVERY),
    "tcp_keepalives_count": str(_COUNT),
    "tcp_user_timeout": f"{_UNACKNOWLEDGED}s",
}
"""Settings of a session. The server ignores them where its system has none, or on a Unix socket."""

_CLIENT: Final = (
    ("TCP_KEEPIDLE", _IDLE),
    ("TCP_KEEPALIVE", _IDLE),  # what macOS calls it
    ("TCP_KEEPINTVL", _EVERY),
    ("TCP_KEEPCNT", _COUNT),
    ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED * 1000),
)


def apply(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Set the timeouts on this end's socket, so that a vanished server is noticed during a call and while idle."""
    transport = getattr(connection, "_transport", None)
    open_one = transport.get_extra_info("socket") if transport is not None else None
    if open_one is None or open_one.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # On a duplicate: uvloop's socket object has no setsockopt().
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(open_one.fileno())) as twin:
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _CLIENT:
            option = getattr(socket, name, None)
            if option is not None:
                twin.setsockopt(socket.IPPROTO_TCP, option, value)

"""A port of this machine that is free."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One that the system chooses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""The port of a server that a command starts beside its own work."""

from __future__ import annotations

import socket
from typing import Final

from rowlock.errors import ConfigurationError

FIRST: Final = 8000
_LAST: Final = 8099


def listening(port: int | None) -> socket.socket:
    """A listening socket on this machine that every new worker inherits, so that the address stays. None: any port."""
    for number in range(FIRST, _LAST + 1) if port is None else (port,):
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(("127.0.0.1", number))
            # Only listen() fails if another process listens there.
            opened.listen()
        except OSError:
            opened.close()
        else:
            return opened
    taken = f"from {FIRST} to {_LAST} is free" if port is None else f"{port} cannot be taken"
    raise ConfigurationError(f"The API needs a port, and none {taken}. Choose another with --port (0: any free one).")

"""`rowlock workers probe`: asks a worker process of this machine how it is, where `rowlock worker --health` answers."""

from __future__ import annotations

import json
import socket
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from typing_extensions import override

from rowlock.cli.health.endpoint import EVERY, is_file, tcp_address
from rowlock.errors import WorkerNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITHIN: Final = 3.0
"""Seconds for an answer."""
_OLD: Final = 10 * EVERY
"""Seconds after which a file counts as left behind by a process that is dead or hangs."""


def ask(target: str) -> Mapping[str, Any]:
    """The state that a worker reports there. WorkerNotFound: nothing answers, or the file has grown old."""
    try:
        return _in_file(Path(target)) if is_file(target) else _over_http(target)
    except (OSError, ValueError, HTTPException) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise WorkerNotFound(f"No worker answers at {target}: {why}.") from error


def _in_file(path: Path) -> Mapping[str, Any]:
    state = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
    age = time.time() - float(state["at"])
    if age > _OLD and not state["drained"]:
        raise ValueError(f"the file was last written {age:.0f} s ago; its process is dead or hangs")
    return state


def _over_http(target: str) -> Mapping[str, Any]:
    connection = _SocketConnection(target) if "/" in target else HTTPConnection(*tcp_address(target), timeout=_WITHIN)
    try:
        connection.request("GET", "/healthz")
        return cast("dict[str, Any]", json.loads(connection.getresponse().read()))
    finally:
        connection.close()


class _SocketConnection(HTTPConnection):
    """HTTP over a socket of the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_WITHIN)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_WITHIN)
        self.sock.connect(self._path)

"""The child's side of hot reload: it ends with the parent that watches the files, and reports to it what runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from typing import Final

from rowlock.errors import ConfigurationError

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
PATIENCE: Final = 2.0
"""Seconds that running jobs have to end after the code changed; then they return to the queue."""
LAST: Final = 10.0
"""Seconds from the second signal until the process is killed."""


class ReloadParent:
    """The parent, over the socket that --follow names. The socket closes when the parent dies, also by kill -9."""

    def __init__(self, descriptor: int) -> None:
        try:
            self._line = socket.socket(fileno=descriptor)
        except OSError as error:
            raise ConfigurationError(
                f"--follow takes a descriptor that `rowlock worker --reload` passes on, got {descriptor}: {error}."
            ) from None
        # Processes that this one starts must not keep the socket open.
        self._line.set_inheritable(False)

    def follow(self) -> None:
        """Ignore Ctrl-C, which reaches both processes: the parent decides what it means."""
        for number in (signal.SIGINT, signal.SIGHUP):
            # Not SIG_IGN, which every program that a job starts would inherit.
            signal.signal(number, lambda *_: None)
        # The parent blocked SIGINT before it started this process, so that no Ctrl-C hit an import.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        threading.Thread(target=self._stop_with_parent, name="rowlock-follow", daemon=True).start()

    def report(self, message: dict[str, object]) -> None:
        """Send one message as a JSON line; ignored when the parent is gone."""
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps(message).encode() + b"\n")

    def _stop_with_parent(self) -> None:
        with contextlib.suppress(OSError):
            while self._line.recv(64):
                pass
        for patience in (PATIENCE, LAST):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(patience)
        os._exit(1)


def reload_parent(descriptor: int | None) -> ReloadParent | None:
    """The parent behind this descriptor, followed from now on; None: there is none."""
    if descriptor is None:
        return None
    parent = ReloadParent(descriptor)
    parent.follow()
    return parent

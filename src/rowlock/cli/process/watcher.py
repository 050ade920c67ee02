"""The child's side of hot reload: it ends with the watcher that started it, and tells it what runs."""

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
"""Seconds running jobs have to end when the code changed; then they go back to the queue."""
LAST: Final = 10.0
"""Seconds from the second signal to the end that cannot be refused."""


class Watcher:
    """The process at the other end of --follow. Its end closes when it dies, also by kill -9."""

    def __init__(self, descriptor: int) -> None:
        try:
            self._line = socket.socket(fileno=descriptor)
        except OSError as error:
            raise ConfigurationError(
                f"--follow takes a descriptor that `rowlock worker --reload` passes on, got {descriptor}: {error}."
            ) from None
        # Whatever this process starts must not keep the line open.
        self._line.set_inheritable(False)

    def follow(self) -> None:
        """Leave the orders to the watcher: Ctrl-C reaches both, and the second signal means something else."""
        for number in (signal.SIGINT, signal.SIGHUP):
            # Not SIG_IGN, which every program that a job starts would inherit.
            signal.signal(number, lambda *_: None)
        # Blocked since before this program began, so that no Ctrl-C hit an import.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        threading.Thread(target=self._end_with_it, name="rowlock-follow", daemon=True).start()

    def tell(self, news: dict[str, object]) -> None:
        """Send one line; a watcher that is gone needs none."""
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps(news).encode() + b"\n")

    def _end_with_it(self) -> None:
        with contextlib.suppress(OSError):
            while self._line.recv(64):
                pass
        for patience in (PATIENCE, LAST):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(patience)
        os._exit(1)


def followed(descriptor: int | None) -> Watcher | None:
    """The watcher of this process, if it has one."""
    if descriptor is None:
        return None
    watcher = Watcher(descriptor)
    watcher.follow()
    return watcher

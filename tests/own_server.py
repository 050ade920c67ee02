"""A PostgreSQL server of a test's own, which the test may stop and start."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

from tests.waiting import eventually

from rowlock.store.embedded import keeper

if TYPE_CHECKING:
    from pathlib import Path

    from rowlock.store import embedded


class OwnServer:
    """Stops an embedded server at once, as a crash would, and has its keeper start it again."""

    def __init__(self, held: embedded.Embedded) -> None:
        self._home = held.directory
        self._keeper = int((self._home / "keeper.lock").read_text())

    async def stop(self) -> None:
        """SIGQUIT for the server; its keeper, which would start it again, is held. Returns when no process is left."""
        os.kill(self._keeper, signal.SIGSTOP)
        os.kill(int((self._home / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)
        await eventually(self._ended)

    def start(self) -> None:
        """Let the keeper start the server; returns at once."""
        os.kill(self._keeper, signal.SIGCONT)

    async def _ended(self) -> bool:
        return is_free(self._home / "server.lock")


def is_free(lock_file: Path) -> bool:
    """Whether no process holds the lock; every process of the server inherits server.lock."""
    try:
        os.close(keeper.lock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True

"""Line: what a supervisor and its processes say to each other, and the processes' end of it.

A process says {"worker": id} when it has its row, {"sign": s} while it lives (its loop has been blocked for s seconds),
{"asks": why} when it wants to be replaced, {"over": why} when it ends on purpose, {"refused": message, "code": n} when
it cannot start. The supervisor says "recycle" (drain, then end with RECYCLED) and "hurry"; to drain it sends SIGTERM.
The end of the line is the other one's death.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Final, NoReturn

from rowlock.flow.executors.os_process import die_with
from rowlock.flow.worker.successor import RECYCLED, flush

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

VARIABLE: Final = "ROWLOCK_SUPERVISED"


def passed(descriptor: int, number: int) -> dict[str, str]:
    """What to put into the environment of a process with that end of a line."""
    return {VARIABLE: f"{descriptor}:{number}:{os.getpid()}"}


def supervised(environ: MutableMapping[str, str]) -> Supervised | None:
    """The line to this process's supervisor, if it has one. Whatever this process starts is not supervised."""
    text = environ.pop(VARIABLE, None)
    if text is None:
        return None
    descriptor, number, supervisor = (int(part) for part in text.split(":"))
    return Supervised(socket.socket(fileno=descriptor), number, supervisor)


class Supervised:
    """The successor of a process that has a supervisor: the supervisor starts it anew."""

    def __init__(self, line: socket.socket, number: int, supervisor: int) -> None:
        self.number, self.supervisor = number, supervisor
        self.leaving = False
        self._line = line
        line.set_inheritable(False)
        self._orders: Mapping[str, Callable[[], None]] = {}

    def follow(self) -> None:
        """End with the supervisor, whatever ends it; leave Ctrl-C to it."""
        # Not SIG_IGN, which every program that a job starts would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        die_with(self.supervisor)
        threading.Thread(target=self._listen, name="rowlock-line", daemon=True).start()

    def obey(self, orders: Mapping[str, Callable[[], None]]) -> None:
        """Have these called, in a thread of the line, when the supervisor says their name."""
        self._orders = orders

    def _listen(self) -> None:
        with contextlib.suppress(OSError), self._line.makefile(encoding="ascii") as lines:
            for line in lines:
                self._orders.get(line.strip(), lambda: None)()
        os._exit(1)

    def tell(self, **news: object) -> None:
        """Send one line. A supervisor that does not read, or is gone, is not waited for."""
        with contextlib.suppress(OSError):
            self._line.send(json.dumps(news).encode() + b"\n", socket.MSG_DONTWAIT)

    def entered(self, worker_id: int) -> None:
        """The worker has its row."""
        self.tell(worker=worker_id)

    def ask(self, reason: str) -> None:
        """Wait for one's turn: the supervisor never replaces all its processes at the same moment."""
        self.tell(asks=reason)

    def sign(self, blocked: float) -> None:
        """This process lives."""
        self.tell(sign=round(blocked, 1))

    def take_over(self) -> NoReturn:
        """End now; the supervisor starts another."""
        self.tell(over="its event loop was blocked")
        flush()
        os._exit(RECYCLED)

"""The control line: a socket between a supervisor and each of its worker processes, and the end in the worker process.

A process sends JSON lines: {"worker": id} when it has its row, {"sign": s} while it lives (its loop has been blocked
for s seconds), {"asks": why} when it wants to be replaced, {"over": why} when it ends on purpose, {"refused": message,
"code": n} when it cannot start. The supervisor sends the words "recycle" (drain, then end with RECYCLED) and "hurry";
to drain it sends SIGTERM. A closed line means that the other process is dead.
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
from rowlock.flow.worker.process_replacement import RECYCLED, flush_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

VARIABLE: Final = "ROWLOCK_SUPERVISED"


def environment_for(descriptor: int, number: int) -> dict[str, str]:
    """The variable that passes an end of a line to a process. number: that of the process, from 1."""
    return {VARIABLE: f"{descriptor}:{number}:{os.getpid()}"}


def line_from(environ: MutableMapping[str, str]) -> SupervisorLine | None:
    """The line to the supervisor of this process, if there is one. Removes the variable, so that children have none."""
    text = environ.pop(VARIABLE, None)
    if text is None:
        return None
    descriptor, number, supervisor = (int(part) for part in text.split(":"))
    return SupervisorLine(socket.socket(fileno=descriptor), number, supervisor)


class SupervisorLine:
    """The line to the supervisor. As a ProcessReplacement: the supervisor starts the next process."""

    def __init__(self, line: socket.socket, number: int, supervisor: int) -> None:
        """supervisor: its process id."""
        self.number, self.supervisor = number, supervisor
        self.leaving = False
        self._line = line
        line.set_inheritable(False)
        self._orders: Mapping[str, Callable[[], None]] = {}

    def open(self) -> None:
        """Receive orders, end with the supervisor, and leave Ctrl-C to it."""
        # Not SIG_IGN, which every program that a job starts would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        die_with(self.supervisor)
        threading.Thread(target=self._receive, name="rowlock-line", daemon=True).start()

    def on_order(self, orders: Mapping[str, Callable[[], None]]) -> None:
        """Call these functions, in the thread of the line, when the supervisor sends their words."""
        self._orders = orders

    def _receive(self) -> None:
        with contextlib.suppress(OSError), self._line.makefile(encoding="ascii") as lines:
            for line in lines:
                self._orders.get(line.strip(), lambda: None)()
        os._exit(1)

    def send(self, **message: object) -> None:
        """Send one line; does not wait for a supervisor that does not read or is gone."""
        with contextlib.suppress(OSError):
            self._line.send(json.dumps(message).encode() + b"\n", socket.MSG_DONTWAIT)

    def registered(self, worker_id: int) -> None:
        """The worker has its row."""
        self.send(worker=worker_id)

    def request(self, reason: str) -> None:
        """Ask to be replaced; the supervisor never replaces all its processes at the same moment."""
        self.send(asks=reason)

    def report_alive(self, blocked: float) -> None:
        """Report that this process lives. blocked: seconds since the event loop last answered."""
        self.send(sign=round(blocked, 1))

    def replace_now(self) -> NoReturn:
        """End now; the supervisor starts another process."""
        self.send(over="its event loop was blocked")
        flush_output()
        os._exit(RECYCLED)

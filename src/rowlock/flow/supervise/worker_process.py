"""WorkerProcess: one worker process as its supervisor sees and controls it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rowlock.flow.supervise import control_line

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger("rowlock.supervisor")
_DUMP: Final = 2.0
"""Seconds for a process to dump its stacks before it is killed."""
_HEALTHY: Final = 30.0
"""Seconds of life after which an end does not count as a failed start."""
_BACKOFF: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class WorkerProcess:
    """One of N worker processes, restarted after each end. start() sets the attributes of the present process."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number, self._command = number, command
        self.failures = 0
        """Processes in a row that ended soon after their start."""
        self.start_at: float | None = 0.0
        """When the next process is to be started; None: never again."""
        self.refusal: tuple[str, int] | None = None
        """Why the last process could not start, as it said itself, and its exit code."""
        self.worker_id: int | None = None
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None

    @property
    def live_worker(self) -> int | None:
        """The id of its worker; None: no process, no row yet, or the process is stopped (SIGSTOP, a debugger)."""
        return self.worker_id if self.running and not self.stopped else None

    @property
    def pid(self) -> int:
        """The process id; 0: there is no process."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start a process. In the main thread: the process dies with the thread that started it.

        Raises OSError when the system has no room for one.
        """
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        # Ctrl-C goes to every process of the terminal; blocked from the start it cannot hit an import.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                env={**os.environ, **control_line.environment_for(theirs.fileno(), self.number)},
                pass_fds=[theirs.fileno()],
            )
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
        self.line, self._received = ours, b""
        self.began = self.alive_at = time.monotonic()
        self.start_at = None
        self.worker_id = None
        self.replacement_reason = self.end_reason = ""
        self.blocked = 0.0
        self.stopped = self.replacing = False
        self._kill_at: float | None = None

    # --- what the process sends --------------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Read the lines that the process has sent; False: it has closed its end."""
        while True:
            try:
                data = self.line.recv(65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            *lines, self._received = (self._received + data).split(b"\n")
            for text in lines:
                self._apply(json.loads(text))

    def _apply(self, message: dict[str, Any]) -> None:
        self.alive_at = time.monotonic()
        match message:
            case {"worker": int(worker)}:
                self.worker_id, self.refusal = worker, None
            case {"sign": blocked}:
                self.blocked = float(blocked)
            case {"asks": reason}:
                self.replacement_reason = str(reason)
            case {"over": reason}:
                self.end_reason = str(reason)
            case {"refused": message, "code": code}:
                self.refusal = (str(message), int(code))
            case _:
                logger.warning("process %d sent an unknown line: %r", self.number, message)

    def check_stopped(self) -> None:
        """Notice whether the process is stopped (SIGSTOP, a debugger): a stopped process cannot give a sign of life."""
        self.stopped = _state(self.pid) in "Tt"
        if self.stopped:
            self.alive_at = time.monotonic()

    # --- what the process is ordered ---------------------------------------------------------------------------------

    def order(self, word: str) -> None:
        """Send an order over the line: "recycle" or "hurry"."""
        with contextlib.suppress(OSError):
            self.line.send(f"{word}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self._process is not None:
            self._process.send_signal(number)

    def end_within(self, seconds: float) -> None:
        """Kill it if it has not ended by then; an earlier limit stands."""
        at = time.monotonic() + seconds
        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)

    def abort(self) -> None:
        """End it with SIGABRT, so that it dumps the stacks of its threads first, which needs no interpreter lock."""
        if self._kill_at is not None and self._kill_at <= time.monotonic() + _DUMP:
            return
        if hasattr(resource, "prlimit"):
            with contextlib.suppress(OSError):
                resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
        self.signal(signal.SIGABRT)
        self.end_within(_DUMP)

    def kill_if_overdue(self) -> bool:
        """Kill it if it should have ended by now; returns whether it did."""
        if self._kill_at is None or time.monotonic() < self._kill_at:
            return False
        self.signal(signal.SIGKILL)
        return True

    # --- its end -----------------------------------------------------------------------------------------------------

    def ended(self) -> int | None:
        """The exit code (negative: the signal) once the process is dead; None: it lives. The caller closes the line."""
        code = self._process.poll() if self._process is not None else None
        if code is not None:
            self.receive()
            self._process = None
        return code

    def plan_restart(self, *, failed: bool) -> float:
        """Set when the next process starts, later with each failure soon after a start; returns the delay (s)."""
        now = time.monotonic()
        soon = now - self.began < _HEALTHY
        self.failures = self.failures + 1 if failed and soon else int(failed)
        delay = _BACKOFF[min(max(self.failures - 1, 0), len(_BACKOFF) - 1)]
        self.start_at = now + delay
        return delay


def _state(pid: int) -> str:
    """The letter ps shows for a process; R where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "R"
    return stat.rpartition(") ")[2][:1]

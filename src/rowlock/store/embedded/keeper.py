"""The keeper: the parent process of one embedded PostgreSQL, which it stops when its last user is gone.

Run by path as a program of its own (`python -I -S keeper.py`), so it imports nothing but the standard library: it
starts in 20 ms and stays small. Three lock files in the home are right even after kill -9, because the kernel drops
the locks:

users.lock    shared by every user; the keeper stops the server once it can have it exclusively
keeper.lock   held by the keeper while it lives
server.lock   inherited by every PostgreSQL process: once it is free, none of them is left
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LINGER = 1.0  # seconds without users before the server stops, so that successive commands find it running
POLL = 0.2  # seconds between two looks at users.lock: a lock has no descriptor to wait for beside the signals
START_LIMIT = 120.0  # seconds for start-up, recovery after a crash included
ORPHAN_LIMIT = 20.0  # seconds for processes of an earlier server to leave
STOP_LIMIT = 30.0  # seconds for a fast shutdown; afterwards an immediate one
LOG_LIMIT = 10_000_000  # bytes of postgres.log kept when the server starts
PR_SET_PDEATHSIG = 1
STATUS_LINE = 7  # of postmaster.pid, counted from 0: what the server says about itself
PORT = 5432  # part of the socket's file name; nothing listens on TCP


def lock(path: Path, mode: int) -> int:
    """Open path and lock it with fcntl.LOCK_* mode; the descriptor holds the lock, BlockingIOError when refused."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_ready(data: Path, sockets: Path) -> bool:
    """Whether the server reports itself ready and its socket answers (the file may be left by a dead server)."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    if len(lines) <= STATUS_LINE or lines[STATUS_LINE].strip() != "ready":
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(sockets / f".s.PGSQL.{PORT}")) == 0


def die_with_parent() -> None:
    """Shut the server down when the keeper is killed; Linux only, elsewhere the next keeper does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


class ServerKeeper:
    """Starts, watches and stops one server. plan: paths, options and user, as the starting process wrote them."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.home, self.data, self.sockets = Path(plan["home"]), Path(plan["data"]), Path(plan["sockets"])
        self.postgres: str = plan["postgres"]
        self.options: list[str] = plan["options"]
        self.uid: int | None = plan["uid"]
        self.gid: int | None = plan["gid"]
        self.process: subprocess.Popen[bytes] | None = None
        self.leaving = False

    def launch(self) -> str:
        """Start the server and wait until it is ready; returns "" or what went wrong."""
        try:
            inherited = self.wait_for_orphans()
        except TimeoutError as error:
            return str(error)
        for stale in (self.data / "postmaster.pid", self.sockets / f".s.PGSQL.{PORT}.lock"):
            # We hold server.lock, so no process of an earlier server is left: its pid may be another program's by now.
            stale.unlink(missing_ok=True)
        log = self.home / "postgres.log"
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            log.unlink()
        with log.open("ab") as output:
            begin = output.tell()
            self.process = subprocess.Popen(  # noqa: S603 - our own binary and our own arguments
                [self.postgres, "-D", str(self.data), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.uid is None else [],
                pass_fds=[inherited],
                preexec_fn=die_with_parent,  # noqa: PLW1509 - this program has one thread
            )
        os.close(inherited)
        return self.wait_until_ready(log, begin)

    def wait_for_orphans(self) -> int:
        """Wait until the processes of an earlier server are gone; returns the locked server.lock."""
        deadline = time.monotonic() + ORPHAN_LIMIT
        asked = False
        while True:
            try:
                return lock(self.home / "server.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = f"processes of an earlier server still run on {self.data}: stop them and try again"
                    raise TimeoutError(message) from None
            if not asked and self.uid is None:  # never as root: the file belongs to the server's user
                asked = True
                with contextlib.suppress(OSError, ValueError, IndexError):
                    os.kill(int((self.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGINT)
            time.sleep(0.02)

    def wait_until_ready(self, log: Path, begin: int) -> str:
        """Wait; returns "", or what the server logged from byte `begin` on."""
        deadline = time.monotonic() + START_LIMIT
        while self.process is not None and self.process.poll() is None:
            if is_ready(self.data, self.sockets):
                return ""
            if time.monotonic() > deadline:
                self.stop()
                return f"the server was not ready after {START_LIMIT:.0f} s"
            time.sleep(0.02)
        with log.open("rb") as written:
            written.seek(begin)
            return written.read().decode(errors="replace").strip() or "the server ended without a message"

    def stop(self) -> None:
        """Fast shutdown, then an immediate one, then kill."""
        if self.process is None:
            return
        for number, limit in ((signal.SIGINT, STOP_LIMIT), (signal.SIGQUIT, 5.0), (signal.SIGKILL, None)):
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(limit)
                return

    def watch(self, wakeup: int) -> None:
        """Keep the server running until its last user has been gone for LINGER seconds."""
        free_since: float | None = None
        while True:
            if select.select([wakeup], [], [], POLL)[0]:
                for number in os.read(wakeup, 64):
                    self.leaving |= number in (signal.SIGTERM, signal.SIGINT)
            gone = self.process is None or self.process.poll() is not None
            if gone and (self.leaving or self.launch()):  # postgres.log says why, and the next start fails alike
                return
            try:
                users = lock(self.home / "users.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                free_since = None
                continue
            free_since = free_since or time.monotonic()
            if self.leaving or time.monotonic() - free_since >= LINGER:
                self.stop()  # a newcomer waits for users.lock until this process ends
                if self.sockets.parent != self.home:  # a short path elsewhere, made for this run
                    with contextlib.suppress(OSError):
                        self.sockets.rmdir()
                return
            os.close(users)


def wake_on_signals() -> int:
    """A descriptor from which the number of each signal to the keeper can be read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reader


def main() -> None:
    """Read the plan from standard input, answer "" or the failure on standard output, then keep the server."""
    plan = json.load(sys.stdin)
    if os.fork():
        os._exit(0)  # the starter waits for this process only, so no zombie stays with it
    os.chdir("/")
    os.umask(0o077)
    keeper = ServerKeeper(plan)
    try:
        held = lock(keeper.home / "keeper.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(held, 0)
        os.write(held, f"{os.getpid()}\n".encode())  # for people; the lock, not the number, says who is alive
        wakeup = wake_on_signals()
        failure = keeper.launch()
    except OSError as error:
        held, wakeup, failure = -1, -1, str(error)
    with contextlib.suppress(OSError):  # the starter may have been killed meanwhile
        os.write(1, failure.encode()[-8000:])
    for standard in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), standard)
    if not failure:
        keeper.watch(wakeup)
        # Released before users.lock, which goes with the process: the next holder of users.lock must find no keeper.
        os.close(held)


if __name__ == "__main__":
    main()

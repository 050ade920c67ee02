"""Real web servers with a host application of a test's own, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

TOKEN = "test-token-of-this-host"  # noqa: S105 - of servers of this machine


@dataclass
class Host:
    """A server that answers. url: its address; log: what it has written."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE)

    def told(self) -> str:
        return self.log.read_text()

    def signal_all(self, how: int) -> None:
        """Send a signal to the process and to every process that it started."""
        os.killpg(self.process.pid, how)

    def stop(self, how: int = signal.SIGTERM) -> float:
        """Seconds from the signal to the end of the process."""
        begun = time.monotonic()
        self.process.send_signal(how)
        self.process.wait(timeout=PATIENCE)
        return time.monotonic() - begun


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nothing uses, below those that clients get from the system."""
    for first in random.sample(range(20_000, 32_000), 1_000):
        with contextlib.ExitStack() as probes:
            try:
                for port in range(first, first + count):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError(f"no {count} free ports in a row")


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def served(
    folder: Path, program: str, *command: str, database_url: str, alive: str = "/", **environ: str
) -> AsyncIterator[Host]:
    """The program as module `hosted` of a server's process. command: words, {port} in them is a free port."""
    (folder / "hosted.py").write_text(program)
    port = free_port()
    words = [word.format(port=port) for word in command]
    own = {"ROWLOCK_DATABASE_URL": database_url, "ROWLOCK_SERVE_TOKEN": TOKEN, "HOME": str(folder)}
    log = folder / "server.log"
    async with started(words, port=port, cwd=folder, log=log, environ=environ | own, alive=alive) as host:
        yield host


@contextlib.asynccontextmanager
async def started(
    words: Sequence[str], *, port: int, cwd: Path, log: Path, environ: Mapping[str, str], alive: str = "/"
) -> AsyncIterator[Host]:
    """A server in a process group of its own, once it answers. words: a program of this environment, its arguments."""
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: ASYNC220 - a moment
            [Path(sys.executable).parent / words[0], *words[1:]],
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            process_group=0,
        )
    host = Host(f"http://127.0.0.1:{port}", process, log)

    async def answers() -> bool:
        assert process.poll() is None, host.told()
        with contextlib.suppress(httpx.TransportError):
            async with host.client() as client:
                await client.get(alive)
                return True
        return False

    try:
        await eventually(answers, within=2 * PATIENCE)  # it imports a framework, and opens the database
        yield host
    finally:
        if process.poll() is None:
            host.signal_all(signal.SIGCONT)  # a test may have failed while it was paused
            process.terminate()
            process.wait(timeout=PATIENCE)

"""Redis and RabbitMQ servers of a test's own, on free ports of the loopback interface, with folders of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.host_processes import free_port
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's program itself; the one on the PATH insists on a user called rabbitmq."""


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once a server accepts connections; fail with its log if it ends or takes too long."""
    until = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    message = f"nothing listens on port {port}:\n{log.read_text(errors='replace')[-4000:]}"
    raise AssertionError(message)


class Redis:
    """A redis-server without persistence: what it forgets is lost."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, empty."""
        self._folder.mkdir(parents=True, exist_ok=True)
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is missing: sudo apt-get install redis-server (or: make brokers)"
        log = self._folder / "redis.log"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with log.open("ab") as out:
            self._process = subprocess.Popen([*command, "--dir", str(self._folder)], stdout=out, stderr=out)
        wait_for_port(self.port, self._process, log)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def flush(self) -> None:
        """FLUSHALL."""
        with socket.create_connection(("127.0.0.1", self.port)) as link:
            link.sendall(b"FLUSHALL\r\n")
            assert link.recv(100).startswith(b"+OK")


class RabbitMQ:
    """A RabbitMQ node with its own cookie, port mapper and folder."""

    def __init__(self, folder: Path) -> None:
        self.port, self._dist, self._epmd, self._folder = free_port(), free_port(), free_port(), folder
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What the node, and its command line tools, need to find each other."""
        folder = str(self._folder)
        return {
            **os.environ,
            "HOME": folder,
            "RABBITMQ_NODENAME": f"rowlock{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": folder,
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_CONFIG_FILE": f"{folder}/none",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd),
        }

    def start(self) -> None:
        """Start the node; queues and messages that were on disk are there again."""
        assert RABBITMQ.exists(), "RabbitMQ is missing: sudo apt-get install rabbitmq-server (or: make brokers)"
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "rabbitmq.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(RABBITMQ)], env=self.environment, stdout=out, stderr=out, start_new_session=True
            )
        wait_for_port(self.port, self._process, log)

    def kill(self) -> None:
        """End the node, and what it started, at once."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            subprocess.run(["epmd", "-kill"], env=self.environment, check=False, capture_output=True)  # noqa: S607 - Erlang's

    def flush(self) -> None:
        """Delete what every queue holds, as an operator's purge would."""
        from kombu import Connection  # noqa: PLC0415 - of the extra

        with Connection(self.url) as link:
            channel = link.default_channel
            channel.queue_purge("celery")

    def empty(self) -> None:
        """flush(), also of a node on which no queue was declared yet."""
        from amqp.exceptions import NotFound  # noqa: PLC0415 - of the extra

        with contextlib.suppress(NotFound):
            self.flush()


@contextlib.contextmanager
def running(broker: Redis | RabbitMQ) -> Iterator[Redis | RabbitMQ]:
    """Start a broker for a block."""
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[int]:
    """A port of this machine that takes connections and never answers, as a broker that hangs; they end with it.

    No connection is accepted: the kernel keeps them, and resets every one when the socket is closed.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening.getsockname()[1]

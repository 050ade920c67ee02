"""Celery on Redis."""

from __future__ import annotations

import os
import time

import redis
from celery import Celery

from bench import probe
from bench.driver import Driver, script

app = Celery("bench", broker=f"redis://127.0.0.1:{os.environ.get('BENCH_REDIS', '6379')}/1")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(name="noop")
def noop(number: int) -> None:
    """The measured task."""
    probe.hit(number)


class Peer(Driver):
    """Celery; its producer blocks."""

    async def install(self) -> None:
        """Empty the broker."""
        redis.Redis(port=self.redis_port, db=1).flushdb()

    async def open(self) -> None:
        """One connection for all calls."""
        self._connection = app.connection_for_write()
        self._producer = app.amqp.Producer(self._connection)

    async def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    async def enqueue(self, number: int) -> None:
        """One task."""
        noop.apply_async((number,), producer=self._producer)

    def command(self) -> list[str]:
        """Its own worker program, without what a lone worker does not need."""
        program = [script("celery"), "-A", __name__, "worker", "-P", "prefork", "-c", str(self.slots), "-l", "WARNING"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return [*program, *quiet, "-n", f"w{time.time_ns()}@bench"]


def make() -> Driver:
    """The driver."""
    return Peer()

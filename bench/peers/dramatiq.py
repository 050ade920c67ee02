"""Dramatiq on Redis."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench import probe
from bench.driver import Driver, script

broker = RedisBroker(host="127.0.0.1", port=int(os.environ.get("BENCH_REDIS", "6379")), db=2)
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop", max_retries=0)
def noop(number: int) -> None:
    """The measured actor."""
    probe.hit(number)


class Peer(Driver):
    """Dramatiq; its producer blocks."""

    async def install(self) -> None:
        """Empty the broker."""
        broker.flush_all()
        broker.client.flushdb()

    async def enqueue(self, number: int) -> None:
        """One message."""
        noop.send(number)

    def command(self) -> list[str]:
        """Its own worker program: one process of threads."""
        return [script("dramatiq"), __name__, "--processes", "1", "--threads", str(self.slots)]


def make() -> Driver:
    """The driver."""
    return Peer()

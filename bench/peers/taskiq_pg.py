"""Taskiq with the PostgreSQL broker: a message is a notification, and there is no claim."""

from __future__ import annotations

import os

from taskiq_pg import AsyncpgBroker

from bench import probe
from bench.driver import Driver, script

broker = AsyncpgBroker(os.environ.get("BENCH_URL", ""))


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    """The measured task."""
    probe.hit(number)


class Peer(Driver):
    """Taskiq."""

    async def install(self) -> None:
        """Starting makes the table."""
        await broker.startup()
        await broker.shutdown()

    async def open(self) -> None:
        """A pool."""
        await broker.startup()

    async def close(self) -> None:
        """Disconnect."""
        await broker.shutdown()

    async def enqueue(self, number: int) -> None:
        """One message."""
        await noop.kiq(number)

    def command(self) -> list[str]:
        """Its own worker program."""
        program = [script("taskiq"), "worker", f"{__name__}:broker", "--workers", "1", "--log-level", "WARNING"]
        return [*program, "--max-async-tasks", str(self.slots)]


def make() -> Driver:
    """The driver."""
    return Peer()

"""DBOS Transact: durable workflows; a queue is polled."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from dbos import DBOS, DBOSClient

from bench import probe
from bench.driver import Driver, terminated

_POLL: Final = 0.05
"""Seconds; its default of 1 s would be measured instead of the rest."""


@DBOS.workflow(name="noop")
async def noop(number: int) -> None:
    """The measured workflow."""
    probe.hit(number)


class Peer(Driver):
    """DBOS; its set-up blocks, so it runs in a thread."""

    def _launch(self) -> None:
        config: Any = {
            "name": "bench",
            "system_database_url": self.url,
            "log_level": "WARNING",
            "application_version": "1",
            "executor_id": f"e{os.getpid()}",
            "sys_db_pool_size": 20,
        }
        DBOS(config=config)
        DBOS.launch()

    async def install(self) -> None:
        """Launching makes the tables."""

        def launch() -> None:
            self._launch()
            DBOS.register_queue(
                "q", worker_concurrency=self.slots, polling_interval_sec=_POLL, on_conflict="always_update"
            )
            DBOS.destroy()

        await asyncio.to_thread(launch)

    async def open(self) -> None:
        """A client."""
        self._client = await asyncio.to_thread(lambda: DBOSClient(system_database_url=self.url))

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.to_thread(self._client.destroy)

    async def enqueue(self, number: int) -> None:
        """One workflow."""
        await self._client.enqueue_async({"workflow_name": "noop", "queue_name": "q"}, number)

    async def work(self) -> None:
        """Until SIGTERM."""
        stop = terminated()
        await asyncio.to_thread(self._launch)
        await stop.wait()
        await asyncio.to_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=1))


def make() -> Driver:
    """The driver."""
    return Peer()

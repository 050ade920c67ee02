"""Awa: a Rust core with Python handlers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import awa

from bench import probe
from bench.driver import Driver, terminated

_BATCH: Final = 5000
_QUEUE: Final = "default"


@dataclass
class Noop:
    """The measured job."""

    number: int


class Peer(Driver):
    """Awa."""

    def _client(self, connections: int) -> Any:  # noqa: ANN401 - an AsyncClient
        # Its URL parser wants a host before the slash, even when the socket's folder is named behind it.
        return awa.AsyncClient(self.url.replace("@/", "@localhost/"), max_connections=connections)

    async def install(self) -> None:
        """Make the tables of the newer of its two storages."""
        client = self._client(2)
        await client.migrate()
        await client.install_queue_storage(reset=True)
        await client.close()

    async def open(self) -> None:
        """A pool."""
        self._opened = self._client(10)

    async def close(self) -> None:
        """Disconnect."""
        await self._opened.close()

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._opened.insert(Noop(number), queue=_QUEUE)

    async def enqueue_many(self, jobs: int) -> None:
        """COPY."""
        for done in range(0, jobs, _BATCH):
            await self._opened.enqueue_many_copy([Noop(-1)] * min(_BATCH, jobs - done), queue=_QUEUE)

    async def work(self) -> None:
        """One queue; everything else as it comes."""
        stop = terminated()
        client = self._client(20)

        @client.task(Noop, queue=_QUEUE)
        async def noop(job: Any) -> None:  # noqa: ANN401 - Awa's Job
            probe.hit(job.args.number)

        queues = [{"name": _QUEUE, "max_workers": self.slots}]
        await client.start(queues, storage_transition_role="queue_storage_target")
        await stop.wait()
        await client.shutdown()


def make() -> Driver:
    """The driver."""
    return Peer()

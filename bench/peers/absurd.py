"""Absurd: durable tasks in stored procedures; a poll, no LISTEN."""

from __future__ import annotations

from typing import Any, Final

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd

from bench import probe
from bench.driver import Driver

_QUEUE: Final = "q"
_POLL: Final = 0.25
"""Its default, in seconds."""


class Peer(Driver):
    """Absurd."""

    async def _app(self) -> Any:  # noqa: ANN401 - an AsyncAbsurd
        self._connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        return AsyncAbsurd(self._connection, queue_name=_QUEUE)

    async def install(self) -> None:
        """The schema that its command-line tool brings along."""
        app = await self._app()
        await self._connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        await app.create_queue(_QUEUE)
        await self._connection.close()

    async def open(self) -> None:
        """One connection."""
        self._opened = await self._app()

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def enqueue(self, number: int) -> None:
        """One task."""
        await self._opened.spawn("noop", {"number": number}, queue=_QUEUE)

    async def work(self) -> None:
        """The batch follows the concurrency."""
        app = await self._app()

        @app.register_task("noop")
        async def noop(params: Any, _ctx: Any) -> None:  # noqa: ANN401 - JSON, and Absurd's context
            probe.hit(params["number"])

        await app.start_worker(concurrency=self.slots, poll_interval=_POLL)


def make() -> Driver:
    """The driver."""
    return Peer()

"""Arq on Redis."""

from __future__ import annotations

from typing import Any, Final

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

from bench import probe
from bench.driver import Driver

_POLL: Final = 0.01
"""Seconds; its default of 0.5 s would be measured instead of the rest."""


async def noop(_ctx: Any, number: int) -> None:  # noqa: ANN401 - Arq's context
    """The measured job."""
    probe.hit(number)


class Peer(Driver):
    """Arq."""

    @property
    def _redis(self) -> Any:  # noqa: ANN401 - RedisSettings
        return RedisSettings(port=self.redis_port)

    async def install(self) -> None:
        """Empty the broker."""
        await self.open()
        await self._pool.flushdb()
        await self.close()

    async def open(self) -> None:
        """A pool."""
        self._pool = await create_pool(self._redis)

    async def close(self) -> None:
        """Disconnect."""
        await self._pool.aclose()

    async def enqueue(self, number: int) -> None:
        """One job."""
        await self._pool.enqueue_job("noop", number)

    async def work(self) -> None:
        """Results are not kept."""
        options: Any = {"redis_settings": self._redis, "max_jobs": self.slots, "keep_result": 0, "poll_delay": _POLL}
        await Worker([noop], handle_signals=True, **options).async_run()  # type: ignore[list-item]  # arq asks for a coroutine with any arguments


def make() -> Driver:
    """The driver."""
    return Peer()

"""Registered keys: the pairs, gates and rates that this process has registered, so that it does so once per key."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from rowlock.errors import RowlockError
from rowlock.store.jobs.claim import register_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.model.queue_pair import Pair
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.enqueue")
_MOST_KEYS: Final = 100_000
"""Keys kept in memory; further ones are registered with every job, which is slower and harmless."""
_AGAIN: Final = 12 * 3600.0
"""Seconds after which a key is registered again: the database forgets keys that nobody registers for a week."""


class RegisteredKeys:
    """Registers on the library's own connection, never in the caller's transaction."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self.forget()

    def forget(self) -> None:
        """Start over: the application uses another database from now on."""
        self._pairs: set[Pair] = set()
        self._gates: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    def lacks(self, jobs: Iterable[PreparedJob]) -> bool:
        """Whether one of the jobs has a pair, gate or rate that is to be registered."""
        for job in jobs:
            if (
                job.pair not in self._pairs
                or (job.gate is not None and _is_old(job.gate.key, self._gates))
                or (job.rates and any(_is_old(str(rate.key), self._rates) for rate in job.rates))
            ):
                return True
        return False

    async def register(self, jobs: Sequence[PreparedJob]) -> None:
        """Register what is new about the jobs. Best effort: the sweep finds pairs that are not registered."""
        try:
            await self._register_pairs({job.pair for job in jobs} - self._pairs)
            await self._register_gates(jobs)
            await self._register_rates(jobs)
        except RowlockError as error:
            logger.debug("not registered, the sweep will find it: %s", error)

    async def _register_pairs(self, pairs: set[Pair]) -> None:
        if pairs:
            await register_pairs(self._open(), sorted(pairs))
            self._pairs |= pairs

    async def _register_gates(self, jobs: Sequence[PreparedJob]) -> None:
        new = {job.gate.key: job.gate for job in jobs if job.gate and _is_old(job.gate.key, self._gates)}
        if new:
            gates = list(new.values())
            await self._open().fetch(
                "register_gates",
                keys=list(new),
                limits=[gate.limit for gate in gates],
                fifos=[gate.fifo for gate in gates],
            )
            _remember(self._gates, new)

    async def _register_rates(self, jobs: Sequence[PreparedJob]) -> None:
        new = {str(rate.key): rate for job in jobs for rate in job.rates if _is_old(str(rate.key), self._rates)}
        if new:
            rates = list(new.values())
            await self._open().fetch(
                "register_rates",
                keys=list(new),
                amounts=[rate.amount for rate in rates],
                pers=[rate.per for rate in rates],
                bursts=[rate.burst for rate in rates],
                slidings=[rate.window for rate in rates],
            )
            _remember(self._rates, new)


def _is_old(key: str, registered: Mapping[str, float]) -> bool:
    at = registered.get(key)
    return at is None or time.monotonic() - at > _AGAIN


def _remember(registered: dict[str, float], keys: Iterable[str]) -> None:
    if len(registered) < _MOST_KEYS:
        registered.update(dict.fromkeys(keys, time.monotonic()))

"""Known: which pairs, gates and rates this process has registered, so that it does so once and not with every job."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from rowlock.errors import RowlockError
from rowlock.store.jobs.claim import register_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.flow.enqueue.prepare import Prepared
    from rowlock.flow.enqueue.wake import Pair
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.enqueue")
_REMEMBERED: Final = 100_000
"""Keys; beyond it they are registered again and again, which is harmless."""
_AGAIN: Final = 12 * 3600.0
"""Seconds after which a key is named again: one that nobody names for a week is forgotten by the database."""


class Known:
    """Registered on the library's own connection, never in the caller's transaction."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database
        self.forget()

    def forget(self) -> None:
        """Another database from now on."""
        self._pairs: set[Pair] = set()
        self._gates: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    def is_new(self, ready: Prepared) -> bool:
        """Whether there is something to register for a job."""
        return (
            ready.pair not in self._pairs
            or (ready.gate is not None and _is_old(ready.gate.key, self._gates))
            or (bool(ready.rates) and any(_is_old(str(rate.key), self._rates) for rate in ready.rates))
        )

    async def register(self, jobs: Sequence[Prepared]) -> None:
        """Best effort: pairs that are not registered are found by the sweep."""
        pairs = {item.pair for item in jobs} - self._pairs
        gates = {item.gate.key: item.gate for item in jobs if item.gate and _is_old(item.gate.key, self._gates)}
        rates = {str(r.key): r for item in jobs for r in item.rates if _is_old(str(r.key), self._rates)}
        database = self._open()
        try:
            if pairs:
                await register_pairs(database, sorted(pairs))
                self._pairs |= pairs
            if gates:
                wanted = list(gates.values())
                await database.fetch(
                    "register_gates",
                    keys=list(gates),
                    limits=[gate.limit for gate in wanted],
                    fifos=[gate.fifo for gate in wanted],
                )
                _remember(self._gates, gates)
            if rates:
                asked = list(rates.values())
                await database.fetch(
                    "register_rates",
                    keys=list(rates),
                    amounts=[rate.amount for rate in asked],
                    pers=[rate.per for rate in asked],
                    bursts=[rate.burst for rate in asked],
                    slidings=[rate.window for rate in asked],
                )
                _remember(self._rates, rates)
        except RowlockError as error:
            logger.debug("not registered, the sweep will find it: %s", error)


def _is_old(key: str, known: Mapping[str, float]) -> bool:
    at = known.get(key)
    return at is None or time.monotonic() - at > _AGAIN


def _remember(known: dict[str, float], keys: Iterable[str]) -> None:
    if len(known) < _REMEMBERED:
        known.update(dict.fromkeys(keys, time.monotonic()))

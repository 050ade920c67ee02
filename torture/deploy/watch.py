"""What an upgrade costs those who use the tables: the locks it holds and waits for, and the calls that took long."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final, Self

from torture.ledger import Asked, Line, read
from torture.stage import TROUBLE

if TYPE_CHECKING:
    from pathlib import Path

    from torture.stage import Stage

_EVERY: Final = 0.005
# Tables that were there before: what the step itself creates nobody else sees. The modes are what a write waits for.
_LOCKS: Final = """
SELECT c.relname, l.granted
FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
WHERE a.application_name = 'rowlock:schema' AND a.datname = current_database() AND c.relkind = 'r'
  AND c.relnamespace = 'rowlock'::regnamespace
  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


class Watch:
    """Looks at the locks of upgrades every few milliseconds. Seconds by table, the longest without a break."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.held: dict[str, float] = {}
        """Locks that let nobody write."""
        self.awaited: dict[str, float] = {}
        """Such locks while they were waited for: whoever came later waited, too."""
        self._since: dict[tuple[str, bool], float] = {}

    async def __aenter__(self) -> Self:
        self._connection = await self._stage.server.connect(self._stage.database)
        self.began = time.monotonic()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.ended = time.monotonic()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._connection.terminate()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(*TROUBLE):
                self._look([(row["relname"], row["granted"]) for row in await self._connection.fetch(_LOCKS)])
            await asyncio.sleep(_EVERY)

    def _look(self, seen: list[tuple[str, bool]]) -> None:
        now = time.monotonic()
        self._since = {key: self._since.get(key, now - _EVERY) for key in seen}
        for (table, granted), since in self._since.items():
            longest = self.held if granted else self.awaited
            longest[table] = max(longest.get(table, 0.0), now - since)

    def notes(self, ledger: Path) -> dict[str, float]:
        """Figures for the report."""
        calls, waits = stalls(ledger, self.began, self.ended)
        return {
            "upgrade": round(self.ended - self.began, 1),
            "longest lock": round(max(self.held.values(), default=0.0), 3),
            "longest wait for one": round(max(self.awaited.values(), default=0.0), 3),
            "longest call": round(calls, 2),
            "longest pick-up": round(waits, 2),
        }


def stalls(ledger: Path, since: float, until: float) -> tuple[float, float]:
    """The longest of producers' calls under way then; the longest from the answer for a plain job then to its start."""
    entries = list(read(ledger))
    asked = [e for e in entries if isinstance(e, Asked) and e.at >= since and e.at - e.took <= until]
    starts: dict[int, float] = {}
    for line in entries:
        if isinstance(line, Line) and line.what == "start":
            starts[line.job] = min(line.at, starts.get(line.job, line.at))
    waits = [
        starts[call.job] - call.at
        for call in asked
        if call.kind == "plain" and call.job is not None and call.job in starts and call.at <= until
    ]
    return max((call.took for call in asked), default=0.0), max(waits, default=0.0)

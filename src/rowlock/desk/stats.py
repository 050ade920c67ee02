"""The statistics desk: how much there is to do, how fast it is done, and what goes wrong. No count is unbounded."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk import load
from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.desk.workers import views
from rowlock.errors import InvalidOption
from rowlock.model.access import Permission
from rowlock.model.count import Count
from rowlock.model.duration import duration
from rowlock.model.load import Failures, Overview, Throughput
from rowlock.model.state import FINAL, State
from rowlock.store import lanes as lane_rows
from rowlock.store import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.model.load import Backlog, Running
    from rowlock.model.options import Span
    from rowlock.store.database import Database

_ENDS: Final = 20_000
"""Ended jobs that are read to tell failures."""
_INDEXED: Final = 100_000
"""Ended jobs that are counted in the index alone."""


class Stats:
    """app.stats. A Count that reached its cap is marked so and prints as 10,000+."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.WORKERS_VIEW)
    async def overview(self, *, window: Span = "1h") -> Overview:
        """Jobs by state, lanes with running, slots and oldest wait, and workers. window: which ends are counted."""
        since = _window(window, "window")
        async with self._open().snapshot() as snapshot:
            states = {State(row["state"]): row for row in await snapshot.fetch("state_counts", cap=load.CAP)}
            ended = {row["state"]: row["n"] for row in await snapshot.fetch("ended_counts", since=since, cap=load.CAP)}
            lanes, workers = await lane_rows.read(snapshot), await views(snapshot)
            backlog, now = await load.backlog(snapshot, lanes)
            use = await load.slot_use(snapshot)
        capped = sum(ended.values()) > load.CAP
        return Overview(
            at=now,
            states={
                state: Count(min(row["n"], load.CAP), row["n"] > load.CAP or row["more"])
                for state, row in states.items()
            },
            ended={state: Count(ended.get(state, 0), capped) for state in State if state in FINAL},
            window=since,
            lanes=load.lane_loads(lanes, workers, backlog, use),
            workers=workers,
        )

    @reads(Permission.WORKERS_VIEW)
    async def backlog(self) -> Sequence[Backlog]:
        """Queued jobs by kind, with the lane that serves it: due, scheduled, oldest wait; the longest wait first."""
        database = self._open()
        depth, _ = await load.backlog(database, await lane_rows.read(database))
        return depth

    @reads(Permission.WORKERS_VIEW)
    async def slow(self, longer_than: Span, *, limit: int = 500) -> Sequence[Running]:
        """Jobs that have been running for longer than this, the longest first."""
        return await load.running(self._open(), self._guard, longer_than=duration(longer_than, "longer_than"), n=limit)

    @reads(Permission.WORKERS_VIEW)
    async def failures(self, since: Span = "1h") -> Sequence[Failures]:
        """How jobs ended within the window, by kind, the most failures first: ended, failed, rate, the last error."""
        found = await self._open().fetch("failures", since=_window(since, "since"), cap=_ENDS, **self._guard.sight)
        capped = bool(found) and found[0]["read"] > _ENDS
        return [
            Failures(
                row["kind"],
                ended=Count(row["ended"], capped),
                failed=Count(row["failed"], capped),
                last_failed_at=row["last_at"],
                last_failed_id=row["last_id"],
                last_error=rows.json_of(row["last_error"]),
            )
            for row in found
        ]

    @reads(Permission.WORKERS_VIEW)
    async def throughput(self, window: Span = "5m") -> Throughput:
        """How many jobs ended within the window, and how many that is a second."""
        since = _window(window, "window")
        (row,) = await self._open().fetch("throughput", since=since, cap=_INDEXED)
        counted = Count.upto(row["n"], _INDEXED)
        return Throughput(counted, row["span"] if counted.capped else since)


def _window(value: Span, name: str) -> timedelta:
    window = duration(value, name)
    if window <= timedelta(0):
        message = f"{name} must be longer than 0; got {value!r}."
        raise InvalidOption(message)
    return window

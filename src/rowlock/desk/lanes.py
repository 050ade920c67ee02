"""The lanes desk: tune lanes and see workers while everything runs; edits apply within two seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidOption, WrongState
from rowlock.model.options import span
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowlock.model.lane import Lane, Ordering
    from rowlock.model.options import Span
    from rowlock.store.database import Database

NO_CAP: Final = -1
"""Removes max_total."""
_MOST_SLOTS: Final = 100_000


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker as its row tells. silent: no beat for 15 seconds."""

    id: int
    name: str
    host: str
    pid: int
    version: str
    lanes: Sequence[str] | None
    kinds: Sequence[str]
    started_at: datetime
    seen_at: datetime
    state: str
    silent: bool
    running: int


class Lanes:
    """app.lanes."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database

    async def list(self) -> list[Lane]:
        """Every lane, by name."""
        return await lane_rows.read(self._open())

    async def get(self, name: str) -> Lane:
        """One lane; UnknownLane when it is not there."""
        found = {lane.name: lane for lane in await self.list()}
        if name not in found:
            raise lane_rows.unknown_lane(name, found)
        return found[name]

    async def running(self) -> dict[str, int]:
        """How many jobs of each lane run now."""
        return {row["lane"]: row["running"] for row in await self._open().fetch("lane_running")}

    async def create(self, lane: Lane) -> Lane:
        """Create the lane if it is absent; afterwards its row decides. Returns the lane as it stands."""
        check(slots=lane.slots, max_total=lane.max_total, ordering=lane.ordering)
        made = await lane_rows.add(self._open(), lane)
        if made is not None and lane.kinds:
            await self._open().fetch("lane_drop_kinds", name=lane.name, kinds=list(lane.kinds))
        await self._announce()
        return made or await self.get(lane.name)

    async def set(
        self,
        name: str,
        *,
        kinds: Sequence[str] | None = None,
        slots: int | None = None,
        max_total: int | None = None,
        order: Ordering | None = None,
        poll: Span | None = None,
        stale: Span | None = None,
        enabled: bool | None = None,
        version: int | None = None,
    ) -> Lane:
        """Change what is given; version: only if the lane still has it. max_total -1 removes the cap."""
        check(slots=slots, max_total=max_total, ordering=order)
        database = self._open()
        found = await database.fetch(
            "lane_set",
            name=name,
            kinds=None if kinds is None else list(kinds),
            slots=slots,
            max_total=max_total,
            ordering=order,
            poll_every=span(poll, "poll"),
            stale_after=span(stale, "stale"),
            enabled=enabled,
            version=version,
        )
        if not found:
            lane = await self.get(name)
            message = (
                f"Lane {name!r} is at version {lane.version}, not {version}: someone else changed it. Read it again."
            )
            raise WrongState(message)
        if kinds is not None:
            await database.fetch("lane_drop_kinds", name=name, kinds=list(kinds))
        if max_total is not None:
            await database.fetch("lane_cap", name=name)
        await self._announce()
        return lane_rows.lane_of(found[0])

    async def drain(self, name: str) -> Lane:
        """Start nothing more in this lane; what runs goes on."""
        return await self.set(name, enabled=False)

    async def resume(self, name: str) -> Lane:
        """Start jobs of this lane again."""
        return await self.set(name, enabled=True)

    async def _announce(self) -> None:
        database = self._open()
        await database.fetch("notify", channel=database.channel, payload='{"lanes":1}')


class Workers:
    """app.workers."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database

    async def list(self) -> list[WorkerView]:
        """Workers that have not said good-bye."""
        return [
            WorkerView(
                id=row["id"],
                name=row["name"],
                host=row["host"],
                pid=row["pid"],
                version=row["version"],
                lanes=row["lanes"],
                kinds=row["kinds"],
                started_at=row["started_at"],
                seen_at=row["seen_at"],
                state=row["state"],
                silent=row["silent"],
                running=row["running"],
            )
            for row in await self._open().fetch("workers")
        ]


def check(*, slots: int | None, max_total: int | None, ordering: str | None) -> None:
    """Refuse values the table would refuse, with a better message."""
    if slots is not None and not 0 <= slots <= _MOST_SLOTS:
        message = f"slots must be from 0 to {_MOST_SLOTS}; got {slots}."
        raise InvalidOption(message)
    if max_total is not None and max_total < NO_CAP:
        message = f"max_total must be 0 or more, or -1 for no cap; got {max_total}."
        raise InvalidOption(message)
    if ordering is not None and ordering not in ("fast", "strict"):
        message = f'order must be "fast" or "strict"; got {ordering!r}.'
        raise InvalidOption(message)

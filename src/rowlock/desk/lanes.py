"""The lanes desk: declare lanes in code, tune them while everything runs; edits apply within two seconds."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import ConfigurationError, InvalidOption, WrongState
from rowlock.model.access import Permission
from rowlock.model.duration import duration, humanise
from rowlock.model.lane import Lane
from rowlock.model.messages import LanesEdited, encode
from rowlock.model.options import span
from rowlock.model.rate import Rate
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.model.lane import Ordering
    from rowlock.model.options import Span
    from rowlock.store.database import Database

NO_CAP: Final = -1
"""Removes max_total."""
NO_RATE: Final = "{}"
"""Removes the rate, as the statement has it."""
_MOST_SLOTS: Final = 100_000
_LONGEST_NAME: Final = 100
_STAMPS: Final = ("version", "updated_at")


class Lanes:
    """app.lanes."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard
        self._defined: dict[str, Lane] = {}

    def define(
        self,
        name: str,
        *,
        kinds: Sequence[str] = (),
        slots: int = 10,
        max_total: int | None = None,
        order: Ordering = "fast",
        poll: Span = "5s",
        stale: Span = "60s",
        stall: Span | None = None,
        requires_approval: bool = False,
        rate: Rate | str | None = None,
        age: Span | None = None,
    ) -> Lane:
        """Declare a lane in code, at import time: a starting worker creates it if it is absent.

        Afterwards its row decides and operators edit it live. slots: jobs at once per worker process; max_total: over
        all workers; poll: between looks of an idle worker; stale: silence after which a worker's jobs are lost;
        stall: time without a report after which a running job is; requires_approval: its jobs wait for a person;
        rate: how often its jobs may start over all workers; age: a job that waits for so long rises by one priority.
        """
        self._guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
        lane = _lane(name, kinds, slots=slots, max_total=max_total, order=order, poll=poll, stale=stale, stall=stall)
        lane = replace(lane, requires_approval=requires_approval, rate=_rate(rate), age_every=_age(age))
        if self._defined.setdefault(name, lane) != lane:
            message = f"The lane {name!r} is defined twice, and differently. Define it in one place."
            raise ConfigurationError(message)
        return lane

    @property
    def defined(self) -> Sequence[Lane]:
        """The lanes declared in code."""
        return tuple(self._defined.values())

    @reads(Permission.WORKERS_VIEW)
    async def get(self, name: str) -> Lane:
        """One lane; UnknownLane when it is not there."""
        return await self._find(name)

    async def _find(self, name: str) -> Lane:
        found = {lane.name: lane for lane in await lane_rows.read(self._open())}
        if name not in found:
            raise lane_rows.unknown_lane(name, found)
        return found[name]

    @reads(Permission.WORKERS_VIEW)
    async def running(self) -> dict[str, int]:
        """How many jobs of each lane run now."""
        return {row["lane"]: row["running"] for row in await self._open().fetch("lane_running")}

    @changes(Permission.WORKERS_MANAGE)
    async def create(
        self,
        lane: Lane | str,
        *,
        kinds: Sequence[str] = (),
        slots: int = 10,
        max_total: int | None = None,
        order: Ordering = "fast",
        poll: Span = "5s",
        stale: Span = "60s",
        stall: Span | None = None,
        rate: Rate | str | None = None,
        age: Span | None = None,
        must_be_new: bool = False,
    ) -> Lane:
        """Create the lane if it is absent; afterwards its row decides. Returns the lane as it stands.

        lane: a name with the keywords of define(), or a Lane, whose own values count. must_be_new: WrongState when it
        is there already; of several at once, one succeeds.
        """
        if isinstance(lane, str):
            lane = _lane(
                lane, kinds, slots=slots, max_total=max_total, order=order, poll=poll, stale=stale, stall=stall
            )
            lane = replace(lane, rate=_rate(rate), age_every=_age(age))
        check(slots=lane.slots, max_total=lane.max_total, ordering=lane.ordering)
        made = await lane_rows.add(self._open(), lane)
        if made is None and must_be_new:
            message = f"There is a lane {lane.name!r} already. Change it instead."
            raise WrongState(message)
        if made is not None and lane.kinds:
            await self._open().fetch("lane_drop_kinds", name=lane.name, kinds=list(lane.kinds))
        if made is not None:
            await self._record("lane.create", None, made)
        await self._announce()
        return made or await self._find(lane.name)

    @changes(Permission.WORKERS_MANAGE)
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
        stall: Span | None = None,
        requires_approval: bool | None = None,
        enabled: bool | None = None,
        rate: Rate | str | None = None,
        age: Span | None = None,
        version: int | None = None,
    ) -> Lane:
        """Change what is given; version: only if the lane still has it.

        max_total -1, stall 0, rate "off" and age 0 remove them.
        """
        check(slots=slots, max_total=max_total, ordering=order)
        database, before = self._open(), await self._find(name)
        found = await database.fetch(
            "lane_set",
            name=name,
            kinds=None if kinds is None else list(kinds),
            slots=slots,
            max_total=max_total,
            ordering=order,
            poll_every=span(poll, "poll"),
            stale_after=span(stale, "stale"),
            stall_after=None if stall is None else _stall(stall, off=True),
            requires_approval=requires_approval,
            enabled=enabled,
            rate=NO_RATE if rate == "off" else None if rate is None else cast("Rate", _rate(rate)).stored,
            age_every=_age(age, off=True),
            version=version,
        )
        if not found:
            lane = await self._find(name)
            message = (
                f"Lane {name!r} is at version {lane.version}, not {version}: someone else changed it. Read it again."
            )
            raise WrongState(message)
        if kinds is not None:
            await database.fetch("lane_drop_kinds", name=name, kinds=list(kinds))
        if max_total is not None:
            await database.fetch("lane_cap", name=name)
        if rate is not None:
            await database.fetch("lane_rate", name=name)
        lane = lane_rows.lane_of(found[0])
        await self._record("lane.set", before, lane)
        await self._announce()
        return lane

    @changes(Permission.WORKERS_MANAGE)
    async def delete(self, name: str) -> Lane:
        """Remove a lane in which nothing runs; its kinds fall to the lane of '*'. Returns it as it was.

        A worker that starts with code which defines the lane, or names it in a decorator, creates it again.
        """
        gone = await self._open().fetch("lane_delete", name=name)
        if not gone:
            await self._find(name)
            message = f"Lane {name!r} has running jobs. Drain it, wait until they have ended, and delete it then."
            raise WrongState(message)
        lane = lane_rows.lane_of(gone[0])
        await self._record("lane.delete", lane, None)
        await self._announce()
        return lane

    @changes(Permission.WORKERS_MANAGE)
    async def drain(self, name: str) -> Lane:
        """Start nothing more in this lane; what runs goes on."""
        return await self.set(name, enabled=False)

    @changes(Permission.WORKERS_MANAGE)
    async def resume(self, name: str) -> Lane:
        """Start jobs of this lane again."""
        return await self.set(name, enabled=True)

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[Lane]:
        """Every lane, by name."""
        return await lane_rows.read(self._open())

    async def _record(self, action: str, before: Lane | None, after: Lane | None) -> None:
        """What changed, and nothing else of the lane."""
        was, now = ({} if lane is None else asdict(lane) for lane in (before, after))
        changed = [key for key in {**was, **now} if was.get(key) != now.get(key) and key not in _STAMPS]
        await audit.record(
            self._open(),
            self._guard,
            action,
            f"lane:{(after or before or Lane('')).name}",
            before={key: was[key] for key in changed} if was else None,
            after={key: now[key] for key in changed} if now else None,
        )

    async def _announce(self) -> None:
        database = self._open()
        await database.fetch("notify", channel=database.channel, payload=encode(LanesEdited()))


def _lane(
    name: str,
    kinds: Sequence[str],
    *,
    slots: int,
    max_total: int | None,
    order: Ordering,
    poll: Span,
    stale: Span,
    stall: Span | None,
) -> Lane:
    if isinstance(kinds, str):
        message = f"kinds is a sequence of names; got the text {kinds!r}. Write [{kinds!r}]."
        raise InvalidOption(message)
    if not 1 <= len(name) <= _LONGEST_NAME:
        message = f"A lane's name has 1 to {_LONGEST_NAME} characters; got {name!r}."
        raise InvalidOption(message)
    check(slots=slots, max_total=max_total, ordering=order)
    return Lane(
        name,
        kinds=tuple(kinds),
        slots=slots,
        max_total=None if max_total == NO_CAP else max_total,
        ordering=order,
        poll_every=_at_least(poll, "poll", timedelta(milliseconds=10)),
        stale_after=_at_least(stale, "stale", timedelta(seconds=1)),
        stall_after=None if stall is None else _stall(stall),
    )


def _stall(value: Span, *, off: bool = False) -> timedelta:
    """A limit on silence; off: 0 stands for none. Shorter than a few reports it would call busy jobs lost."""
    if off and (value == "off" or duration(value, "stall") == timedelta(0)):
        return timedelta(0)
    return _at_least(value, "stall", timedelta(seconds=5))


def _rate(value: Rate | str | None) -> Rate | None:
    return Rate.parse(value) if isinstance(value, str) else value


def _age(value: Span | None, *, off: bool = False) -> timedelta | None:
    """How long a job waits in its priority; off: 0 stands for ever."""
    if value is None:
        return None
    if off and (value == "off" or duration(value, "age") == timedelta(0)):
        return timedelta(0)
    return _at_least(value, "age", timedelta(seconds=1))


def _at_least(value: Span, name: str, least: timedelta) -> timedelta:
    given = duration(value, name)
    if given < least:
        message = f"{name} must be {humanise(least)} or more; got {value!r}."
        raise InvalidOption(message)
    return given


def check(*, slots: int | None, max_total: int | None, ordering: str | None) -> None:
    """Refuse values the table would refuse, with a better message."""
    if slots is not None and not 0 <= slots <= _MOST_SLOTS:
        message = f"slots must be from 0 to {_MOST_SLOTS}; got {slots}."
        raise InvalidOption(message)
    if max_total is not None and max_total < NO_CAP:
        message = f"max_total must be 0 or more, or -1 for no cap; got {max_total}."
        raise InvalidOption(message)
    if ordering is not None and ordering not in ("fast", "strict", "fair"):
        message = f'order must be "fast", "strict" or "fair"; got {ordering!r}.'
        raise InvalidOption(message)

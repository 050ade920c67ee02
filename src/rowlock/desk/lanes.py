"""app.lanes: declare lanes in code and tune them while workers run; edits apply within two seconds."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from rowlock.desk import audit, current_load
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import ConfigurationError, InvalidOption, WrongState
from rowlock.model.access import Permission, PermissionScope
from rowlock.model.lane import Lane
from rowlock.model.notify_messages import LanesEdited, encode
from rowlock.model.options import span
from rowlock.model.rate import Rate
from rowlock.model.spelling.renamed import RENAMED_LANE_FIELDS, accepts_old_names
from rowlock.model.times.duration import duration, humanise
from rowlock.store import lanes as lane_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.errors import UnknownLane
    from rowlock.model.lane import LaneOrder
    from rowlock.model.options import Span
    from rowlock.model.workload import LaneLoad
    from rowlock.store.database import Database
    from rowlock.store.executor import SqlSession

NO_CAP: Final = -1
"""As max_total: removes it."""
NO_RATE: Final = "{}"
"""The statement's sign for removing the rate."""
_MAX_SLOTS: Final = 100_000
_MAX_NAME_LENGTH: Final = 100
_NOT_AUDITED: Final = ("version", "updated_at")
"""Columns that every change touches."""
_SHORTEST_POLL_INTERVAL: Final = timedelta(milliseconds=10)
_SHORTEST_HEARTBEAT_TIMEOUT: Final = timedelta(seconds=1)
_SHORTEST_PROGRESS_TIMEOUT: Final = timedelta(seconds=5)
"""Reports are written once a second: a shorter limit would give up busy jobs."""
_SHORTEST_AGING_INTERVAL: Final = timedelta(seconds=1)


class Lanes:
    """Lanes: declare, read, create, change, drain, resume, delete."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard
        self._defined: dict[str, Lane] = {}

    @accepts_old_names(RENAMED_LANE_FIELDS)
    def define(
        self,
        name: str,
        *,
        kinds: Sequence[str] = (),
        slots: int = 10,
        max_total: int | None = None,
        order: LaneOrder = "fast",
        poll_interval: Span = "5s",
        heartbeat_timeout: Span = "60s",
        progress_timeout: Span | None = None,
        requires_approval: bool = False,
        rate: Rate | str | None = None,
        aging_interval: Span | None = None,
    ) -> Lane:
        """Declare a lane in code, at import time: a starting worker creates it if it is absent.

        Afterwards its row decides, and operators edit it live.
        slots: jobs at once per worker process; max_total: jobs at once over all workers.
        order: "fast", "strict" (priority and age exactly) or "fair" (tenants take turns).
        poll_interval: between two looks of an idle lane.
        heartbeat_timeout: a worker that is silent for so long is lost, and its jobs with it.
        progress_timeout: a running job that reports nothing for so long is given up.
        requires_approval: its jobs wait for a person. rate: how often its jobs may start, over all workers.
        aging_interval: a waiting job rises by one priority per interval.
        """
        self._guard.demand(Permission.WORKERS_MANAGE, unsafe=True)
        lane = new_lane(
            name,
            kinds,
            slots=slots,
            max_total=max_total,
            order=order,
            poll_interval=poll_interval,
            heartbeat_timeout=heartbeat_timeout,
            progress_timeout=progress_timeout,
            rate=rate,
            aging_interval=aging_interval,
        )
        lane = replace(lane, requires_approval=requires_approval)
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
        """One lane; UnknownLane if there is none of that name."""
        return await self._find(name)

    @reads(Permission.WORKERS_MANAGE, scoped=True)
    async def get_for_change(self, name: str) -> Lane:
        """One lane, for a principal that may change it, with the version to pass to set()."""
        self._guard.demand_named(Permission.WORKERS_MANAGE, lane=name)
        return await self._find(name)

    async def _find(self, name: str) -> Lane:
        found = {lane.name: lane for lane in await lane_rows.read(self._open())}
        if name not in found:
            raise self._unknown(name, found)
        return found[name]

    def _unknown(self, name: str, there: Iterable[str]) -> UnknownLane:
        """The error for a lane that does not exist; it names no lanes that the principal may neither see nor change."""
        who = self._guard.principal
        scopes = who.scopes(Permission.WORKERS_MANAGE)
        if who.may(Permission.WORKERS_VIEW):
            return lane_rows.unknown_lane(name, there)
        reached = [lane for lane in there if any(scope.covers(PermissionScope(lane=lane)) for scope in scopes)]
        return lane_rows.unknown_lane(name, reached)

    @reads(Permission.WORKERS_VIEW)
    async def running(self) -> dict[str, int]:
        """The number of running jobs per lane."""
        return {row["lane"]: row["running"] for row in await self._open().fetch("lane_running")}

    @accepts_old_names(RENAMED_LANE_FIELDS)
    @changes(Permission.WORKERS_MANAGE)
    async def create(
        self,
        lane: Lane | str,
        *,
        kinds: Sequence[str] = (),
        slots: int = 10,
        max_total: int | None = None,
        order: LaneOrder = "fast",
        poll_interval: Span = "5s",
        heartbeat_timeout: Span = "60s",
        progress_timeout: Span | None = None,
        rate: Rate | str | None = None,
        aging_interval: Span | None = None,
        must_be_new: bool = False,
    ) -> Lane:
        """Create the lane if it is absent, and return the lane as its row has it.

        lane: a name with the keywords of define(), or a Lane, which brings its own values. must_be_new: WrongState
        when the lane exists already; of several callers at once, one succeeds.
        """
        if isinstance(lane, str):
            lane = new_lane(
                lane,
                kinds,
                slots=slots,
                max_total=max_total,
                order=order,
                poll_interval=poll_interval,
                heartbeat_timeout=heartbeat_timeout,
                progress_timeout=progress_timeout,
                rate=rate,
                aging_interval=aging_interval,
            )
        check(slots=lane.slots, max_total=lane.max_total, order=lane.order)
        async with self._open().transaction() as session:
            made = await lane_rows.add(session, lane)
            if made is not None:
                if lane.kinds:
                    await session.fetch("lane_drop_kinds", name=lane.name, kinds=list(lane.kinds))
                await self._record(session, "lane.create", None, made)
                return made
        if must_be_new:
            message = f"There is a lane {lane.name!r} already. Change it instead."
            raise WrongState(message)
        return await self._find(lane.name)

    @accepts_old_names(RENAMED_LANE_FIELDS)
    @changes(Permission.WORKERS_MANAGE, scoped=True)
    async def set(
        self,
        name: str,
        *,
        kinds: Sequence[str] | None = None,
        slots: int | None = None,
        max_total: int | None = None,
        order: LaneOrder | None = None,
        poll_interval: Span | None = None,
        heartbeat_timeout: Span | None = None,
        progress_timeout: Span | None = None,
        requires_approval: bool | None = None,
        enabled: bool | None = None,
        rate: Rate | str | None = None,
        aging_interval: Span | None = None,
        version: int | None = None,
    ) -> Lane:
        """Change the given settings; the others stay. version: only if the lane still has this version.

        A call that changes nothing leaves the version as it is, and no trace in the audit.
        max_total -1, progress_timeout 0, rate "off" and aging_interval 0 remove the setting. Other kinds, which a lane
        takes from other lanes, need workers:manage without a scope.
        """
        self._guard.demand_named(Permission.WORKERS_MANAGE, lane=name)
        if kinds is not None:
            self._guard.demand(Permission.WORKERS_MANAGE)
        check(slots=slots, max_total=max_total, order=order)
        poll, heartbeat = span(poll_interval, "poll_interval"), span(heartbeat_timeout, "heartbeat_timeout")
        progress = _removable(progress_timeout, "progress_timeout", _SHORTEST_PROGRESS_TIMEOUT)
        aging = _removable(aging_interval, "aging_interval", _SHORTEST_AGING_INTERVAL)
        stored_rate = NO_RATE if rate == "off" else None if rate is None else cast("Rate", _rate(rate)).stored
        values = {
            "kinds": None if kinds is None else list(kinds),
            "slots": slots,
            "max_total": max_total,
            "ordering": order,
            "poll_every": poll,
            "stale_after": heartbeat,
            "stall_after": progress,
            "requires_approval": requires_approval,
            "enabled": enabled,
            "rate": stored_rate,
            "age_every": aging,
        }
        async with self._open().transaction() as session:
            return await self._set(session, name, values, version)

    async def _set(self, session: SqlSession, name: str, values: Mapping[str, Any], version: int | None) -> Lane:
        locked = await session.fetch("lane_for_change", name=name)
        if not locked:
            raise self._unknown(name, [lane.name for lane in await lane_rows.read(session)])
        before = lane_rows.lane_of(locked[0])
        if version is not None and before.version != version:
            message = (
                f"Lane {name!r} is at version {before.version}, not {version}: someone else changed it. Read it again."
            )
            raise WrongState(message)
        found = await session.fetch("lane_set", name=name, version=version, **values)
        if not found:
            return before
        if values["kinds"] is not None:
            await session.fetch("lane_drop_kinds", name=name, kinds=values["kinds"])
        if values["max_total"] is not None:
            await session.fetch("lane_cap", name=name)
        if values["rate"] is not None:
            await session.fetch("lane_rate", only=[f"lane:{name}"])
        lane = lane_rows.lane_of(found[0])
        await self._record(session, "lane.set", before, lane)
        return lane

    @changes(Permission.WORKERS_MANAGE)
    async def delete(self, name: str) -> Lane:
        """Remove a lane in which no job runs, and return it; its kinds go to the lane of '*'.

        A worker whose code defines the lane, or names it in a decorator, creates it again at its start.
        """
        async with self._open().transaction() as session:
            gone = await session.fetch("lane_delete", name=name)
            if gone:
                lane = lane_rows.lane_of(gone[0])
                await self._record(session, "lane.delete", lane, None)
                return lane
        await self._find(name)
        message = f"Lane {name!r} has running jobs. Drain it, wait until they have ended, and delete it then."
        raise WrongState(message)

    @changes(Permission.WORKERS_MANAGE, scoped=True)
    async def drain(self, name: str) -> Lane:
        """Start no more jobs of this lane; running ones go on."""
        return await self.set(name, enabled=False)

    @changes(Permission.WORKERS_MANAGE, scoped=True)
    async def resume(self, name: str) -> Lane:
        """Start jobs of this lane again."""
        return await self.set(name, enabled=True)

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[Lane]:
        """Every lane, by name."""
        return await lane_rows.read(self._open())

    async def _record(self, session: SqlSession, action: str, before: Lane | None, after: Lane | None) -> None:
        """Write the settings that changed to the audit, and tell workers when the change is committed."""
        was, now = ({} if lane is None else _settings(lane) for lane in (before, after))
        changed = [key for key in {**was, **now} if was.get(key) != now.get(key)]
        await audit.record(
            session,
            self._guard,
            action,
            f"lane:{(after or before or Lane('')).name}",
            before={key: was[key] for key in changed} if was else None,
            after={key: now[key] for key in changed} if now else None,
        )
        await session.fetch("notify", channel=session.channel, payload=encode(LanesEdited()))

    @reads(Permission.WORKERS_VIEW)
    async def loads(self) -> Sequence[LaneLoad]:
        """Every lane with its use: running jobs, slots of all live workers, and what waits for it."""
        async with self._open().snapshot() as snapshot:
            return await current_load.lane_loads(snapshot, await lane_rows.read(snapshot))


def _settings(lane: Lane) -> dict[str, object]:
    return {field.name: getattr(lane, field.name) for field in fields(lane) if field.name not in _NOT_AUDITED}


def new_lane(
    name: str,
    kinds: Sequence[str],
    *,
    slots: int,
    max_total: int | None,
    order: LaneOrder,
    poll_interval: Span,
    heartbeat_timeout: Span,
    progress_timeout: Span | None,
    rate: Rate | str | None,
    aging_interval: Span | None,
) -> Lane:
    """A Lane of these settings; InvalidOption names the one that is impossible."""
    if isinstance(kinds, str):
        message = f"kinds is a sequence of names; got the text {kinds!r}. Write [{kinds!r}]."
        raise InvalidOption(message)
    if not 1 <= len(name) <= _MAX_NAME_LENGTH:
        message = f"A lane's name has 1 to {_MAX_NAME_LENGTH} characters; got {name!r}."
        raise InvalidOption(message)
    check(slots=slots, max_total=max_total, order=order)
    return Lane(
        name,
        kinds=tuple(kinds),
        slots=slots,
        max_total=None if max_total == NO_CAP else max_total,
        order=order,
        poll_interval=_at_least(poll_interval, "poll_interval", _SHORTEST_POLL_INTERVAL),
        heartbeat_timeout=_at_least(heartbeat_timeout, "heartbeat_timeout", _SHORTEST_HEARTBEAT_TIMEOUT),
        progress_timeout=None
        if progress_timeout is None
        else _at_least(progress_timeout, "progress_timeout", _SHORTEST_PROGRESS_TIMEOUT),
        rate=_rate(rate),
        aging_interval=None
        if aging_interval is None
        else _at_least(aging_interval, "aging_interval", _SHORTEST_AGING_INTERVAL),
    )


def _rate(value: Rate | str | None) -> Rate | None:
    return Rate.parse(value) if isinstance(value, str) else value


def _removable(value: Span | None, name: str, shortest: timedelta) -> timedelta | None:
    """None: the setting stays; 0 or "off": the statement removes it."""
    if value is None:
        return None
    if value == "off" or duration(value, name) == timedelta(0):
        return timedelta(0)
    return _at_least(value, name, shortest)


def _at_least(value: Span, name: str, shortest: timedelta) -> timedelta:
    given = duration(value, name)
    if given < shortest:
        message = f"{name} must be {humanise(shortest)} or more; got {value!r}."
        raise InvalidOption(message)
    return given


def check(*, slots: int | None, max_total: int | None, order: str | None) -> None:
    """Refuse the values that the table would refuse, with a message that says what to write."""
    if slots is not None and not 0 <= slots <= _MAX_SLOTS:
        message = f"slots must be from 0 to {_MAX_SLOTS}; got {slots}."
        raise InvalidOption(message)
    if max_total is not None and max_total < NO_CAP:
        message = f"max_total must be 0 or more, or -1 for no cap; got {max_total}."
        raise InvalidOption(message)
    if order is not None and order not in ("fast", "strict", "fair"):
        message = f'order must be "fast", "strict" or "fair"; got {order!r}.'
        raise InvalidOption(message)

"""app.limits: read and change gates and rates while workers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import InvalidOption, LimitNotFound, WrongState
from rowlock.model import ids, notify_messages
from rowlock.model.access import Permission
from rowlock.model.count import Count
from rowlock.model.options import span
from rowlock.model.rate import LANE, GateView, Holder, Rate, RateView
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.options import Span
    from rowlock.model.queue_pair import Wake
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlSession

PAGE: Final = 1000
_COUNTED: Final = 1000
_BATCH: Final = 5000
_MOST_BATCHES: Final = 20
_SHOWN: Final = 100
"""Holders of a gate shown at most."""


class Limits:
    """Gates and rates."""

    def __init__(
        self,
        database: Callable[[], Database],
        wake: Wake,
        guard: Guard = TRUSTED,
    ) -> None:
        self._open, self._wake, self._guard = database, wake, guard

    # --- gates -------------------------------------------------------------------------------------------------------

    @reads(Permission.WORKERS_VIEW)
    async def gates(self, *, prefix: str | None = None, after: str = "", limit: int = 100) -> list[GateView]:
        """Gates by key, with the places taken and the jobs that wait; after: the last key of the page above.

        Without jobs:read_all only the gates of live jobs that the principal sees: keys often name tenants.
        """
        return [_gate_of(row) for row in await self._gates(prefix, after, _checked_page(limit))]

    async def _gates(self, prefix: str | None, after: str, n: int) -> Sequence[Record]:
        return await self._open().fetch("gates", prefix=prefix, after=after, n=n, **self._guard.visibility)

    @reads(Permission.WORKERS_VIEW)
    async def gate(self, key: str) -> GateView:
        """One gate, with those that have its places; LimitNotFound when there is none."""
        return await self._gate(key)

    async def _gate(self, key: str) -> GateView:
        database = self._open()
        found = await database.fetch("gates_named", keys=[key])
        if not found:
            raise await self._unknown("gate", key)
        holders = await database.fetch("gate_holders", key=key, n=_SHOWN, **self._guard.visibility)
        return _gate_of(found[0], holders)

    @changes(Permission.WORKERS_MANAGE)
    async def set_gate(self, key: str, *, limit: int | None = None, fifo: bool | None = None) -> GateView:
        """Change what is given. A raised limit lets waiting jobs in at once, a lowered one waits for running ones."""
        if limit is not None and not 0 <= limit < 2**31:
            message = f"A gate's limit is a whole number of 0 or more; got {limit!r}."
            raise InvalidOption(message)
        before = await self._gate(key)
        if limit in (None, before.limit) and fifo in (None, before.fifo):
            return before
        asked = {"limit": before.limit if limit is None else limit, "fifo": before.fifo if fifo is None else fifo}
        async with self._open().transaction() as session:
            found = await session.fetch("gate_set", key=key, max_running=limit, fifo=fifo)
            if found:
                await self._record(session, "gate.set", f"gate:{key}", _gate_says(before), asked)
            if found and found[0]["promoted"]:
                await session.fetch("wake", channel=session.channel, payload=notify_messages.LOOK_EVERYWHERE)
        return await self._gate(key)

    @changes(Permission.WORKERS_MANAGE)
    async def delete_gate(self, key: str) -> GateView:
        """Forget a gate that no job needs; code that names it makes it again. Returns it as it was."""
        before = await self._gate(key)
        async with self._open().transaction() as session:
            if await session.fetch("gate_delete", key=key):
                await self._record(session, "gate.delete", f"gate:{key}", _gate_says(before), None)
                return before
        message = f"Jobs wait at gate {key!r} or have a place there. Let them end, and delete it then."
        raise WrongState(message)

    # --- rates -------------------------------------------------------------------------------------------------------

    @reads(Permission.WORKERS_VIEW)
    async def rates(self, *, prefix: str | None = None, after: str = "", limit: int = 100) -> list[RateView]:
        """Rates by key, with what may start now and who waits; the rates of lanes are named lane:<name>.

        Without jobs:read_all only the rates of lanes and kinds: other keys often name tenants.
        """
        return [rate_of(row) for row in await self._rates(prefix, after, _checked_page(limit))]

    async def _rates(self, prefix: str | None, after: str, n: int) -> Sequence[Record]:
        unlimited = self._guard.is_unlimited
        return await self._open().fetch("rates", prefix=prefix, after=after, n=n, unlimited=unlimited)

    @reads(Permission.WORKERS_VIEW)
    async def rate(self, key: str) -> RateView:
        """One rate; LimitNotFound when there is none."""
        return await self._rate(key)

    async def _rate(self, key: str) -> RateView:
        found = await self._open().fetch("rates_named", keys=[key])
        if not found:
            raise await self._unknown("rate", key)
        return rate_of(found[0])

    @changes(Permission.WORKERS_MANAGE)
    async def set_rate(self, key: str, rate: Rate | str) -> RateView:
        """Another rate for the key, as Rate(10, "1s") or "10/s"; those that wait get new turns, what is used stays."""
        if key.startswith(LANE):
            name = key.removeprefix(LANE)
            message = f"The rate of a lane is set with the lane: rowlock lanes set {name} --rate … Nothing was changed."
            raise InvalidOption(message)
        wanted, before = Rate.parse(rate) if isinstance(rate, str) else rate, await self._rate(key)
        if wanted == before.rate:
            return before
        values = {"amount": wanted.amount, "per": wanted.per, "burst": wanted.burst, "sliding": wanted.window}
        async with self._open().transaction() as session:
            await session.fetch("rate_set", key=key, **values)
            await self._changed(session, "rate.set", key, before)
        return await self._recalled(key)

    @changes(Permission.WORKERS_MANAGE)
    async def pause(self, key: str, lasting: Span | None = None, *, until: datetime | None = None) -> RateView:
        """Start no job of the key for some time or until an instant; running ones go on. A lane has lane:<name>."""
        if (lasting is None) == (until is None):
            message = 'Say how long: pause(key, "30s"), or until=… with a time zone; one of them.'
            raise InvalidOption(message)
        if until is not None and until.tzinfo is None:
            message = f"until must be a datetime with a time zone; got {until!r}."
            raise InvalidOption(message)
        before = await self._rate(key)
        if until is not None and until == before.paused_until:
            return before
        async with self._open().transaction() as session:
            paused = await session.fetch(
                "rate_pause",
                key=key,
                until=until,
                lasting=span(lasting, "lasting"),
                by_whom=self._guard.principal.name,
            )
            if paused:
                await self._changed(session, "rate.pause", key, before)
        if not paused and until is not None:
            message = f"until must be a moment to come; {until.isoformat()} has passed. To end a pause, resume it."
            raise InvalidOption(message)
        return await self._rate(key)

    @changes(Permission.WORKERS_MANAGE)
    async def resume(self, key: str) -> RateView:
        """End a pause; waiting jobs get new turns from now on."""
        before = await self._rate(key)
        if before.paused_until is None:
            return before
        async with self._open().transaction() as session:
            await session.fetch("rate_resume", key=key)
            await self._changed(session, "rate.resume", key, before)
        return await self._recalled(key)

    @changes(Permission.WORKERS_MANAGE)
    async def reset(self, key: str) -> RateView:
        """Reset the rate as if no job had started."""
        before = await self._rate(key)
        async with self._open().transaction() as session:
            await session.fetch("rate_reset", key=key)
            await self._changed(session, "rate.reset", key, before)
        return await self._recalled(key)

    @changes(Permission.WORKERS_MANAGE)
    async def delete_rate(self, key: str) -> RateView:
        """Forget a rate that was not used for an hour; code that names it makes it again. Returns it as it was."""
        before = await self._rate(key)
        async with self._open().transaction() as session:
            if not key.startswith(LANE) and await session.fetch("rate_delete", key=key):
                await self._record(session, "rate.delete", f"rate:{key}", _rate_says(before), None)
                return before
        message = f"The rate {key!r} is in use. One that nothing used for an hour can be deleted."
        raise WrongState(message)

    async def _changed(self, session: SqlSession, action: str, key: str, before: RateView) -> None:
        """Record the change, and tell workers when it is committed."""
        if key.startswith(LANE):
            await session.fetch("lane_touch", name=key.removeprefix(LANE))
            await session.fetch(
                "notify", channel=session.channel, payload=notify_messages.encode(notify_messages.LanesEdited())
            )
        after = rate_of((await session.fetch("rates_named", keys=[key]))[0])
        await self._record(session, action, f"rate:{key}", _rate_says(before), _rate_says(after))

    async def _recalled(self, key: str) -> RateView:
        """The rate after waiting jobs got new turns, in batches after the change itself."""
        await self._recall(key)
        return await self._rate(key)

    async def _recall(self, key: str) -> None:
        """Give new turns to the jobs that wait for the key."""
        done: list[int] = []
        weight = 0
        for _ in range(_MOST_BATCHES):
            rows = await self._open().fetch("rate_recall", key=key, done=done, passed=weight, batch=_BATCH)
            done += [row["id"] for row in rows]
            weight += sum(row["rate_weight"] for row in rows)
            self._wake(((row["kind"], row["priority"], row["share"]), row["run_after"]) for row in rows)
            if len(rows) < _BATCH:
                return

    async def _record(
        self,
        session: SqlSession,
        action: str,
        target: str,
        before: Mapping[str, object],
        after: Mapping[str, object] | None,
    ) -> None:
        await audit.record(session, self._guard, action, target, before=before, after=after)

    async def _unknown(self, what: Literal["gate", "rate"], key: str) -> LimitNotFound:
        there = await (self._gates(None, "", PAGE) if what == "gate" else self._rates(None, "", PAGE))
        near = closest(key, [row["key"] for row in there], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else " It is there once a job that names it was enqueued."
        return LimitNotFound(f"There is no {what} {key!r}.{hint}")


def rate_of(row: Record) -> RateView:
    """A RateView from its columns."""
    burst = None if row["sliding"] else row["burst"]
    return RateView(
        key=row["key"],
        rate=Rate(row["amount"], row["per"], burst=burst, window=row["sliding"]),
        available=row["available"],
        waiting=max(0, row["waiting"]),
        busy_until=row["busy_until"],
        paused_until=row["paused_until"],
        paused_by=_paused_by(row["paused_by"]),
        used_at=row["used_at"],
        edited_at=row["edited_at"],
    )


def _paused_by(stored: str | None) -> str | None:
    """A subject as it is stored; a handler's job, stored by its number, under its public id."""
    number = (stored or "").removeprefix("job ")
    return f"job {ids.encode(int(number))}" if number != stored and number.isdecimal() else stored


def _gate_of(row: Record, holders: Iterable[Record] = ()) -> GateView:
    return GateView(
        key=row["key"],
        limit=row["max_running"],
        fifo=row["fifo"],
        held=row["held"],
        parked=Count.upto(row["parked"], _COUNTED),
        used_at=row["used_at"],
        edited_at=row["edited_at"],
        holders=tuple(Holder(ids.encode(h["id"]), h["kind"], h["worker"], h["claimed_at"]) for h in holders),
    )


def _gate_says(gate: GateView) -> dict[str, object]:
    return {"limit": gate.limit, "fifo": gate.fifo}


def _rate_says(rate: RateView) -> dict[str, object]:
    return {"rate": rate.rate, "paused_until": rate.paused_until}


def _checked_page(limit: int) -> int:
    if not 1 <= limit <= PAGE:
        message = f"limit must be from 1 to {PAGE}; got {limit}."
        raise InvalidOption(message)
    return limit

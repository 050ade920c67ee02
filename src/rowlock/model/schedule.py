"""Schedule: when jobs of a kind are due, and which missed slots are made up for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from rowlock.errors import InvalidOption
from rowlock.model.options import Options, as_json, refs_json
from rowlock.model.times.cron import cron_text, interval, timing, zone
from rowlock.model.times.duration import duration, humanise
from rowlock.model.times.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowlock.model.times.cron import Timing
    from rowlock.model.times.duration import Duration
    from rowlock.model.times.window import Closed

Missed = Literal["none", "latest", "all"]
Overlap = Literal["queue", "skip", "cancel"]
ON_TIME: Final = timedelta(minutes=1)
"""A slot found due by no more than this counts as on time, not as missed."""
OPTIONS: Final = ("priority", "expires_in", "max_age", "max_attempts", "tags", "refs", "meta")
"""The job options that a schedule may set for its runs."""
FIELDS: Final = (
    *("kind", "args", "options", "cron", "every", "tz"),
    *("missed", "most_missed", "overlap", "windows", "tenant"),
)
"""The fields that a person or a declaration sets; the others record what happened."""
_LONGEST_NAME: Final = 200
_MOST_MISSED: Final = 10_000
_MOST_WINDOWS: Final = 20
_MOST_CLOSED: Final = 1000
"""Consecutive slots lost to windows before the schedule counts as never due."""
_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule's row. next_at None: never due again; skipped_at, skipped_why: the last slot that was not fired."""

    name: str
    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    cron: str | None = None
    every: timedelta | None = None
    tz: str = "UTC"
    missed: Missed = "latest"
    most_missed: int = 100
    overlap: Overlap = "queue"
    windows: tuple[Window, ...] = ()
    tenant: str | None = None
    submitted_by: str | None = None
    enabled: bool = True
    declared: Mapping[str, Any] | None = None
    """The fields as code last declared them; None: it was made at run time."""
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_job: int | None = None
    skipped_at: datetime | None = None
    skipped_why: str | None = None
    version: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def rule(self) -> ScheduleRule:
        """When it is due: its timing and its windows."""
        return ScheduleRule(timing(self.cron, self.every, self.tz), self.tz, self.windows)

    @property
    def when(self) -> str:
        """The timing as short text: its cron expression, or "every 15m"."""
        return self.cron or f"every {humanise(self.every or timedelta(0))}"

    def key(self, slot: datetime) -> str:
        """The idempotency key of a slot's job: no slot is fired twice."""
        return f"schedule:{self.name}@{stamp(slot)}"

    def job_options(self, slot: datetime | None) -> Options:
        """The options of a slot's job; None: of a run that a person asked for, outside of any slot."""
        options = dict(self.options)
        options["refs"] = {**(options.get("refs") or {}), "schedule": self.name}
        slotted = {} if slot is None else {"slot": stamp(slot)}
        options["meta"] = {**(options.get("meta") or {}), "schedule": self.name, **slotted}
        return Options(
            **options,
            tenant=self.tenant,
            submitted_by=self.submitted_by or f"schedule:{self.name}",
            idempotency_key=None if slot is None else self.key(slot),
        )

    def fields(self) -> dict[str, Any]:
        """FIELDS as JSON values, as the database keeps them."""
        return {
            "kind": self.kind,
            "args": dict(self.args),
            "options": dict(self.options),
            "cron": self.cron,
            "every": None if self.every is None else humanise(self.every),
            "tz": self.tz,
            "missed": self.missed,
            "most_missed": self.most_missed,
            "overlap": self.overlap,
            "windows": [window.as_json() for window in self.windows],
            "tenant": self.tenant,
        }


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """A timing and the windows that close it. Slots inside a window are left out, or deferred to its end."""

    timing: Timing
    tz: str = "UTC"
    windows: tuple[Window, ...] = ()

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than the moment; None: there is none."""
        cursor = self._beginning(moment)
        for _ in range(_MOST_CLOSED):
            raw = self.timing.after(cursor)
            if raw is None:
                return None
            closed = self._closed(raw)
            slot = raw if closed is None else self._deferred(closed)
            if slot is not None and slot > moment:
                return slot
            cursor = raw if closed is None else closed.end - _TICK
        return None

    def next(self, moment: datetime, n: int) -> list[datetime]:
        """The next n slots after the moment."""
        return list(self.between(moment + _TICK, None, n))

    def between(self, start: datetime, end: datetime | None, limit: int) -> Iterator[datetime]:
        """Slots from start until before end, `limit` of them at most."""
        slot = self.after(start - _TICK)
        while slot is not None and limit > 0 and (end is None or slot < end):
            yield slot
            slot, limit = self.after(slot), limit - 1

    def last(self, moment: datetime, since: datetime, limit: int) -> list[datetime]:
        """The latest slots up to the moment, none before `since`; the latest first."""
        found: list[datetime] = []
        # The end of a window may be a slot of those within it.
        cursor, beginning = moment, self._beginning(since - _TICK)
        while len(found) < limit and (raw := self.timing.until(cursor)) is not None and raw >= beginning:
            closed = self._closed(raw)
            slot = raw if closed is None else self._deferred(closed)
            if slot is not None and since <= slot <= moment and (not found or slot < found[-1]):
                found.append(slot)
            cursor = (raw if closed is None else closed.start) - _TICK
        return found

    def _closed(self, moment: datetime) -> Closed | None:
        if not self.windows:
            return None
        here = zone(self.tz)
        return next((closed for window in self.windows if (closed := window.at(moment, here))), None)

    def _deferred(self, closed: Closed) -> datetime | None:
        """The moment that the slots of a window are deferred to; None: they are skipped. Another window may follow."""
        for _ in self.windows:
            if closed.then == "skip":
                return None
            if (again := self._closed(closed.end)) is None:
                return closed.end
            closed = again
        return None

    def _beginning(self, moment: datetime) -> datetime:
        """Where to begin to look: slots deferred by a window around the moment come after it."""
        for _ in self.windows:
            if (closed := self._closed(moment)) is None:
                break
            moment = closed.start - _TICK
        return moment


class DueSlots(NamedTuple):
    """What a schedule must do now. slots: to fire, earliest first; left_out, why: the latest slot not fired."""

    slots: Sequence[datetime]
    next_at: datetime | None
    left_out: datetime | None = None
    why: str | None = None


def due_slots(schedule: Schedule, now: datetime) -> DueSlots:
    """Which of the slots since next_at are to be fired now. now: the database's clock."""
    rule, most = schedule.rule, schedule.most_missed
    # Where a run replaces or forbids another one, only the latest missed slot is worth a job.
    wanted = most if schedule.missed == "all" and schedule.overlap == "queue" else 1
    since = now if schedule.next_at is None else schedule.next_at
    found = rule.last(now, since, wanted + 1)
    next_at = rule.after(now)
    fire, rest = found[:wanted], found[wanted:]
    if schedule.missed == "none" and fire and now - fire[0] > ON_TIME:
        return DueSlots((), next_at, fire[0], "missed")
    if rest:
        why = f"missed, with more than {most} before it" if schedule.missed == "all" else "missed"
        return DueSlots(fire[::-1], next_at, rest[0], why)
    return DueSlots(fire[::-1], next_at)


def stamp(moment: datetime) -> str:
    """An instant as RFC 3339 in UTC: 2027-03-28T01:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def checked(
    name: str,
    kind: str,
    *,
    cron: str | None,
    every: Duration | None,
    tz: str,
    missed: str,
    most_missed: int,
    overlap: str,
    windows: Sequence[Window],
    args: Mapping[str, Any],
    options: Mapping[str, Any],
    tenant: str | None = None,
) -> Schedule:
    """A schedule with these fields; InvalidOption for impossible values."""
    _check_words(name, missed, most_missed, overlap)
    schedule = Schedule(
        name=name,
        kind=kind,
        args=dict(args),
        options=_checked_options(options),
        cron=None if cron is None else cron_text(cron),
        every=None if every is None else interval(every),
        tz=tz,
        missed=missed,  # type: ignore[arg-type]  # checked above
        most_missed=most_missed,
        overlap=overlap,  # type: ignore[arg-type]  # checked above
        windows=_checked_windows(windows),
        tenant=tenant,
    )
    if schedule.rule.after(datetime(2024, 1, 1, tzinfo=UTC)) is None:
        message = f"The schedule {name!r} would never fire: its windows cover every one of its slots."
        raise InvalidOption(message)
    return schedule


def _check_words(name: str, missed: str, most_missed: int, overlap: str) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable() or {*"@/"} & {*name}:
        message = f"A schedule's name has 1 to {_LONGEST_NAME} printable characters, no @ and no /; got {name!r}."
        raise InvalidOption(message)
    if missed not in ("none", "latest", "all"):
        message = f'missed must be "none", "latest" or "all"; got {missed!r}.'
        raise InvalidOption(message)
    if overlap not in ("queue", "skip", "cancel"):
        message = f'overlap must be "queue", "skip" or "cancel"; got {overlap!r}.'
        raise InvalidOption(message)
    if isinstance(most_missed, bool) or not isinstance(most_missed, int) or not 1 <= most_missed <= _MOST_MISSED:
        message = f"most_missed must be from 1 to {_MOST_MISSED:,}; got {most_missed!r}."
        raise InvalidOption(message)


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as JSON values, as the database keeps them."""
    unknown = sorted(options.keys() - set(OPTIONS))
    if unknown:
        message = f"A schedule's options are {', '.join(OPTIONS)}; got {', '.join(map(str, unknown))}."
        raise InvalidOption(message)
    Options(**options)
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in ("expires_in", "max_age"):
        if name in chosen:
            chosen[name] = humanise(duration(chosen[name], name))
    if "tags" in chosen:
        chosen["tags"] = list(chosen["tags"])
    refs_json(chosen.get("refs") or {})
    plain: dict[str, Any] = json.loads(as_json(chosen, "options") or "{}")
    return plain


def _checked_windows(windows: Sequence[Window]) -> tuple[Window, ...]:
    if isinstance(windows, (str, Window)) or not all(isinstance(window, Window) for window in windows):
        message = f'windows is a list of Window("22:00-06:00", days="sat,sun"); got {windows!r}.'
        raise InvalidOption(message)
    if len(windows) > _MOST_WINDOWS:
        message = f"A schedule has {_MOST_WINDOWS} windows at most; got {len(windows)}."
        raise InvalidOption(message)
    return tuple(windows)

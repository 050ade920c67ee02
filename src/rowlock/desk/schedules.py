"""app.schedules: declare schedules in code, change them while workers run, run and backfill them; app.schedule."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.schedule_fire import enqueue
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import ConfigurationError, InvalidArguments, InvalidOption, WrongState
from rowlock.model import ids, json_output, redact
from rowlock.model.access import Permission
from rowlock.model.notify_messages import SchedulesEdited, encode
from rowlock.model.schedule import FIELDS, Schedule, checked
from rowlock.model.stored_args import shown
from rowlock.model.times.duration import duration
from rowlock.model.times.window import Window
from rowlock.store.executor import SqlSession
from rowlock.store.rows.schedules import readable_schedules, schedule_of, unknown_schedule, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.desk.submit import Submit
    from rowlock.model.job import Job
    from rowlock.model.options import Span
    from rowlock.model.schedule import Missed, Overlap
    from rowlock.model.stored_args import Encoded
    from rowlock.store.database import Database
    from rowlock.store.executor import SqlExecutor

MOST_SLOTS: Final = 1000
"""Slots of one backfill at most."""
_TIMING: Final = frozenset({"cron", "every", "tz", "windows"})
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Backfill:
    """The outcome of a backfill. slots: without a job so far; already: with one; jobs: enqueued, none in a dry run."""

    slots: tuple[datetime, ...]
    already: tuple[datetime, ...]
    jobs: tuple[int, ...] = ()
    dry_run: bool = True


class Schedules:
    """Schedules."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED, submit: Submit | None = None) -> None:
        self._open, self._guard, self._submit = database, guard, submit
        self._visible_jobs = VisibleJobs(database, guard)
        self._defined: dict[str, Schedule] = {}

    def define(
        self,
        name: str,
        kind: str,
        cron: str | None = None,
        *,
        every: Span | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        most_missed: int = 100,
        overlap: Overlap = "queue",
        windows: Sequence[Window] = (),
        args: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Schedule:
        """Declare a schedule in code, at import time; a starting worker creates it if it is absent.

        It is created where it is absent. Later a field is written again when the code says something else of that very
        field than before; what an operator changed stays otherwise.
        """
        self._guard.demand(Permission.SCHEDULES_MANAGE, unsafe=True)
        timing = {"missed": missed, "most_missed": most_missed, "overlap": overlap, "windows": windows}
        schedule = checked(name, kind, cron=cron, every=every, tz=tz, args=args or {}, options=options or {}, **timing)  # type: ignore[arg-type]  # each of its own type
        if self._defined.setdefault(name, schedule) != schedule:
            message = f"The schedule {name!r} is defined twice, and differently. Give one of them another name=."
            raise ConfigurationError(message)
        return schedule

    @property
    def defined(self) -> Sequence[Schedule]:
        """The schedules declared in code."""
        return tuple(self._defined.values())

    @changes(Permission.SCHEDULES_MANAGE)
    async def declare(self) -> list[Schedule]:
        """Write declared schedules that are new or changed, as workers do at their start; return those written."""
        written = []
        for schedule in self.defined:
            schedule = replace(schedule, args=await self._stored_args(schedule.kind, schedule.args))  # noqa: PLW2901 - the same, as it is stored
            for _ in range(_TRIES):
                changed, done = await self._declare_one(replace(schedule, declared=schedule.fields()))
                if done:
                    written += [changed] if changed else []
                    break
        if self._defined:
            await self._open().fetch("schedule_declared", names=list(self._defined))
        if written:
            await self._announce(self._open())
        return written

    async def _declare_one(self, schedule: Schedule) -> tuple[Schedule | None, bool]:
        """Write one declared schedule. False: another worker wrote it at the same moment, so read it and try again."""
        found = await self._open().fetch("schedules", only=schedule.name, **TRUSTED.visibility)
        if not found:
            made = await self._add(self._open(), schedule)
            return made, made is not None
        before = schedule_of(found[0])
        was_declared, declared = before.declared or {}, schedule.declared or {}
        if was_declared == declared:
            return None, True
        names = [name for name in FIELDS if name not in was_declared or was_declared[name] != declared[name]]
        after = replace(before, declared=declared, **{name: getattr(schedule, name) for name in names})
        changed = await self._set(self._open(), before, after)
        return changed, changed is not None

    @reads(Permission.SCHEDULES_VIEW, scoped=True)
    async def get(self, name: str) -> Schedule:
        """One schedule; ScheduleNotFound: there is none, or the principal may not see it."""
        return await self._find(name, Permission.SCHEDULES_VIEW)

    @reads(Permission.SCHEDULES_MANAGE, scoped=True)
    async def get_for_change(self, name: str) -> Schedule:
        """One schedule, for a principal that may change it, with the version to pass to edit()."""
        return await self._find(name)

    @reads(Permission.SCHEDULES_VIEW, scoped=True)
    async def next(self, name: str, n: int = 5) -> list[datetime]:
        """The next n slots from now on, also of a paused schedule."""
        schedule = await self._find(name, Permission.SCHEDULES_VIEW)
        return schedule.rule.next(await _now(self._open()), min(max(n, 0), MOST_SLOTS))

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def create(
        self,
        name: str,
        kind: str,
        cron: str | None = None,
        *,
        every: Span | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        most_missed: int = 100,
        overlap: Overlap = "queue",
        windows: Sequence[Window] = (),
        args: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        enabled: bool = True,
    ) -> Schedule:
        """Create a schedule, first due at its next slot; WrongState if there is one of that name, in any tenant."""
        self._guard.demand_named(Permission.SCHEDULES_MANAGE, kind=kind)
        who = self._guard.principal
        if tenant is not None and tenant != who.tenant:
            self._guard.demand(Permission.SUBMIT_AS)
        timing = {"missed": missed, "most_missed": most_missed, "overlap": overlap, "windows": windows}
        schedule = checked(
            name,
            kind,
            cron=cron,
            every=every,
            tz=tz,
            args=await self._stored_args(kind, args or {}),
            options=options or {},
            tenant=tenant or who.tenant,
            **timing,  # type: ignore[arg-type]  # each of its own type
        )
        owner = None if who.kind == "system" else who.subject
        wanted = replace(schedule, submitted_by=owner, enabled=enabled)
        async with self._open().transaction() as session:
            made = await self._add(session, wanted)
            if made is not None:
                await self._record(session, "schedule.create", None, made)
                return made
        guard = self._guard.acting_with(Permission.SCHEDULES_VIEW)
        if await self._open().fetch("schedules", only=name, **guard.visibility):
            message = f"There is a schedule {name!r} already. Change it instead, or take another name."
        else:
            # One that the principal may not see: names are unique over all tenants, and nothing else of it is told.
            message = f"The name {name!r} is taken. Take another one, such as one that begins with your tenant's name."
        raise WrongState(message)

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def edit(
        self,
        name: str,
        *,
        kind: str | None = None,
        cron: str | None = None,
        every: Span | None = None,
        tz: str | None = None,
        missed: Missed | None = None,
        most_missed: int | None = None,
        overlap: Overlap | None = None,
        windows: Sequence[Window] | None = None,
        args: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        enabled: bool | None = None,
        version: int | None = None,
    ) -> Schedule:
        """Change the given fields; cron and every replace each other. version: only if it still has this version."""
        if cron is not None and every is not None:
            message = "A schedule has a cron expression or an interval; got both. Pass one of them."
            raise InvalidOption(message)
        given = {
            "kind": kind,
            "tz": tz,
            "missed": missed,
            "most_missed": most_missed,
            "overlap": overlap,
            "windows": windows,
            "options": options,
        }
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if cron is not None or every is not None:
            changes |= {"cron": cron, "every": None if every is None else duration(every, "every")}
        if kind is not None:
            self._guard.demand_named(Permission.SCHEDULES_MANAGE, kind=kind)
        if args is not None or kind is not None:
            before = await self._find(name)
            changes["args"] = await self._stored_args(kind or before.kind, before.args if args is None else args)
        return await self._change(name, changes, enabled, version)

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def reset(self, name: str) -> Schedule:
        """Reset every field to what code declares; a paused schedule stays paused."""
        before = await self._find(name)
        if before.declared is None:
            message = f"The schedule {name!r} was not declared in code: there is nothing to go back to."
            raise WrongState(message)
        changes = dict(before.declared)
        changes["windows"] = tuple(Window.from_json(window) for window in changes["windows"])
        changes["every"] = None if changes["every"] is None else duration(changes["every"], "every")
        return await self._change(name, changes, None, None)

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def pause(self, name: str) -> Schedule:
        """Fire no more slots; jobs already enqueued go on."""
        return await self._change(name, {}, False, None)  # noqa: FBT003 - enabled

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def resume(self, name: str) -> Schedule:
        """Fire again; slots missed meanwhile follow the `missed` rule."""
        return await self._change(name, {}, True, None)  # noqa: FBT003 - enabled

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def run(self, name: str) -> Job:
        """Enqueue one job now; the slots stay as they are."""
        schedule, database = await self._find(name), self._open()
        async with database.connection(watched=True) as connection, connection.transaction():
            options = schedule.job_options(None)
            number, _ = await self._submitting(schedule.kind, schedule.args, options, connection)
            inside = SqlSession(database.statements, connection)
            await inside.fetch("schedule_ran", name=name, job=number)
            made = {"job": ids.encode(number)}
            await audit.record(inside, self._guard, "schedule.run", f"schedule:{name}", after=made)
        return await self._visible_jobs.made(database, number)

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def backfill(
        self, name: str, start: datetime, end: datetime, *, dry_run: bool = True, limit: int = 1000
    ) -> Backfill:
        """Enqueue a job for each slot in [start, end) that has had none: all of them or none.

        dry_run: only list them. Rowlock remembers for 30 days which slots have had a job.
        """
        schedule, database = await self._find(name), self._open()
        _check_range(start, end, await _now(self._open()))
        most = min(max(limit, 0), MOST_SLOTS)
        slots = list(schedule.rule.between(start, end, most + 1))
        if len(slots) > most:
            message = f"More than {most:,} slots are due in that time. Backfill it in smaller ranges."
            raise InvalidOption(message)
        keys = {schedule.key(slot): slot for slot in slots}
        scope = (await self._submitting.encoded(schedule.kind, schedule.args)).scope
        fired = {row["key"] for row in await database.fetch("slots_fired", scope=scope, keys=list(keys))}
        already = tuple(slot for key, slot in keys.items() if key in fired)
        open_slots = tuple(slot for key, slot in keys.items() if key not in fired)
        if dry_run:
            return Backfill(open_slots, already)
        async with database.connection(watched=True) as connection, connection.transaction():
            made, _ = await enqueue(self._submitting, schedule, open_slots, connection)
            about = {"from": start, "until": end, "jobs": len(made)}
            inside = SqlSession(database.statements, connection)
            await audit.record(inside, self._guard, "schedule.backfill", f"schedule:{name}", after=about)
        return Backfill(open_slots, already, tuple(made), dry_run=False)

    @changes(Permission.SCHEDULES_MANAGE, scoped=True)
    async def delete(self, name: str) -> Schedule:
        """Remove a schedule and return it; its jobs stay.

        A worker that starts with code which declares it writes it again: pause it instead.
        """
        async with self._open().transaction() as session:
            guard = self._guard.acting_with(Permission.SCHEDULES_MANAGE)
            gone = await session.fetch("schedule_delete", name=name, **guard.visibility)
            if gone:
                schedule = schedule_of(gone[0])
                await self._record(session, "schedule.delete", schedule, None)
                return schedule
        await self._find(name)
        raise unknown_schedule(name, ())

    @reads(Permission.SCHEDULES_VIEW, scoped=True)
    async def list(self) -> list[Schedule]:
        """Every schedule that the principal may see, by name."""
        guard = self._guard.acting_with(Permission.SCHEDULES_VIEW)
        return readable_schedules(await self._open().fetch("schedules", only=None, **guard.visibility))

    @property
    def _submitting(self) -> Submit:
        if self._submit is None:
            message = "This desk was made without an application and cannot submit. Use app.desk(principal)."
            raise ConfigurationError(message)
        return self._submit

    async def _stored_args(self, kind: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as JSON, checked like those of a job; secrets are refused, as people read this table."""
        stored = json.loads((await self._submitting.encoded(kind, args)).text)
        if redact.redact(stored) != stored:
            message = (
                f"{kind} has secret arguments, and a schedule cannot keep a secret. "
                "Let the handler read it where secrets are kept, or leave the argument out."
            )
            raise InvalidArguments(message)
        return shown(stored)

    async def _find(self, name: str, permission: Permission = Permission.SCHEDULES_MANAGE) -> Schedule:
        """The schedule, if it is one of those for which the principal holds the permission."""
        guard = self._guard.acting_with(permission)
        found = await self._open().fetch("schedules", only=name, **guard.visibility)
        if not found:
            every = await self._open().fetch("schedules", only=None, **guard.visibility)
            raise unknown_schedule(name, [row["name"] for row in every])
        return schedule_of(found[0])

    async def _add(self, source: SqlExecutor, schedule: Schedule) -> Schedule | None:
        next_at = schedule.rule.after(await _now(source))
        values = {**values_of(schedule), "submitted_by": schedule.submitted_by, "next_at": next_at}
        made = await source.fetch("schedule_add", **values)
        return schedule_of(made[0]) if made else None

    async def _change(self, name: str, edit: Mapping[str, Any], enabled: bool | None, version: int | None) -> Schedule:  # noqa: FBT001 - as it comes
        for _ in range(_TRIES):
            before = await self._find(name)
            if version is not None and before.version != version:
                break
            words = {key: getattr(before, key) for key in FIELDS} | dict(edit)
            self._guard.demand_named(Permission.SCHEDULES_MANAGE, kind=words["kind"])
            after = replace(
                checked(name, **words),
                declared=before.declared,
                enabled=before.enabled if enabled is None else enabled,
            )
            if _same(before, after):
                return before
            async with self._open().transaction() as session:
                changed = await self._set(session, before, after)
                if changed is not None:
                    await self._record(session, "schedule.edit", before, changed)
                    return changed
        message = (
            f"Schedule {name!r} is at version {before.version}, not {version}: someone else changed it. Read it again."
        )
        raise WrongState(message)

    async def _set(self, source: SqlExecutor, before: Schedule, after: Schedule) -> Schedule | None:
        """Write it if it is unchanged since it was read; the next slot is computed again only if the timing changed."""
        moves = any(getattr(before, name) != getattr(after, name) for name in _TIMING)
        next_at = after.rule.after(await _now(source)) if moves else None
        values = {**values_of(after), "version": before.version, "moves": moves, "next_at": next_at}
        found = await source.fetch("schedule_set", **values)
        return schedule_of(found[0]) if found else None

    async def _record(self, session: SqlSession, action: str, before: Schedule | None, after: Schedule | None) -> None:
        """Write the fields that changed to the audit, and tell workers when the change is committed."""
        was, now = ({} if it is None else {**it.fields(), "enabled": it.enabled} for it in (before, after))
        changed = [key for key in {**was, **now} if was.get(key) != now.get(key)]
        named = after or before
        await audit.record(
            session,
            self._guard,
            action,
            f"schedule:{named.name if named else ''}",
            before={key: was[key] for key in changed} if was else None,
            after={key: now[key] for key in changed} if now else None,
        )
        if after is not None:
            await self._announce(session)

    async def _announce(self, source: Database | SqlSession) -> None:
        await source.fetch("notify", channel=source.channel, payload=encode(SchedulesEdited()))


async def _now(source: SqlExecutor) -> datetime:
    (row,) = await source.fetch("calendar")
    now: datetime = row["now"]
    return now


def _same(before: Schedule, after: Schedule) -> bool:
    """Whether a change would leave every field as it is."""
    return before.enabled == after.enabled and before.fields() == after.fields()


def _check_range(start: datetime, end: datetime, now: datetime) -> None:
    for name, moment in (("start", start), ("end", end)):
        if moment.tzinfo is None:
            message = f"{name} must be a datetime with a time zone; a naive one is ambiguous; got {moment!r}."
            raise InvalidOption(message)
    if not start < end <= now:
        message = (
            "A backfill goes from a start to a later end that has passed; "
            f"got {json_output.instant(start)} to {json_output.instant(end)}, and it is {json_output.instant(now)}."
        )
        raise InvalidOption(message)


@runtime_checkable
class Schedulable(Protocol):
    """A task, as far as a schedule needs it."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    def encoded(self, args: Mapping[str, Any], /) -> Encoded:
        """Checked arguments as a job of the kind stores them."""


D = TypeVar("D", bound=Schedulable)


class ScheduleDecorator:
    """app.schedule: decorates a task, above @app.job, with a schedule; several need a name each."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    def __call__(
        self,
        cron: str | None = None,
        /,
        *,
        every: Span | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        most_missed: int = 100,
        overlap: Overlap = "queue",
        windows: Sequence[Window] = (),
        args: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        name: str | None = None,
    ) -> Callable[[D], D]:
        """cron: five fields, read in tz; every: an interval instead. name: that of the schedule; default: the kind's.

        missed: which of the slots that no worker could fire are fired later: "none", "latest" or "all".
        overlap: while the previous run has not ended, "queue" the next one, "skip" it, or "cancel" the previous one.
        """

        def declare(task: D) -> D:
            if not isinstance(task, Schedulable):
                message = f"@app.schedule stands above @app.job(…); got {task!r}, which is no task yet."
                raise ConfigurationError(message)
            self._schedules.define(
                name or task.kind,
                task.kind,
                cron,
                every=every,
                tz=tz,
                missed=missed,
                most_missed=most_missed,
                overlap=overlap,
                windows=windows,
                args=shown(json.loads(task.encoded(args or {}).text), reveal=True),
                options=options,
            )
            return task

        return declare

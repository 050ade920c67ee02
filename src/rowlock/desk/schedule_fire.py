"""Firing a schedule: its due slots are taken and their jobs enqueued in one transaction, by one of many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowlock.desk.guard import TRUSTED
from rowlock.errors import DatabaseError, RowlockError, UnknownKind
from rowlock.model.messages import LOOK_EVERYWHERE
from rowlock.model.schedule import DueSlots
from rowlock.model.state import State
from rowlock.store.executor import SqlSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowlock.desk.submit import Submit
    from rowlock.model.schedule import Schedule
    from rowlock.store.database import Connection, Database, Record

_TRIES: Final = 3


class Fired(NamedTuple):
    """The outcome. jobs: enqueued; kept: slots that had a job already; left_out, why: a slot without a job."""

    jobs: Sequence[int] = ()
    kept: int = 0
    left_out: datetime | None = None
    why: str | None = None


async def fire(database: Database, submit: Submit, schedule: Schedule, owed: DueSlots) -> Fired | None:
    """Take the slots and enqueue their jobs, all or none; None: another process did, or the schedule was changed.

    A slot whose job the kind refuses is left out, and the schedule goes on with its next one. Slots of a kind that this
    process does not know are left to processes that do.
    """
    try:
        return await _fire(database, submit, schedule, owed)
    except (DatabaseError, UnknownKind):
        raise
    except RowlockError as error:
        refused = DueSlots((), owed.next_at, owed.slots[-1], f"refused: {error}")
        return await _fire(database, submit, schedule, refused)


async def _fire(database: Database, submit: Submit, schedule: Schedule, owed: DueSlots) -> Fired | None:
    async with database.connection(watched=True) as connection, connection.transaction():
        inside = SqlSession(database.statements, connection)
        taken = await inside.fetch(
            "schedule_take",
            name=schedule.name,
            version=schedule.version,
            expected=schedule.next_at,
            next_at=owed.next_at,
            last_at=owed.slots[-1] if owed.slots else None,
            skipped_at=owed.left_out,
            skipped_why=owed.why,
        )
        if not taken:
            return None
        if not owed.slots:
            return Fired(left_out=owed.left_out, why=owed.why)
        if taken[0]["busy"] and schedule.overlap == "skip":
            why = "overlap: the run before has not ended"
            await inside.fetch(
                "schedule_fired", name=schedule.name, job=None, skipped_at=owed.slots[-1], skipped_why=why
            )
            return Fired(left_out=owed.slots[-1], why=why)
        if taken[0]["busy"] and schedule.overlap == "cancel":
            await _cancel(database, inside, schedule, taken[0]["last_job"])
        made, kept = await enqueue(submit, schedule, owed.slots, connection)
        job = made[-1] if made else None
        await inside.fetch("schedule_fired", name=schedule.name, job=job, skipped_at=None, skipped_why=None)
        return Fired(made, kept, owed.left_out, owed.why)


async def enqueue(
    submit: Submit, schedule: Schedule, slots: Sequence[datetime], connection: Connection[Record]
) -> tuple[list[int], int]:
    """Enqueue a job for each slot that has none, in the connection's transaction; and count the slots with one."""
    made: list[int] = []
    for slot in slots:
        number, what = await submit(schedule.kind, schedule.args, schedule.job_options(slot), connection)
        if what == "created":
            made.append(number)
    return made, len(slots) - len(made)


async def _cancel(database: Database, inside: SqlSession, schedule: Schedule, job: int) -> None:
    """Cancel the previous run: a waiting job ends with this transaction, a running one is asked to stop."""
    signed = TRUSTED.signed("cancel", f"schedule:{schedule.name}", "its next run is due")
    # The job may be claimed or returned between the two statements; then the other one applies.
    for _ in range(_TRIES):
        (done,) = await inside.fetch(
            "cancel_waiting", ids=[job], state=State.CANCELLED, error=None, channel=database.channel, **signed
        )
        if done["ids"]:
            if done["promoted"] or done["released"]:
                await inside.fetch("notify", channel=database.channel, payload=LOOK_EVERYWHERE)
            return
        (asked,) = await inside.fetch("cancel_running", ids=[job], channel=database.channel, **signed)
        if asked["ids"]:
            return

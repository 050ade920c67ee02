"""The jobs desk: what a person may ask about jobs and order them to do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, cast

from rowlock.desk import explain, facts, told
from rowlock.desk.bulk import Bulk, in_batches
from rowlock.desk.waiting import Ears
from rowlock.errors import InvalidOption, JobNotFound, WaitTimeout, WrongState
from rowlock.model import ids
from rowlock.model.options import checked_priority
from rowlock.model.state import State
from rowlock.store import migrate, rows
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.explanation import Explanation
    from rowlock.model.job import Act, Attempt, Job
    from rowlock.model.progress import Item, ItemState, LogLine
    from rowlock.store.database import Database, Record

_TRIES: Final = 5
_LARGEST_ID: Final = 2**63 - 1
_FEW: Final = 5000
"""Jobs in a state, up to which a list picks from all of them."""
INDEXED: Final = frozenset({State.PENDING, State.BLOCKED, State.QUEUED, State.RUNNING, State.FAILED})
"""States with an index of their own."""
_SCAN: Final = 1_000_000
"""Rows a filtered list looks back over at most."""
_POLL: Final = 1.0
LOOK: Final = '{"wake":[]}'
"""The message that asks workers to look everywhere."""
Pair = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class History:
    """Everything known of one job: its row, earlier attempts, and what people ordered."""

    job: Job
    attempts: Sequence[Attempt]
    acts: Sequence[Act]


class Jobs:
    """app.jobs. Ids are numbers or public ids."""

    def __init__(
        self, database: Callable[[], Database], wake: Callable[[Iterable[tuple[Pair, datetime]]], None]
    ) -> None:
        self._open, self._wake = database, wake
        self._ears = Ears(database)

    async def get(self, job_id: int | str) -> Job:
        """The job as it stands now; JobNotFound when there is none or retention removed it."""
        number = ids.parse(job_id)
        found = await self._open().fetch("jobs_by_id", ids=[number])
        if not found:
            raise _not_found(job_id)
        return rows.job_of(found[0])

    async def result(self, job_id: int) -> str | None:
        """The stored result, encoded and with its secrets: for the program that awaits it, never for a screen."""
        (row,) = await self._open().fetch("outcome_of", id=job_id)
        return None if row["result"] is None else str(row["result"])

    async def many(self, job_ids: Iterable[int | str]) -> list[Job]:
        """Several jobs in id order; missing ones are left out."""
        found = await self._open().fetch("jobs_by_id", ids=[ids.parse(job_id) for job_id in job_ids])
        return [rows.job_of(row) for row in found]

    async def history(self, job_id: int | str) -> History:
        """The job with its earlier attempts and what people ordered."""
        job = await self.get(job_id)
        attempts = await self._open().fetch("attempts_of", id=job.id)
        acts = await self._open().fetch("acts_of", id=job.id)
        return History(job, [rows.attempt_of(row) for row in attempts], [rows.act_of(row) for row in acts])

    async def items(
        self,
        job_id: int | str,
        *,
        states: Sequence[ItemState | str] | None = None,
        phase: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Item]:
        """The items of the newest attempt, by phase and name; after: the key of the last one on the page before."""
        number = (await self.get(job_id)).id
        return await told.items(self._open(), number, states=states, phase=phase, after=after, limit=limit)

    async def logs(self, job_id: int | str, *, after: int = 0, limit: int = 1000, last: bool = False) -> list[LogLine]:
        """What the job logged, of all its attempts; after: the n of the last line known. last: the end of the log."""
        return await told.logs(self._open(), (await self.get(job_id)).id, after, limit, last=last)

    async def explain(self, job_id: int | str) -> Explanation:
        """Why the job is not running: every reason that holds, the most decisive first. print() it."""
        async with self._open().snapshot() as reads:
            found = await facts.read(reads, ids.parse(job_id), migrate.newest())
        if found is None:
            raise _not_found(job_id)
        return explain.explain(found)

    async def list(
        self,
        *,
        states: Sequence[State | str] | None = None,
        kind: str | None = None,
        lane: str | None = None,
        tenant: str | None = None,
        refs: Mapping[str, object] | None = None,
        tag: str | None = None,
        before: int | str | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Newest first; before: the last id of the page above. refs and tag are found by index, the rest filters."""
        carried = [(name, _ref(value)) for name, value in (refs or {}).items()] + ([("tag", tag)] if tag else [])
        filters: dict[str, object] = {
            "states": None if states is None else [_state(state) for state in states],
            "kind": kind,
            "lane": lane,
            "tenant": tenant,
        }
        page = {"n": limit, "before": _LARGEST_ID if before is None else ids.parse(before)}
        found: Sequence[Record]
        if carried:
            names, values = (list(column) for column in zip(*carried, strict=True))
            found = await self._open().fetch(
                "jobs_list_referenced", name=names[0], value=values[0], names=names, values=values, **filters, **page
            )
        else:
            found = await self._walk(filters, page)
        return [rows.job_of(row) for row in found]

    async def _walk(self, filters: Mapping[str, object], page: Mapping[str, int]) -> Sequence[Record]:
        """By id, unless the states asked for hold so few jobs that an index names them all."""
        database, states = self._open(), filters["states"]
        if states is not None and INDEXED.issuperset(cast("Sequence[str]", states)):
            (few,) = await database.fetch("few_jobs", states=states, kind=filters["kind"], cap=_FEW)
            if few["complete"]:
                return await database.fetch("jobs_list_of", ids=few["ids"], **filters, **page)
        everywhere = page["before"] == _LARGEST_ID or all(value is None for value in filters.values())
        return await database.fetch("jobs_list", scan=_LARGEST_ID if everywhere else _SCAN, **filters, **page)

    async def cancel(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """End a waiting job at once; ask a running one to stop at its next await."""
        number = ids.parse(job_id)
        database = self._open()
        # Between the two statements a job may be claimed or given back: then the other one applies.
        for _ in range(_TRIES):
            (done,) = await database.fetch(
                "cancel_waiting",
                ids=[number],
                state=State.CANCELLED,
                error=None,
                channel=database.channel,
                **_who("cancel", by, note),
            )
            if done["ids"]:
                await self._hand_on(done)
                return await self.get(number)
            (asked,) = await database.fetch(
                "cancel_running", ids=[number], channel=database.channel, **_who("cancel", by, note)
            )
            job = await self.get(number)
            if asked["ids"] or (job.state is State.RUNNING and job.cancel_requested):
                return job
            if job.is_final:
                raise _wrong_state("cancel", job, "only a job that waits or runs can be cancelled")
        raise _wrong_state("cancel", job, "it changed state too often; try again")

    async def cancel_many(
        self, job_ids: Iterable[int | str], *, by: str | None = None, note: str | None = None
    ) -> Bulk:
        """Cancel several jobs; one that cannot be cancelled does not keep the others from it."""
        return await in_batches(job_ids, lambda batch: self._cancel_batch(batch, by, note))

    async def _cancel_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        database, changed = self._open(), set[int]()
        for _ in range(_TRIES):
            (done,) = await database.fetch(
                "cancel_waiting",
                ids=numbers,
                state=State.CANCELLED,
                error=None,
                channel=database.channel,
                **_who("cancel", by, note),
            )
            await self._hand_on(done)
            (asked,) = await database.fetch(
                "cancel_running", ids=numbers, channel=database.channel, **_who("cancel", by, note)
            )
            changed |= {*done["ids"], *asked["ids"]}
            jobs = await self.many(numbers)
            changed |= {job.id for job in jobs if job.state is State.RUNNING and job.cancel_requested}
            if all(job.is_final or job.id in changed for job in jobs):
                break
        return Bulk.of(numbers, jobs, changed, lambda job: f"it is {job.state} already")

    async def stop(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """End the job now, whatever its handler does; a late result is refused."""
        number = ids.parse(job_id)
        database = self._open()
        (done,) = await database.fetch(
            "stop",
            ids=[number],
            state=State.CANCELLED,
            error='{"reason": "stopped"}',
            channel=database.channel,
            **_who("stop", by, note),
        )
        await self._hand_on(done)
        job = await self.get(number)
        if not done["ids"]:
            raise _wrong_state("stop", job, "it has already ended")
        return job

    async def approve(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """Let a pending job run."""
        moved = await self._open().fetch("approve", ids=[ids.parse(job_id)], **_who("approve", by, note))
        self._announce(moved)
        job = await self.get(job_id)
        if not moved:
            raise _wrong_state("approve", job, "only a pending job can be approved")
        return job

    async def reject(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """End a pending job."""
        database = self._open()
        (done,) = await database.fetch(
            "reject",
            ids=[ids.parse(job_id)],
            state=State.CANCELLED,
            error='{"reason": "rejected"}',
            channel=database.channel,
            **_who("reject", by, note),
        )
        await self._hand_on(done)
        job = await self.get(job_id)
        if not done["ids"]:
            raise _wrong_state("reject", job, "only a pending job can be rejected")
        return job

    async def retry(
        self,
        job_id: int | str,
        *,
        items: Literal["failed"] | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Job:
        """Run a finished job again with a new attempt budget; its history stays. items: only those not done yet."""
        number = ids.parse(job_id)
        if items is not None:
            told.check_items(await self.get(number), items)
        for left in range(_TRIES, 0, -1):
            try:
                moved = await self._open().fetch(
                    "retry", ids=[number], keep_items=items is not None, **_who("retry", by, note)
                )
                break
            except TRANSIENT:
                if left == 1:
                    raise
        job = await self.get(number)
        if not moved:
            raise _wrong_state(
                "retry", job, "only a finished job can be retried; a waiting or running one already will be run"
            )
        if moved[0]["blocked_by"] is not None:
            raise _wrong_state("retry", job, _taken(moved[0]["blocked_by"]))
        self._announce([row for row in moved if row["state"] == State.QUEUED])
        return job

    async def retry_many(self, job_ids: Iterable[int | str], *, by: str | None = None, note: str | None = None) -> Bulk:
        """Run several finished jobs again; one that cannot be does not keep the others from it."""
        return await in_batches(job_ids, lambda batch: self._retry_batch(batch, by, note))

    async def _retry_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        try:
            moved = await self._open().fetch("retry", ids=numbers, keep_items=False, **_who("retry", by, note))
        except TRANSIENT:
            # Two of them share a unique key, or a twin came at this moment: one by one, each finds out for itself.
            return await self._retry_singly(numbers, by, note)
        self._announce([row for row in moved if row["state"] == State.QUEUED])
        twins = {row["id"]: row["blocked_by"] for row in moved if row["blocked_by"] is not None}
        changed = {row["id"] for row in moved} - twins.keys()
        return Bulk.of(
            numbers,
            await self.many(numbers),
            changed,
            lambda job: _taken(twins[job.id]) if job.id in twins else f"it is {job.state}, not finished",
        )

    async def _retry_singly(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        changed, refused = [], {}
        for number in numbers:
            try:
                changed.append(await self.retry(number, by=by, note=note))
            except (JobNotFound, WrongState) as error:
                refused[number] = str(error)
        return Bulk(changed, refused)

    async def delete(self, job_id: int | str) -> Job:
        """Remove a finished job with its history, before its retention does; returns it as it was."""
        job = await self.get(job_id)
        if not await self._open().fetch("delete_job", id=job.id):
            job = await self.get(job_id)
            raise _wrong_state("delete", job, "only a finished job can be deleted; cancel it first")
        return job

    async def reprioritise(
        self, job_id: int | str, priority: int, *, by: str | None = None, note: str | None = None
    ) -> Job:
        """Give a waiting job another priority."""
        number = ids.parse(job_id)
        moved = await self._open().fetch(
            "reprioritise", ids=[number], priority=checked_priority(priority), **_who("priority", by, note)
        )
        job = await self.get(number)
        if not moved:
            raise _wrong_state("reprioritise", job, "only a waiting job has a place in the queue")
        pairs = {(row["kind"], row["priority"], row["share"]) for row in moved}
        kinds, priorities, shares = (list(column) for column in zip(*pairs, strict=True))
        await self._open().fetch("register_pairs", kinds=kinds, priorities=priorities, shares=shares)
        self._announce([row for row in moved if row["state"] == State.QUEUED])
        return job

    async def wait(self, job_id: int | str, *, timeout: float | None = None) -> Job:
        """Wait until the job is final. timeout in seconds; WaitTimeout leaves the job as it is."""
        number = ids.parse(job_id)
        database = self._open()
        until = None if timeout is None else time.monotonic() + timeout
        job = await self.get(number)
        if job.is_final:
            return job
        waiter = uuid.uuid4()
        try:
            async with self._ears.hearing(number) as told:
                await database.fetch("await_job", id=number, waiter=waiter, seconds=timedelta(seconds=timeout or 86400))
                while not (job := await self.get(number)).is_final:
                    left = _POLL if until is None else min(_POLL, until - time.monotonic())
                    if left <= 0:
                        message = (
                            f"Job {job.public_id} is still {job.state} after {timeout:g} s. "
                            "It goes on; wait again or cancel it."
                        )
                        raise WaitTimeout(message)
                    told.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(told.wait(), left)
                return job
        finally:
            await database.fetch("forget_waiter", id=number, waiter=waiter)

    async def _hand_on(self, done: Record) -> None:
        """The ended job's place went to a parked one: a worker that sleeps must hear of it."""
        if done["promoted"]:
            database = self._open()
            await database.fetch("wake", channel=database.channel, payload=LOOK)

    def _announce(self, moved: Sequence[Record]) -> None:
        self._wake(((row["kind"], row["priority"], row["share"]), row["run_after"]) for row in moved)


def _who(verb: str, by: str | None, note: str | None) -> dict[str, object]:
    return {"verb": verb, "by_whom": by, "note": note}


def _taken(twin: int) -> str:
    return f"its unique key is held by the live job {ids.encode(twin)}"


def _ref(value: object) -> str:
    """A reference as job_refs has it: the text of its JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _state(state: State | str) -> str:
    try:
        return State(state)
    except ValueError:
        message = f"There is no state {str(state)!r}; there are {', '.join(State)}."
        raise InvalidOption(message) from None


def _not_found(job_id: int | str) -> JobNotFound:
    return JobNotFound(f"There is no job {job_id}. Finished jobs are removed after their retention, 7 days by default.")


def _wrong_state(verb: str, job: Job, why: str) -> WrongState:
    return WrongState(f"Cannot {verb} job {job.public_id}: it is {job.state}; {why}.")

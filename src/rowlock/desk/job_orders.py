"""Orders for jobs: cancel, stop, approve, reject, retry, delete, reprioritise; each is recorded with its author."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.desk.bulk import Bulk
from rowlock.errors import ApprovalRefused, DatabaseBusy, Forbidden, JobNotFound, WrongState
from rowlock.model import ids
from rowlock.model.notify_messages import LOOK_EVERYWHERE
from rowlock.model.options import checked_priority
from rowlock.model.released_jobs import parse_released
from rowlock.model.state import WAITING, State
from rowlock.store.database import TRANSIENT
from rowlock.store.jobs.claim import register_pairs
from rowlock.store.jobs.held_rows import held_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.desk.guard import Guard
    from rowlock.desk.visible_jobs import VisibleJobs
    from rowlock.model.job import Job
    from rowlock.model.queue_pair import Wake
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlSession

_TRIES: Final = 5
_FOUR_EYES: Final = "four eyes are asked for"


class JobOrders:
    """Carries out the orders of one principal, for jobs that it may see."""

    def __init__(
        self,
        database: Callable[[], Database | SqlSession],
        wake: Wake,
        guard: Guard,
        visible_jobs: VisibleJobs,
    ) -> None:
        self._open, self._wake, self._guard, self._visible_jobs = database, wake, guard, visible_jobs

    async def cancel(self, job_id: int | str, by: str | None, note: str | None) -> Job:
        """End a waiting job at once; ask a running one to stop at its next await."""
        number = await self._visible_jobs.checked(job_id)
        database = self._open()
        # A job may be claimed or returned between the two statements; then the other one applies.
        for _ in range(_TRIES):
            ((done,), _) = await self._give(
                "cancel_waiting",
                ids=[number],
                state=State.CANCELLED,
                error=None,
                channel=database.channel,
                **self._guard.signed("cancel", by, note),
            )
            if done["ids"]:
                await self._hand_on(done)
                return await self._visible_jobs.one(number)
            ((asked,), _) = await self._give(
                "cancel_running", ids=[number], channel=database.channel, **self._guard.signed("cancel", by, note)
            )
            job = await self._visible_jobs.one(number)
            if asked["ids"] or (job.state is State.RUNNING and job.cancel_requested):
                return job
            if job.is_final:
                raise _wrong_state("cancel", job, "only a job that waits or runs can be cancelled")
        raise _wrong_state("cancel", job, "it changed state too often; try again")

    async def cancel_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        """Cancel one batch; jobs that cannot be cancelled are left."""
        database, changed, held = self._open(), set[int](), dict[int, str]()
        seen = await self._visible_jobs.among(numbers)
        for _ in range(_TRIES):
            ((done,), held_too) = await self._give(
                "cancel_waiting",
                ids=[number for number in seen if number not in held],
                state=State.CANCELLED,
                error=None,
                channel=database.channel,
                **self._guard.signed("cancel", by, note),
            )
            await self._hand_on(done)
            held |= held_too
            ((asked,), held_too) = await self._give(
                "cancel_running",
                ids=[number for number in seen if number not in held],
                channel=database.channel,
                **self._guard.signed("cancel", by, note),
            )
            held |= held_too
            changed |= {*done["ids"], *asked["ids"]}
            jobs = await self._visible_jobs.many(seen)
            changed |= {job.id for job in jobs if job.state is State.RUNNING and job.cancel_requested}
            if all(job.is_final or job.id in changed or job.id in held for job in jobs):
                break
        return Bulk.of(numbers, jobs, changed, lambda job: held.get(job.id, f"it is {job.state} already"))

    async def stop(self, job_id: int | str, by: str | None, note: str | None) -> Job:
        """End the job now, whatever its handler does; a late result is refused."""
        number = await self._visible_jobs.checked(job_id)
        database = self._open()
        ((done,), _) = await self._give(
            "stop",
            ids=[number],
            state=State.CANCELLED,
            error='{"reason": "stopped"}',
            channel=database.channel,
            **self._guard.signed("stop", by, note),
        )
        await self._hand_on(done)
        job = await self._visible_jobs.one(number)
        if not done["ids"]:
            raise _wrong_state("stop", job, "it has already ended")
        return job

    async def approve(self, job_id: int | str, by: str | None, note: str | None) -> Job:
        """Let a pending job run, or add one approval to those it needs."""
        number = await self._visible_jobs.checked(job_id)
        judged, _ = await self._give(
            "approve", ids=[number], principal=self._principal, **self._guard.signed("approve", by, note)
        )
        self._announce([row for row in judged if row["state"] == State.QUEUED])
        job = await self._visible_jobs.one(number)
        if not judged:
            raise _wrong_state("approve", job, "only a pending job can be approved")
        if judged[0]["refused"] is not None:
            who = self._guard.name_of(by) or "Nobody"
            message = f"{who} cannot approve job {job.public_id}: {_refusal(judged[0])}."
            raise ApprovalRefused(message)
        return job

    async def approve_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        """Approve one batch; jobs that cannot be approved are left."""
        seen = await self._visible_jobs.among(numbers)
        judged, held = await self._give(
            "approve", ids=seen, principal=self._principal, **self._guard.signed("approve", by, note)
        )
        self._announce([row for row in judged if row["state"] == State.QUEUED])
        refused = held | {row["id"]: _refusal(row) for row in judged if row["refused"] is not None}
        changed = {row["id"] for row in judged} - refused.keys()
        return Bulk.of(
            numbers,
            await self._visible_jobs.many(seen),
            changed,
            lambda job: refused.get(job.id, f"it is {job.state}, not pending"),
        )

    @property
    def _principal(self) -> bool:
        """Whether the caller is a known one with permissions, unlike the library: it cannot approve its own jobs."""
        return self._guard.principal.is_known

    async def reject_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        """Reject the pending jobs of one batch."""
        seen = await self._visible_jobs.among(numbers)
        changed, held = await self._reject(seen, by, note)
        jobs = await self._visible_jobs.many(seen)
        return Bulk.of(numbers, jobs, changed, lambda job: held.get(job.id, f"it is {job.state}, not pending"))

    async def _reject(
        self, numbers: Sequence[int], by: str | None, note: str | None
    ) -> tuple[list[int], dict[int, str]]:
        database = self._open()
        ((done,), held) = await self._give(
            "reject",
            ids=list(numbers),
            state=State.CANCELLED,
            error='{"reason": "rejected"}',
            channel=database.channel,
            **self._guard.signed("reject", by, note),
        )
        await self._hand_on(done)
        return list(done["ids"]), held

    async def reject(self, job_id: int | str, by: str | None, note: str | None) -> Job:
        """End a pending job."""
        number = await self._visible_jobs.checked(job_id)
        ended, _ = await self._reject([number], by, note)
        job = await self._visible_jobs.one(number)
        if not ended:
            raise _wrong_state("reject", job, "only a pending job can be rejected")
        return job

    async def retry(self, job_id: int | str, by: str | None, note: str | None, *, keep_items: bool = False) -> Job:
        """Run a finished job again with a new attempt budget; its history stays."""
        number = await self._visible_jobs.checked(job_id)
        for left in range(_TRIES, 0, -1):
            try:
                moved, _ = await self._give(
                    "retry", ids=[number], keep_items=keep_items, **self._guard.signed("retry", by, note)
                )
                break
            except DatabaseBusy:
                raise
            except TRANSIENT:
                if left == 1:
                    raise
        job = await self._visible_jobs.one(number)
        if not moved and job.is_final:
            await self._retry_step(job, by, note)
            return await self._visible_jobs.one(number)
        if not moved:
            raise _wrong_state(
                "retry", job, "only a finished job can be retried; a waiting or running one already will be run"
            )
        if moved[0]["blocked_by"] is not None:
            raise _wrong_state("retry", job, self._taken(moved[0]["blocked_by"]))
        self._announce([row for row in moved if row["state"] == State.QUEUED])
        return job

    async def retry_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        """Retry one batch; jobs that cannot be retried are left."""
        seen = await self._visible_jobs.among(numbers)
        try:
            moved, refused = await self._give(
                "retry", ids=seen, keep_items=False, **self._guard.signed("retry", by, note)
            )
        except DatabaseBusy:
            raise
        except TRANSIENT:
            # Two jobs of the batch share a unique key, or another job took it just now: each is retried by itself.
            return await self._retry_singly(numbers, by, note)
        self._announce([row for row in moved if row["state"] == State.QUEUED])
        refused |= {row["id"]: self._taken(row["blocked_by"]) for row in moved if row["blocked_by"] is not None}
        changed = {row["id"] for row in moved} - refused.keys()
        for job in await self._visible_jobs.many([number for number in seen if number not in changed | refused.keys()]):
            if job.is_final:
                try:
                    changed.update(await self._retry_step(job, by, note))
                except (WrongState, DatabaseBusy, Forbidden) as error:
                    refused[job.id] = str(error)
        return Bulk.of(
            numbers,
            await self._visible_jobs.many(seen),
            changed & set(seen),
            lambda job: refused.get(job.id, f"it is {job.state}, not finished"),
        )

    async def _retry_step(self, job: Job, by: str | None, note: str | None) -> list[int]:
        """Retry a step of a workflow with everything behind it, and return them all; another retry may have done so."""
        database = self._open()
        found = await database.fetch("workflow_step_of", id=job.id)
        await self._reaches_workflow(job, found)
        who = self._guard.name_of(by)
        for _ in range(_TRIES):
            rows = found and await database.fetch_briefly(
                "workflow_retry", workflow=found[0]["workflow_id"], step=found[0]["name"], by_whom=who, note=note
            )
            if not rows or rows[0]["what"] != "again":
                break
        if not rows or rows[0]["what"] != "retried":
            raise _wrong_state("retry", job, _not_again(rows[0]) if rows else "it changed at this moment; try again")
        await database.fetch(
            "audit_add",
            action="job.retry",
            target=f"job:{job.id}",
            before=f'{{"state": "{job.state}"}}',
            after=f'{{"state": "{rows[0]["state"]}", "with": {len(rows) - 1}}}',
            note=note,
            asker=self._guard.asker(by),
        )
        self._announce([row for row in rows if row["state"] == State.QUEUED])
        return [row["job_id"] for row in rows]

    async def _reaches_workflow(self, job: Job, steps: Sequence[Record]) -> None:
        """Raise Forbidden if a step is outside the principal's scope: those behind this one would run again with it."""
        guard = self._guard
        if guard.granted is None or not steps:
            return
        if not await self._open().fetch("workflow_by_id", id=steps[0]["workflow_id"], **guard.visibility):
            raise guard.refusal(f"every step of the workflow of job {job.public_id}")

    async def _retry_singly(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        changed, refused = [], {}
        for number in numbers:
            try:
                changed.append(await self.retry(number, by, note))
            except (JobNotFound, WrongState, DatabaseBusy, Forbidden) as error:
                refused[number] = str(error)
        return Bulk(changed, refused)

    async def delete(self, job_id: int | str, by: str | None, note: str | None) -> Job:
        """Remove a finished job with its history before its retention does, and return it."""
        job = await self._visible_jobs.one(job_id)
        if not await self._open().fetch_briefly("delete_job", id=job.id, **self._guard.signed("delete", by, note)):
            job = await self._visible_jobs.one(job_id)
            why = "its workflow goes on, and others may need it" if job.is_final else "cancel it first"
            raise _wrong_state("delete", job, f"only a finished job can be deleted; {why}")
        return job

    async def delete_batch(self, numbers: Sequence[int], by: str | None, note: str | None) -> Bulk:
        """Remove the finished jobs of one batch."""
        changed, refused = [], {}
        for number in numbers:
            try:
                changed.append(await self.delete(number, by, note))
            except (JobNotFound, WrongState, DatabaseBusy, Forbidden) as error:
                refused[number] = str(error)
        return Bulk(changed, refused)

    async def priority_batch(self, numbers: Sequence[int], priority: int, by: str | None, note: str | None) -> Bulk:
        """Give the waiting jobs of one batch another priority."""
        seen = await self._visible_jobs.among(numbers)
        moved, held = await self._moved(seen, priority, by, note)
        jobs = await self._visible_jobs.many(seen)
        done = {row["id"] for row in moved} | {job.id for job in jobs if _has_priority(job, priority)}
        return Bulk.of(numbers, jobs, done, lambda job: held.get(job.id, f"it is {job.state}, not waiting"))

    async def reprioritise(self, job_id: int | str, priority: int, by: str | None, note: str | None) -> Job:
        """Give a waiting job another priority."""
        number = await self._visible_jobs.checked(job_id)
        moved, _ = await self._moved([number], priority, by, note)
        job = await self._visible_jobs.one(number)
        if not moved and not _has_priority(job, priority):
            raise _wrong_state("reprioritise", job, "only a waiting job has a place in the queue")
        return job

    async def _moved(
        self, numbers: Sequence[int], priority: int, by: str | None, note: str | None
    ) -> tuple[Sequence[Record], dict[int, str]]:
        moved, held = await self._give(
            "reprioritise",
            ids=list(numbers),
            priority=checked_priority(priority),
            **self._guard.signed("priority", by, note),
        )
        if not moved:
            return moved, held
        pairs = {(row["kind"], row["priority"], row["share"]) for row in moved}
        await register_pairs(self._open(), sorted(pairs))
        self._announce([row for row in moved if row["state"] == State.QUEUED])
        return moved, held

    async def _give(
        self, name: str, /, *, ids: Sequence[int], **values: object
    ) -> tuple[Sequence[Record], dict[int, str]]:
        """Run the statement of an order, and return its rows and the jobs that were left, with the reason.

        A job inside ctx.guarded() is held by a transaction of its own: the order waits for it briefly, then leaves it
        and treats the others. An order for one job, or for jobs that are all held, raises DatabaseBusy.
        """
        database, asked, held = self._open(), list(ids), dict[int, str]()
        while True:
            try:
                return await database.fetch_briefly(name, ids=asked, **values), held
            except DatabaseBusy as error:
                blocked = await held_jobs(database, asked) if len(asked) > 1 else set()
                if not blocked or len(blocked) == len(asked):
                    raise
                why = ": ".join(filter(None, ("another transaction holds it", error.blockers)))
                held |= dict.fromkeys(blocked, why)
                asked = [number for number in asked if number not in blocked]

    async def _hand_on(self, done: Record) -> None:
        await hand_on(self._open(), self._wake, done)

    def _announce(self, moved: Sequence[Record]) -> None:
        self._wake(((row["kind"], row["priority"], row["share"]), row["run_after"]) for row in moved)

    def _taken(self, twin: int) -> str:
        named = f"the live job {ids.encode(twin)}" if self._guard.sees_all else "another live job"
        return f"its unique key is held by {named}"


async def hand_on(database: Database | SqlSession, wake: Wake, done: Record) -> None:
    """Wake workers for jobs that an ended job released: the next one at its gate, or steps that depend on it."""
    if done["promoted"]:
        await database.fetch("wake", channel=database.channel, payload=LOOK_EVERYWHERE)
    wake((step.pair, step.run_after) for step in parse_released(done["released"]))


def _has_priority(job: Job, priority: int) -> bool:
    return job.state in WAITING and job.priority == priority


def _refusal(row: Record) -> str:
    return {
        "late": "nobody answered in time, and it expires any moment",
        "own": f"{_FOUR_EYES}, and {row['submitted_by'] or 'nobody known'} submitted it",
        "edited": f"{_FOUR_EYES}, and its arguments are theirs since they edited it",
        "unnamed": "several people must approve it, so each has to give a name",
        "again": "they have approved it already, and several people must",
    }[row["refused"]]


def _not_again(row: Record) -> str:
    return {
        "waiting": "it will run again anyway, with the step before it",
        "live": f"the step {row['name']} behind it runs or is about to; cancel it first",
        "compensated": "its workflow has ended and what its steps did is taken back",
        "taken": "another live workflow has the unique key of its own",
        "again": "its workflow grew at this moment; try again",
    }.get(row["what"], "its workflow is gone")


def _wrong_state(verb: str, job: Job, why: str) -> WrongState:
    return WrongState(f"Cannot {verb} job {job.public_id}: it is {job.state}; {why}.")

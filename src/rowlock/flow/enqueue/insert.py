"""Insert: the jobs that one call writes, and the plan of statements that writes them.

A plan is a generator: it yields a statement with its values, is sent the rows, and returns the receipt. The
driver of the plan decides on which connection the statements run, and whether they are awaited.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from rowlock.errors import EnqueueError, UniqueConflict
from rowlock.model import ids
from rowlock.model.state import State
from rowlock.model.stored_args import RATE, with_skills
from rowlock.store.jobs import enqueue as verbs
from rowlock.store.jobs.enqueue import Receipt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from datetime import datetime
    from typing import Self

    from rowlock.flow.enqueue.lane_policy import LanePolicy
    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.model.job import NewJob
    from rowlock.model.queue_pair import Pair
    from rowlock.store.jobs.enqueue import Approved, EnqueuedPlain, JobValues, ManyColumns, StatementPlan

T = TypeVar("T")
_TRIES: Final = 20
BATCH: Final = 1000
"""Rows per statement of a bulk enqueue."""


class BulkReceipt(NamedTuple):
    """The outcome of a bulk, in input order. claimable_from: the lowest run_after of its new queued jobs."""

    ids: Sequence[int]
    whats: Sequence[str]
    claimable_from: datetime | None = None


class OwnConnection(Protocol):
    """How an insert is written on a connection of the library's own."""

    def insert_plain(self, insert: SingleInsert) -> Awaitable[Receipt]:
        """Write one plain job with one short statement."""

    def copy(self, insert: BulkInsert) -> Awaitable[BulkReceipt]:
        """Write plain jobs with COPY."""

    def run(self, insert: Insert[T]) -> Awaitable[T]:
        """Run the plan of any insert."""


class Insert(Protocol[T]):
    """Jobs written by one call, all or none: a single job, a bulk of one kind, or the steps of a workflow."""

    @property
    def jobs(self) -> Sequence[PreparedJob]:
        """The jobs, of those that share everything but their arguments only one."""

    @property
    def is_atomic(self) -> bool:
        """Whether the plan may take several statements, which stand or fall together."""

    def under(self, policy: LanePolicy) -> Self:
        """The same jobs as their lanes demand them."""

    def plan(self) -> StatementPlan[T]:
        """The statements that write the jobs."""

    def write(self, own: OwnConnection) -> Awaitable[T]:
        """Write the jobs in the shortest way that a connection of the library's own allows."""

    def claimable(self, receipt: T) -> dict[Pair, datetime]:
        """The lowest run_after per pair of the jobs that became claimable."""

    def created(self, receipt: T) -> list[int]:
        """The ids of the jobs that were created or replaced."""

    def outcomes(self, receipt: T) -> Iterable[tuple[int, str, str]]:
        """Id, kind and what became of each job, for events."""


class SingleInsert:
    """One job. text: its arguments, encoded."""

    __slots__ = ("job", "text")

    def __init__(self, job: PreparedJob, text: str) -> None:
        self.job, self.text = job, text

    @property
    def jobs(self) -> tuple[PreparedJob]:
        """The job."""
        return (self.job,)

    @property
    def is_plain(self) -> bool:
        """Whether one short statement can write the job."""
        return self.job.plain is not None and not self.job.job.approval

    @property
    def is_atomic(self) -> bool:
        """Whether the plan may take several statements: to approve by rule, or to keep two keys in step."""
        job = self.job.job
        return bool(job.approval) or (job.unique_key is not None and job.idempotency_key is not None)

    def under(self, policy: LanePolicy) -> SingleInsert:
        """The job as its lane demands it."""
        return SingleInsert(policy.applied_to(self.job), self.text)

    def plan(self) -> StatementPlan[Receipt]:
        """One statement, run again as long as it loses a race for the job's key."""
        job, values, args = self.job.job, self.job.values, stored_text(self.job.job, self.text)
        if self.job.plain is not None:
            made = yield from verbs.plain(values, args)
            return (yield from _approved_by_rule(job, [self._created(made)]))[0]
        for _ in range(_TRIES):
            found = yield from verbs.one(job, values, args)
            receipt = None if found is None else (yield from _settled(job, values, found))
            if receipt is not None:
                return (yield from _approved_by_rule(job, [receipt]))[0]
        message = (
            f"Other transactions took and released the key of this {job.kind} job {_TRIES} times while it was "
            "enqueued; nothing was written. Try again outside a REPEATABLE READ or SERIALIZABLE transaction."
        )
        raise EnqueueError(message)

    def plan_notifying(self, channel: str) -> StatementPlan[tuple[Receipt, bool]]:
        """One short statement that may also notify workers at the commit; returns whether it does."""
        made = yield from verbs.plain_notifying(self.job.values, self.text, channel)
        return self._created(made), made.notified is True

    def plan_notifying_inside(self, channel: str) -> StatementPlan[Receipt]:
        """One short statement that notifies workers at a commit which cannot be observed."""
        return self._created((yield from verbs.plain_inside(self.job.values, self.text, channel)))

    def write(self, own: OwnConnection) -> Awaitable[Receipt]:
        """Write it with the short statement if that suffices, else run the plan."""
        return own.insert_plain(self) if self.is_plain else own.run(self)

    def claimable(self, receipt: Receipt) -> dict[Pair, datetime]:
        """The job's run_after, unless it was there before or is not queued."""
        run_after = _claimable_from([receipt])
        return {} if run_after is None else {self.job.pair: run_after}

    def created(self, receipt: Receipt) -> list[int]:
        """The job's id, unless it was there before."""
        return [receipt.id] if receipt.what != "kept" else []

    def outcomes(self, receipt: Receipt) -> Iterable[tuple[int, str, str]]:
        """The job's id, kind and what became of it."""
        return ((receipt.id, self.job.job.kind, receipt.what),)

    def _created(self, made: EnqueuedPlain) -> Receipt:
        return Receipt(made.id, first_state(self.job.job), made.run_after, "created")


@dataclass(frozen=True, slots=True)
class BulkInsert:
    """Jobs of one kind with the same options.

    texts: their arguments, encoded. jobs: one for all of them, or one per text if options depend on the arguments.
    """

    texts: Sequence[str]
    jobs: Sequence[PreparedJob]

    def __getitem__(self, index: int) -> NewJob:
        """The job at that place of the input."""
        return self.jobs[index if len(self.jobs) > 1 else 0].job

    @property
    def is_plain(self) -> bool:
        """Whether COPY can write the jobs."""
        return not self[0].approval and all(job.plain is not None for job in self.jobs)

    @property
    def is_atomic(self) -> bool:
        """Always: a thousand rows a statement, all or none."""
        return True

    def under(self, policy: LanePolicy) -> BulkInsert:
        """The jobs as their lane demands them."""
        return BulkInsert(self.texts, [policy.applied_to(job) for job in self.jobs])

    def plan(self) -> StatementPlan[BulkReceipt]:
        """One statement per thousand jobs; rows that lose a race for their key are tried again."""
        receipts: dict[int, Receipt] = {}
        once = self[0].idempotency_key is not None
        # Sorted before it is split: every bulk takes the keys in one order, so two with the same keys cannot deadlock.
        left = sorted(range(len(self.texts)), key=lambda n: self[n].unique_key or self[n].idempotency_key or "")
        for _ in range(_TRIES):
            again: list[int] = []
            for start in range(0, len(left), BATCH):
                part = left[start : start + BATCH]
                found = yield from verbs.many(self.jobs[0].values, self._columns(part), once=once)
                receipts |= {n: receipt for n, receipt in zip(part, found, strict=True) if receipt is not None}
                again += [n for n, receipt in zip(part, found, strict=True) if receipt is None]
                taken = next((n for n in part if n in receipts and receipts[n].what == "kept"), None)
                if taken is not None and self[taken].on_conflict == "reject" and self[taken].unique_key is not None:
                    yield from verbs.withdraw([made.id for made in receipts.values() if made.what == "created"])
                    raise conflict(self[taken], receipts[taken])
            left = again
            if not left:
                return _bulk((yield from _approved_by_rule(self[0], [receipts[n] for n in range(len(self.texts))])))
        message = (
            f"Other transactions took and released {len(left)} keys {_TRIES} times while their jobs were enqueued. "
            "Roll back and try again."
        )
        raise EnqueueError(message)

    def write(self, own: OwnConnection) -> Awaitable[BulkReceipt]:
        """Write them with COPY if that suffices, else run the plan."""
        return own.copy(self) if self.is_plain else own.run(self)

    def claimable(self, receipt: BulkReceipt) -> dict[Pair, datetime]:
        """The lowest run_after of the new jobs, which are all of one pair."""
        return {} if receipt.claimable_from is None else {self.jobs[0].pair: receipt.claimable_from}

    def created(self, receipt: BulkReceipt) -> list[int]:
        """The ids of the jobs that were not there before."""
        return [number for number, what in zip(receipt.ids, receipt.whats, strict=True) if what != "kept"]

    def outcomes(self, receipt: BulkReceipt) -> Iterable[tuple[int, str, str]]:
        """Id, kind and what became of each job."""
        kind = self[0].kind
        return ((number, kind, what) for number, what in zip(receipt.ids, receipt.whats, strict=True))

    def _columns(self, part: Sequence[int]) -> ManyColumns:
        """The values in which the jobs of this part differ."""
        jobs = [self[n] for n in part]
        return {
            "many_args": [stored_text(job, self.texts[n]) for n, job in zip(part, jobs, strict=True)],
            "many_unique_keys": [job.unique_key for job in jobs],
            "many_idempotency_keys": [job.idempotency_key for job in jobs],
            "many_gate_keys": [job.gate_key for job in jobs],
            "many_refs": [job.refs for job in jobs],
            "many_rate_keys": [json.dumps(job.rate_keys) if job.rate_keys else None for job in jobs],
        }


def first_state(job: NewJob) -> State:
    """The state in which a new job begins."""
    return State.PENDING if job.approval else State.QUEUED


def stored_text(job: NewJob, text: str) -> str:
    """The arguments as stored; a job with a rate is marked, so that workers of older releases leave it alone."""
    return text if job.rate_keys is None else with_skills(text, RATE)


def conflict(job: NewJob, receipt: Receipt) -> UniqueConflict:
    """The error of a caller whose unique key is taken."""
    key = (job.unique_key or "").partition(":")[2]
    message = (
        f"A {job.kind} job with unique_key {key!r} is already {receipt.state}: {ids.encode(receipt.id)}. "
        f"Nothing was enqueued; "
        'pass on_conflict="keep" to get that job, or "replace" to give it the new arguments.'
    )
    return UniqueConflict(message, receipt.id)


def _settled(job: NewJob, values: JobValues, receipt: Receipt) -> StatementPlan[Receipt | None]:
    """Settle a job with two keys: the idempotency key follows the unique key. None: a race was lost, run it again."""
    if job.idempotency_key is None or job.unique_key is None:
        if receipt.what == "kept" and job.unique_key is not None and job.on_conflict == "reject":
            raise conflict(job, receipt)
        return receipt
    match receipt.what:
        case "taken" if job.on_conflict == "reject":
            raise conflict(job, receipt)
        case "taken" | "replaced":
            yield from verbs.point_key(values, receipt.id)
            return receipt if receipt.what == "replaced" else receipt._replace(what="kept")
        case "lost":
            yield from verbs.point_key(values, None)
            return None
        case _:
            return receipt


def _approved_by_rule(job: NewJob, receipts: list[Receipt]) -> StatementPlan[list[Receipt]]:
    """Approve new jobs that a rule approves in advance; jobs that need no approval cost no statement."""
    pending = (
        [made.id for made in receipts if made.state == State.PENDING and made.what != "kept"] if job.approval else []
    )
    moved: dict[int, Approved] = {}
    for start in range(0, len(pending), BATCH):
        approved = yield from verbs.auto_approve(pending[start : start + BATCH])
        moved |= {one.id: one for one in approved}
    return [Receipt(*moved[made.id], made.what) if made.id in moved else made for made in receipts]


def _bulk(receipts: Sequence[Receipt]) -> BulkReceipt:
    return BulkReceipt(
        [receipt.id for receipt in receipts], [receipt.what for receipt in receipts], _claimable_from(receipts)
    )


def _claimable_from(receipts: Sequence[Receipt]) -> datetime | None:
    return min(
        (
            receipt.run_after
            for receipt in receipts
            if receipt.state == State.QUEUED and receipt.run_after is not None and receipt.what != "kept"
        ),
        default=None,
    )

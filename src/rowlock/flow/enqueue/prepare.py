"""Enqueue: options and arguments -> a row. Plans of statements, so that any driver can run them, blocking or not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rowlock.errors import EnqueueError, InvalidOption, UniqueConflict
from rowlock.model import ids
from rowlock.model.approval import demanded
from rowlock.model.job import NewJob
from rowlock.model.kind import Gate
from rowlock.model.options import as_json, checked_key, refs_json, span
from rowlock.model.rate import checked_weight, rates_of
from rowlock.model.state import State
from rowlock.model.stored_args import RATE, with_skills
from rowlock.model.tenant_share import share_of
from rowlock.store.jobs import enqueue as verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.enqueue.wake import Pair
    from rowlock.model.approval import Approval
    from rowlock.model.kind import Kind
    from rowlock.model.options import Options
    from rowlock.model.rate import Rate
    from rowlock.store.jobs.enqueue import Approved, EnqueuedPlain, JobValues, ManyColumns, StatementPlan

_TRIES: Final = 20
BATCH: Final = 1000
"""Rows per statement of a bulk enqueue."""


class Receipt(NamedTuple):
    """What became of one enqueue. what: created, kept or replaced; run_after None: the kept job is pruned."""

    id: int
    state: str
    run_after: datetime | None
    what: str

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode(self.id)


class Written(NamedTuple):
    """What became of a bulk, in input order."""

    ids: Sequence[int]
    whats: Sequence[str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """All of a job but its arguments: made once for every call with the same options, if nothing looks at those."""

    job: NewJob
    gate: Gate | None
    rates: tuple[Rate, ...]
    """To be registered, like the gate."""
    pair: Pair
    values: JobValues
    plain: tuple[object, ...] | None
    """The values of PLAIN; None: the job needs more than those."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs of one kind with the same options. jobs: one for all of them, or one per text when arguments made them."""

    texts: Sequence[str]
    jobs: Sequence[Prepared]

    def __getitem__(self, index: int) -> NewJob:
        """The job at that place of the input."""
        return self.jobs[index if len(self.jobs) > 1 else 0].job


def prepare(kind: Kind, options: Options, named: Mapping[str, object]) -> Prepared:
    """Combine what the kind says, what the call says and what is made of the arguments."""
    gate = _gate(kind.gate if options.gate is None else options.gate, named)
    refs = dict(kind.refs(**named)) if kind.refs is not None else {}
    refs.update(options.refs or {})
    approval = _approval(kind, options)
    rates = rates_of(kind.rate if options.rate is None else options.rate, named, kind.scope)
    weight = kind.weight if options.weight is None else options.weight
    job = NewJob(
        kind=kind.name,
        priority=kind.priority if options.priority is None else options.priority,
        share=share_of(options.tenant) if kind.fair else 0,
        # A call may demand approval, never waive it.
        approval=0 if approval is None else approval.code,
        answer_in=None if approval is None else approval.answer_in,
        run_at=options.run_at,
        run_in=span(options.run_in, "run_in"),
        expires_in=kind.expires_in if options.expires_in is None else span(options.expires_in, "expires_in"),
        max_age=kind.max_age if options.max_age is None else span(options.max_age, "max_age"),
        max_attempts=kind.retry.attempts if options.max_attempts is None else options.max_attempts,
        tenant=options.tenant,
        submitted_by=options.submitted_by,
        unique_key=_unique(kind.scope, options, named),
        unique_scope=None if options.unique_key is None else _scope(options),
        on_conflict=options.on_conflict,
        max_wait=span(options.max_wait, "max_wait"),
        idempotency_key=_made(options.idempotency_key, "idempotency_key", named),
        keep_key=None if options.idempotency_key is None else span(options.keep_key, "keep_key"),
        scope=kind.scope,
        gate_key=gate.key if gate else None,
        tags=tuple(options.tags) if options.tags else None,
        refs=refs_json(refs) if refs else None,
        meta=as_json(options.meta, "meta"),
        rate_keys=tuple(str(rate.key) for rate in rates) or None,
        rate_weight=checked_weight(weight, rates),
    )
    return prepared(job, gate, rates)


def prepared(job: NewJob, gate: Gate | None = None, rates: tuple[Rate, ...] = ()) -> Prepared:
    """Work out once what every enqueue of such a job needs."""
    values = verbs.values_of(job)
    plain = verbs.plain_values(values) if is_plain(job) else None
    return Prepared(job, gate, rates, (job.kind, job.priority, job.share), values, plain)


def is_plain(job: NewJob) -> bool:
    """Whether the table's defaults and COPY can carry it: no key to look up, no time to compute, nothing beside it."""
    return (
        job.run_at is None
        and job.run_in is None
        and job.expires_in is None
        and job.max_age is None
        and job.answer_in is None
        and job.unique_key is None
        and job.idempotency_key is None
        and job.gate_key is None
        and job.rate_keys is None
        and job.tags is None
        and job.refs is None
    )


def is_several(job: NewJob) -> bool:
    """Whether its enqueue may take several statements, which stand or fall together."""
    return bool(job.approval) or (job.unique_key is not None and job.idempotency_key is not None)


def state_of(job: NewJob) -> State:
    """Where a job that meets no other begins."""
    return State.PENDING if job.approval else State.QUEUED


def insert(ready: Prepared, text: str) -> StatementPlan[Receipt]:
    """The plan of one enqueue. A statement without an answer lost a race for the key and is run again."""
    job, args = ready.job, text_of(ready.job, text)
    if ready.plain is not None:
        return (yield from _by_rule(job, [created(job, (yield from verbs.plain(ready.values, args)))]))[0]
    for _ in range(_TRIES):
        found = yield from verbs.one(job, ready.values, args)
        receipt = None if found is None else (yield from _settled(job, ready.values, Receipt(*found)))
        if receipt is not None:
            return (yield from _by_rule(job, [receipt]))[0]
    message = (
        f"The key of this {job.kind} job changed hands {_TRIES} times while it was enqueued; nothing was written. "
        "Try again outside a REPEATABLE READ or SERIALIZABLE transaction."
    )
    raise EnqueueError(message)


def _settled(job: NewJob, values: JobValues, receipt: Receipt) -> StatementPlan[Receipt | None]:
    """What the first answer comes to; None: a race was lost, again. The idempotency key follows the unique key."""
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


def insert_inside(ready: Prepared, text: str, channel: str) -> StatementPlan[Receipt]:
    """The plan of a plain enqueue that notifies by itself, at a commit nobody can observe."""
    return created(ready.job, (yield from verbs.plain_inside(ready.values, text, channel)))


def insert_telling(ready: Prepared, text: str, channel: str) -> StatementPlan[tuple[Receipt, bool]]:
    """The plan of a plain enqueue that may notify by itself; whether it does, at the commit."""
    made = yield from verbs.plain_notifying(ready.values, text, channel)
    return created(ready.job, made), made.notified is True


def created(job: NewJob, made: EnqueuedPlain) -> Receipt:
    """The receipt of a plain enqueue, which answers with id and run_after alone."""
    return Receipt(made.id, state_of(job), made.run_after, "created")


def insert_many(batch: Batch) -> StatementPlan[list[Receipt]]:
    """The plan of a bulk enqueue: jobs that differ only in args, keys, gate and refs; receipts in input order."""
    receipts: dict[int, Receipt] = {}
    once = batch[0].idempotency_key is not None
    left = list(range(len(batch.texts)))
    for _ in range(_TRIES):
        again: list[int] = []
        for start in range(0, len(left), BATCH):
            part = left[start : start + BATCH]
            answers = yield from verbs.many(batch.jobs[0].values, _columns(batch, part), once=once)
            for n, found in zip(part, answers, strict=True):
                if found is None:
                    again.append(n)
                else:
                    receipts[n] = Receipt(*found)
            taken = next((n for n in part if n in receipts and receipts[n].what == "kept"), None)
            if taken is not None and batch[taken].on_conflict == "reject" and batch[taken].unique_key is not None:
                yield from verbs.withdraw([made.id for made in receipts.values() if made.what == "created"])
                raise conflict(batch[taken], receipts[taken])
        left = again
        if not left:
            return (yield from _by_rule(batch[0], [receipts[n] for n in range(len(batch.texts))]))
    message = f"{len(left)} keys changed hands {_TRIES} times while they were enqueued. Roll back and try again."
    raise EnqueueError(message)


def _by_rule(job: NewJob, receipts: list[Receipt]) -> StatementPlan[list[Receipt]]:
    """Approve what a rule approves in advance; only jobs that need approval are looked at."""
    asked = (
        [made.id for made in receipts if made.state == State.PENDING and made.what != "kept"] if job.approval else []
    )
    moved: dict[int, Approved] = {}
    for start in range(0, len(asked), BATCH):
        approved = yield from verbs.auto_approve(asked[start : start + BATCH])
        moved |= {job.id: job for job in approved}
    return [Receipt(*moved[made.id], made.what) if made.id in moved else made for made in receipts]


def text_of(job: NewJob, text: str) -> str:
    """The arguments as stored: workers that ask no rates leave a job with one to those that do."""
    return text if job.rate_keys is None else with_skills(text, RATE)


def conflict(job: NewJob, receipt: Receipt) -> UniqueConflict:
    """What to tell a caller whose key is taken."""
    key = (job.unique_key or "").partition(":")[2]
    message = (
        f"A {job.kind} job with unique_key {key!r} is already {receipt.state}: {receipt.public_id}. "
        f"Nothing was enqueued; "
        'pass on_conflict="keep" to get that job, or "replace" to give it the new arguments.'
    )
    return UniqueConflict(message, receipt.id)


def _columns(batch: Batch, part: Sequence[int]) -> ManyColumns:
    """What differs between the jobs of this part of a bulk."""
    jobs = [batch[n] for n in part]
    return {
        "many_args": [text_of(job, batch.texts[n]) for n, job in zip(part, jobs, strict=True)],
        "many_unique_keys": [job.unique_key for job in jobs],
        "many_idempotency_keys": [job.idempotency_key for job in jobs],
        "many_gate_keys": [job.gate_key for job in jobs],
        "many_refs": [job.refs for job in jobs],
        "many_rate_keys": [json.dumps(job.rate_keys) if job.rate_keys else None for job in jobs],
    }


def _approval(kind: Kind, options: Options) -> Approval | None:
    approval = demanded(kind.approval, options.approval)
    if approval is not None and approval.four_eyes and options.submitted_by is None:
        message = (
            f"{kind.name} needs the approval of somebody else than its submitter, so it must be known who that is. "
            "Pass submitted_by."
        )
        raise InvalidOption(message)
    return approval


def _unique(scope: str, options: Options, named: Mapping[str, object]) -> str | None:
    key = _made(options.unique_key, "unique_key", named)
    return None if key is None else f"{'*' if options.unique_across_kinds else scope}:{key}"


def _made(key: str | Callable[..., str] | None, name: str, named: Mapping[str, object]) -> str | None:
    """A key as given, or as made of the arguments."""
    return None if key is None else checked_key(key(**named) if callable(key) else key, name)


def _scope(options: Options) -> str:
    # Only a waiting job can be pushed back, so a debounced key never counts the running one.
    return "waiting" if options.on_conflict == "debounce" else options.unique_scope


def _gate(gate: object, named: Mapping[str, object]) -> Gate | None:
    if callable(gate):
        gate = gate(**named)
    if gate is None or isinstance(gate, Gate):
        return gate
    return Gate(checked_key(gate, "gate"))

"""Enqueue verbs: a new job becomes queued, pending or blocked.

Most of them are plans: generators that yield a statement with its values and are sent its rows. The same plan runs on a
connection of Rowlock's own and on the caller's, whatever driver that has, awaited or blocking. A job with nothing but
arguments and labels goes by enqueue_plain() without a plan: that path is taken thousands of times a second.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypedDict, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Sequence
    from datetime import datetime, timedelta

    import asyncpg

    from rowlock.model.job import NewJob
    from rowlock.store.caller_transaction import Ask
    from rowlock.store.database import Database

T = TypeVar("T")
Rows: TypeAlias = "list[Sequence[object]]"
StatementPlan: TypeAlias = "Generator[Ask, Rows, T]"
"""Yields statements with their values, is sent their rows, returns a T."""

PLAIN: Final = ("kind", "priority", "share", "approval", "max_attempts", "tenant", "submitted_by", "meta")
"""The parameters of enqueue_plain in their order, after args."""
plain_values: Final = itemgetter(*PLAIN)
"""The values of PLAIN among those of a JobValues."""


class JobValues(TypedDict):
    """All parameters of the enqueue statements but args; each statement takes those it needs."""

    kind: str
    priority: int
    share: int
    approval: int
    answer_in: timedelta | None
    run_at: datetime | None
    run_in: timedelta | None
    expires_in: timedelta | None
    max_age: timedelta | None
    max_attempts: int
    tenant: str | None
    submitted_by: str | None
    unique_key: str | None
    unique_scope: str | None
    max_wait: timedelta | None
    idempotency_key: str | None
    rejects: bool
    keep_key: timedelta | None
    scope: str
    gate_key: str | None
    tags: list[str] | None
    refs: str | None
    meta: str | None
    rate_keys: list[str] | None
    rate_weight: int | None


class ManyColumns(TypedDict):
    """What differs between the jobs of one bulk, a list each; rate keys as JSON."""

    many_args: list[str]
    many_unique_keys: list[str | None]
    many_idempotency_keys: list[str | None]
    many_gate_keys: list[str | None]
    many_refs: list[str | None]
    many_rate_keys: list[str | None]


class Receipt(NamedTuple):
    """The job that an enqueue made or met. what: created, kept, replaced, or how two keys disagree (taken, lost).

    state is "pruned", and run_after None, when an idempotency key outlived its job.
    """

    id: int
    state: str
    run_after: datetime | None
    what: str


class EnqueuedPlain(NamedTuple):
    """A job that was inserted as it was given. notified: see the statement; None where nothing was to be notified."""

    id: int
    run_after: datetime
    notified: bool | None = None


class Approved(NamedTuple):
    """A job that a rule approved in advance."""

    id: int
    state: str
    run_after: datetime


def values_of(job: NewJob) -> JobValues:
    """The values of a job for every enqueue statement."""
    return {
        "kind": job.kind,
        "priority": job.priority,
        "share": job.share,
        "approval": int(job.approval),
        "answer_in": job.answer_in,
        "run_at": job.run_at,
        "run_in": job.run_in,
        "expires_in": job.expires_in,
        "max_age": job.max_age,
        "max_attempts": job.max_attempts,
        "tenant": job.tenant,
        "submitted_by": job.submitted_by,
        "unique_key": job.unique_key,
        "unique_scope": job.unique_scope,
        "max_wait": job.max_wait,
        "idempotency_key": job.idempotency_key,
        "rejects": job.on_conflict == "reject",
        "keep_key": job.keep_key,
        "scope": job.scope or job.kind,
        "gate_key": job.gate_key,
        "tags": list(job.tags) if job.tags else None,
        "refs": job.refs,
        "meta": job.meta,
        "rate_keys": list(job.rate_keys) if job.rate_keys else None,
        "rate_weight": job.rate_weight if job.rate_keys and job.rate_weight > 1 else None,
    }


def insert_plain(database: Database, args: str, plain: tuple[object, ...]) -> Awaitable[list[asyncpg.Record]]:
    """Insert one job over the pool: (id, run_after). plain: the values of PLAIN."""
    return database.fetch_in_order(database.statements["enqueue_plain"], args, *plain)


def insert_plain_notifying(database: Database, args: str, plain: tuple[object, ...]) -> Awaitable[list[asyncpg.Record]]:
    """Insert one job over the pool and notify a hungry worker with the same commit: (id, run_after, notified).

    notified None: no worker is hungry; False: another producer notifies just now, so send the message afterwards.
    """
    return database.fetch_in_order(database.statements["enqueue_plain_notifying"], args, *plain, database.channel)


def plain(values: JobValues, args: str) -> StatementPlan[EnqueuedPlain]:
    """Insert one job that needs nothing but arguments and labels."""
    rows = yield "enqueue_plain", {**values, "args": args}
    return EnqueuedPlain(*cast("tuple[int, datetime]", tuple(rows[0])))


def plain_notifying(values: JobValues, args: str, channel: str) -> StatementPlan[EnqueuedPlain]:
    """The same, and notify a hungry worker at the commit; notified as in insert_plain_notifying()."""
    rows = yield "enqueue_plain_notifying", {**values, "args": args, "channel": channel}
    return EnqueuedPlain(*cast("tuple[int, datetime, bool | None]", tuple(rows[0])))


def plain_inside(values: JobValues, args: str, channel: str) -> StatementPlan[EnqueuedPlain]:
    """The same for a transaction whose commit cannot be observed: the database notifies by itself."""
    rows = yield "enqueue_plain_inside", {**values, "args": args, "channel": channel}
    return EnqueuedPlain(*cast("tuple[int, datetime]", tuple(rows[0][:2])))


def one(job: NewJob, values: JobValues, args: str) -> StatementPlan[Receipt | None]:
    """Insert one job, or meet the holder of its key; None: a race for the key was lost, run it again."""
    rows = yield _statement(job), {**values, "args": args}
    return Receipt(*cast("tuple[int, str, datetime | None, str]", tuple(rows[0]))) if rows else None


def many(values: JobValues, columns: ManyColumns, *, once: bool) -> StatementPlan[list[Receipt | None]]:
    """Insert a part of a bulk, in input order; None: a race for that key was lost. once: with idempotency keys."""
    rows = yield "enqueue_many_once" if once else "enqueue_many", {**values, **columns}
    return [
        None if row[4] is None else Receipt(*cast("tuple[int, str, datetime | None, str]", tuple(row[1:])))
        for row in rows
    ]


def point_key(values: JobValues, job_id: int | None) -> StatementPlan[None]:
    """Let the idempotency key stand for another job; None: forget the key."""
    yield "point_key", {**values, "job_id": job_id}


def withdraw(ids: list[int]) -> StatementPlan[None]:
    """Delete the jobs that this transaction has just inserted."""
    yield "withdraw", {"ids": ids}


def auto_approve(ids: list[int]) -> StatementPlan[list[Approved]]:
    """Approve what a rule approves in advance; returns the jobs that moved on."""
    rows = yield "auto_approve", {"ids": ids}
    return [Approved(*cast("tuple[int, str, datetime]", tuple(row))) for row in rows]


def wake_inside(channel: str, payload: str) -> StatementPlan[None]:
    """Notify hungry workers at the commit of the caller's transaction."""
    yield "wake_inside", {"channel": channel, "payload": payload}


def _statement(job: NewJob) -> str:
    if job.unique_key is None:
        if job.idempotency_key is not None:
            return "enqueue_once"
        return "enqueue" if job.refs is None and job.tags is None else "enqueue_referenced"
    once = "" if job.idempotency_key is None else "_once"
    if job.on_conflict in ("replace", "debounce"):
        return f"enqueue{once}_replace_{job.unique_scope}"
    return f"enqueue{once}_keep"

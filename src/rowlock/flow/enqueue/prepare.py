"""Prepare: the kind's options and the call's become everything of a job but its arguments. No database is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowlock.errors import InvalidOption
from rowlock.model.approval import demanded
from rowlock.model.job import NewJob
from rowlock.model.keys import checked_key
from rowlock.model.kind import Gate
from rowlock.model.options import as_json, refs_json, span
from rowlock.model.rate import checked_weight, rates_of
from rowlock.model.tenant_share import share_of
from rowlock.store.jobs.enqueue import plain_values, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.model.approval import Approval
    from rowlock.model.kind import Kind
    from rowlock.model.options import Options
    from rowlock.model.queue_pair import Pair
    from rowlock.model.rate import Rate
    from rowlock.store.jobs.enqueue import JobValues


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """Everything of a job but its arguments; shared by calls with the same options."""

    job: NewJob
    gate: Gate | None
    rates: tuple[Rate, ...]
    """Registered before the job is written, like the gate."""
    pair: Pair
    values: JobValues
    plain: tuple[object, ...] | None
    """The values of PLAIN; None: the job needs one of the longer statements."""


def prepare(kind: Kind, options: Options, named: Mapping[str, object]) -> PreparedJob:
    """Combine the kind's options, the call's options, and the options that functions compute from the arguments."""
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
        unique_key=_unique_key(kind.scope, options, named),
        unique_scope=None if options.unique_key is None else _unique_scope(options),
        on_conflict=options.on_conflict,
        max_wait=span(options.max_wait, "max_wait"),
        idempotency_key=_key(options.idempotency_key, "idempotency_key", named),
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


def depends_on_arguments(kind: Kind, options: Options) -> bool:
    """Whether a function computes one of the options from the arguments, so that every job is prepared by itself."""
    computed = (options.unique_key, options.idempotency_key, options.gate, kind.gate, options.rate, kind.rate)
    return kind.refs is not None or any(map(callable, computed))


def prepared(job: NewJob, gate: Gate | None = None, rates: tuple[Rate, ...] = ()) -> PreparedJob:
    """Compute once what every enqueue of such a job needs."""
    values = values_of(job)
    plain = plain_values(values) if is_plain(job) else None
    return PreparedJob(job, gate, rates, (job.kind, job.priority, job.share), values, plain)


def is_plain(job: NewJob) -> bool:
    """Whether COPY and the table's defaults suffice: no key, no time, no gate, no rate, no tag and no ref."""
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


def _approval(kind: Kind, options: Options) -> Approval | None:
    approval = demanded(kind.approval, options.approval)
    if approval is not None and approval.four_eyes and options.submitted_by is None:
        message = (
            f"{kind.name} must be approved by a person other than its submitter, so the submitter must be known. "
            "Pass submitted_by."
        )
        raise InvalidOption(message)
    return approval


def _unique_key(scope: str, options: Options, named: Mapping[str, object]) -> str | None:
    key = _key(options.unique_key, "unique_key", named)
    return None if key is None else f"{'*' if options.unique_across_kinds else scope}:{key}"


def _key(key: str | Callable[..., str] | None, name: str, named: Mapping[str, object]) -> str | None:
    """A key as given, or as a function computes it from the arguments."""
    return None if key is None else checked_key(key(**named) if callable(key) else key, name)


def _unique_scope(options: Options) -> str:
    # Only a waiting job can be pushed back, so a debounced key never counts the running one.
    return "waiting" if options.on_conflict == "debounce" else options.unique_scope


def _gate(gate: object, named: Mapping[str, object]) -> Gate | None:
    if callable(gate):
        gate = gate(**named)
    if gate is None or isinstance(gate, Gate):
        return gate
    return Gate(checked_key(gate, "gate"))

"""Things as --json shows them: the members that the REST API's answers have, under the same names.

Values are still Python's; Screen.json() writes instants, durations and counts as rowlock.model.json_output says.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

from rowlock.model import ids
from rowlock.model.progress import logging_name

if TYPE_CHECKING:
    from rowlock.desk.jobs import History
    from rowlock.desk.schedules import Backfill
    from rowlock.model.access import Entry, NewToken, Role, SealedEntry, Token
    from rowlock.model.approval import ApprovalStatus, Rule
    from rowlock.model.explanation import Explanation
    from rowlock.model.failure_group import FailureGroup
    from rowlock.model.job import Job
    from rowlock.model.lane import Lane
    from rowlock.model.lock import LockUser, LockView
    from rowlock.model.operation import Operation
    from rowlock.model.progress import LogLine, Progress
    from rowlock.model.rate import GateView, RateView
    from rowlock.model.retention import RetentionRule
    from rowlock.model.schedule import Schedule
    from rowlock.model.webhook import NewWebhook, Webhook, WebhookDelivery
    from rowlock.model.workflow import StepView, WorkflowView
    from rowlock.model.workload import (
        Backlog,
        Failures,
        LaneLoad,
        Overview,
        Running,
        Status,
        WorkerStatus,
        WorkerView,
    )

Record: TypeAlias = dict[str, Any]
_JOB: tuple[str, ...] = (
    "kind", "state", "priority", "attempt", "max_attempts", "losses", "runs", "lane", "worker", "tenant",
    "submitted_by", "created_at", "run_after", "claimed_at", "finished_at", "expires_at", "too_old_at",
    "cancel_requested", "unique_key", "gate_key", "tags", "refs", "meta", "args", "result", "errors", "workflow",
    "step", "backend_job_id",
)  # fmt: skip


def job(value: Job) -> Record:
    """A job."""
    record = {name: getattr(value, name) for name in _JOB}
    return {"id": value.public_id, **record, "progress": None if value.progress is None else progress(value.progress)}


def progress(value: Progress) -> Record:
    """The last report of an attempt."""
    return {
        "phase": value.phase,
        "done": value.done,
        "total": value.total,
        "fraction": value.fraction,
        "rate": value.rate,
        "eta": value.eta,
        "message": value.message,
        "reported_at": value.reported_at,
        "phases": [members(phase) for phase in value.phases],
        "items": None if value.items is None else members(value.items),
    }


def history(value: History) -> Record:
    """A job with its earlier attempts and the orders that people gave."""
    attempts = [members(attempt, without=("fence",)) for attempt in value.attempts]
    return {**job(value.job), "attempts": attempts, "acts": [members(act) for act in value.acts]}


def explanation(value: Explanation) -> Record:
    """The reasons why a job is not running."""
    return {
        "job_id": value.job.public_id,
        "verdict": value.verdict,
        "reasons": [members(reason) for reason in value.reasons],
        "position": None if value.position is None else members(value.position, without=("lane",)),
    }


def operation(value: Operation) -> Record:
    """An order for many jobs."""
    number = None if value.id is None else str(value.id)
    return {**members(value), "id": number, "samples": [job(sample) for sample in value.samples]}


def log_line(value: LogLine) -> Record:
    """A line that a job logged."""
    return {**members(value), "n": str(value.n), "level": logging_name(value.level)}


def approval(value: ApprovalStatus, public_id: str) -> Record:
    """How far the approval of a job has come."""
    return {
        "job_id": public_id,
        "needed": value.approval.approvers,
        "four_eyes": bool(value.approval.four_eyes),
        "approvers": list(value.approvers),
        "answer_by": value.answer_by,
    }


def approval_rule(value: Rule) -> Record:
    """An approval given in advance."""
    return {**members(value), "id": str(value.id)}


def retention_rule(value: RetentionRule) -> Record:
    """A retention rule."""
    return {
        "kind": value.kind,
        "state": value.state,
        "keep": value.keep,
        "declared": value.declared,
        "source": value.source,
    }


def lane(value: Lane) -> Record:
    """A lane's settings."""
    return members(value)


def lane_load(value: LaneLoad) -> Record:
    """A lane with its use. total_slots: of all its workers that beat."""
    return {
        **lane(value.lane),
        "running": value.running,
        "used": value.used,
        "held": value.held,
        "total_slots": value.slots,
        "workers": value.workers,
        "due": value.due,
        "scheduled": value.scheduled,
        "oldest_wait": value.oldest_wait,
    }


def worker(value: WorkerView) -> Record:
    """A worker."""
    return {
        **members(value, without=("slots", "supervisor", "held", "set_aside", "set_aside_rows", "carriers")),
        "id": str(value.id),
    }


def busy_worker(value: WorkerStatus) -> Record:
    """A worker with its slots and the jobs in them."""
    return {
        **worker(value.worker),
        "slots": [members(use) for use in value.slots],
        "jobs": [running(job) for job in value.jobs],
        "held": [{**members(slot), "job_id": slot.public_id} for slot in value.worker.held],
    }


def running(value: Running) -> Record:
    """A job in a slot."""
    return {
        **members(value),
        "id": value.public_id,
        "worker_id": None if value.worker_id is None else str(value.worker_id),
        "progress": None if value.progress is None else progress(value.progress),
    }


def status(value: Status) -> Record:
    """Lanes, workers and the jobs in their slots."""
    return {
        "at": value.at,
        "lanes": [lane_load(load) for load in value.lanes],
        "workers": [busy_worker(each) for each in value.workers],
        "unserved": [backlog(each) for each in value.unserved],
    }


def backlog(value: Backlog) -> Record:
    """Queued jobs of one kind."""
    return {**members(value), "oldest_id": _public(value.oldest_id)}


def overview(value: Overview) -> Record:
    """Jobs by state, lanes and workers."""
    return {
        **members(value),
        "lanes": [lane_load(load) for load in value.lanes],
        "workers": [worker(each) for each in value.workers],
    }


def failures(value: Failures) -> Record:
    """How jobs of one kind ended."""
    return {**members(value), "last_failed_id": _public(value.last_failed_id)}


def gate(value: GateView) -> Record:
    """A gate and the jobs that have its places."""
    holders = [{"job_id": h.public_id, "kind": h.kind, "worker": h.worker, "since": h.since} for h in value.holders]
    return {**members(value), "holders": holders}


def rate(value: RateView) -> Record:
    """A rate and how much of it is used."""
    return members(value)


def failure_group(value: FailureGroup) -> Record:
    """Failures with the same cause."""
    record, error = members(value), value.error or {}
    del record["error"]
    about = {name: error.get(name) for name in ("type", "reason", "frame")}
    state = {"state": "muted" if value.is_muted else "open", "last_job_id": _public(value.last_job_id)}
    return {**record, **about, **state, **({"sample": value.error} if "traceback" in error else {})}


def lock(value: LockView) -> Record:
    """A lock, its holder, and those who wait for it."""
    return {
        "namespace": value.namespace,
        "key": value.key,
        "holder": None if value.holder is None else _lock_user(value.holder),
        "waiters": [_lock_user(waiter) for waiter in value.waiters],
    }


def _lock_user(value: LockUser) -> Record:
    return {"process": value.process, "job": value.public_id, "kind": value.kind, "since": value.since}


def schedule(value: Schedule) -> Record:
    """A schedule."""
    return {**members(value), "declared": value.declared is not None, "last_job": _public(value.last_job)}


def backfill(value: Backfill) -> Record:
    """The slots of a range, and the jobs that were enqueued for them."""
    return {**members(value), "jobs": [ids.encode(number) for number in value.jobs]}


def workflow(value: WorkflowView) -> Record:
    """A workflow without its steps."""
    return {**members(value, without=("steps", "edges")), "id": value.public_id}


def workflow_graph(value: WorkflowView) -> Record:
    """A workflow with its steps and their dependencies."""
    nodes = [workflow_node(step) for step in value.steps]
    return {**workflow(value), "nodes": nodes, "edges": [members(edge) for edge in value.edges]}


def workflow_node(value: StepView) -> Record:
    """A step of a workflow."""
    return {**members(value), "job_id": value.public_id}


def token(value: Token) -> Record:
    """An API token, without its text."""
    return {**members(value), "permissions": sorted(value.permissions)}


def new_token(value: NewToken) -> Record:
    """An API token with its text, right after it was made."""
    return {**token(value.token), "text": value.text}


def webhook(value: Webhook) -> Record:
    """A webhook, without its secrets."""
    return {**members(value), "id": str(value.id), "health": value.health}


def new_webhook(value: NewWebhook) -> Record:
    """A webhook with a secret that was just made."""
    return {**webhook(value.webhook), "secret": value.secret}


def webhook_delivery(value: WebhookDelivery) -> Record:
    """A delivery, with the names of the REST API."""
    names = ("state", "attempt", "max_attempts", "created_at", "run_after", "finished_at")
    return {
        "id": value.job.public_id,
        "webhook_id": str(value.webhook_id),
        "event": value.event,
        "job_id": value.about,
        "status": value.status,
        "error": value.error,
        **{name: getattr(value.job, name) for name in names},
    }


def role(value: Role) -> Record:
    """A role."""
    return {"name": value.name, "permissions": sorted(value.permissions)}


def sealed_entry(value: SealedEntry) -> Record:
    """A line of the audit with its seal."""
    seal = {"n": value.n, "previous": value.previous, "hash": value.hash, "sealed_text": value.sealed_text}
    return {**audit_entry(value.entry), **seal}


def audit_entry(value: Entry) -> Record:
    """A line of the audit."""
    return {**members(value), "id": str(value.id)}


def members(value: Any, *, without: tuple[str, ...] = ()) -> Record:  # noqa: ANN401 - any dataclass
    """The fields of a dataclass under their own names."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in without}


def _public(number: int | None) -> str | None:
    return None if number is None else ids.encode(number)

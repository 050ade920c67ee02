"""Reasons why a job is not running. Each function returns one reason or None; add yours to a list at the end.

The lists are in the order of decisiveness: what must change first stands first.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk.explain.approval import approval
from rowlock.desk.explain.dependencies import waits_for_signal, waits_for_steps, workflow_cancelled
from rowlock.desk.explain.locks import locked
from rowlock.desk.explain.rates import lane_rate, rate_limited
from rowlock.desk.explain.set_aside import set_aside
from rowlock.desk.explain.silent_worker import stalls, worker_silent
from rowlock.desk.phrases import ago, blame, loss_text, several, span_text, until, when
from rowlock.model import ids
from rowlock.model.count import Count
from rowlock.model.explanation import Reason
from rowlock.model.spelling.similar_names import closest
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowlock.desk.explain.facts import Facts

_SOON: Final = timedelta(hours=1)

# --- a job that has ended --------------------------------------------------------------------------------------------


def ended(facts: Facts) -> Reason | None:
    """The job has ended: how, when and why."""
    job, row = facts.job, facts.row
    if not job.is_final or job.finished_at is None:
        return None
    text = {
        State.COMPLETED: "It completed",
        State.COMPLETED_WITH_ERRORS: "It completed with errors",
        State.FAILED: f"It failed at attempt {job.attempt} of {job.max_attempts}",
        State.CANCELLED: "It was cancelled",
        State.EXPIRED: "It expired before anything started it",
    }[job.state] + f" {when(job.finished_at, facts.now)}"
    by = row["act_by"] if row["act_verb"] in ("cancel", "stop", "reject") and job.state is State.CANCELLED else None
    text += f", ordered by {by}" if by else ""
    text += f": {blame(job.errors)}." if blame(job.errors) else "."
    if job.state not in (State.COMPLETED, State.COMPLETED_WITH_ERRORS):
        text += f" Run it again with: rowlock jobs retry {job.public_id}"
    details = {"state": str(job.state), "finished_at": job.finished_at, "error": job.errors, "by": by}
    return Reason("ended", text, details)


# --- a job that runs -------------------------------------------------------------------------------------------------


def cancel_requested(facts: Facts) -> Reason | None:
    """A cancel was requested, and the handler has not stopped yet."""
    if not facts.job.cancel_requested:
        return None
    by, at = facts.row["act_by"], facts.row["act_at"]
    text = "Its cancellation was requested" + (f" by {by}" if by else "") + (f" {when(at, facts.now)}" if at else "")
    text += f"; it ends at its next await. End it now with: rowlock jobs stop {facts.job.public_id}"
    return Reason("cancel_requested", text, {"by": by, "at": at})


def running(facts: Facts) -> Reason | None:
    """The job runs: where, since when, and its last report."""
    job = facts.job
    if job.claimed_at is None:
        return None
    text = f"It runs in lane {job.lane!r} on worker {job.worker or '(unknown)'} since {when(job.claimed_at, facts.now)}"
    text += f", attempt {job.attempt} of {job.max_attempts}"
    progress = job.progress if job.progress and job.progress.reported_at else None
    if progress is not None and progress.reported_at is not None and progress.reported_at >= job.claimed_at:
        share = f" {progress.fraction:.0%}" if progress.fraction is not None else ""
        text += f"; last progress {ago(progress.reported_at, facts.now)}: {progress.phase or 'no phase'}{share}"
    details = {"worker": job.worker, "lane": job.lane, "since": job.claimed_at, "attempt": job.attempt}
    details |= {
        "reported_at": progress.reported_at if progress else None,
        "phase": progress.phase if progress else None,
    }
    return Reason("running", text + ".", details)


# --- a job that waits ------------------------------------------------------------------------------------------------


def schema(facts: Facts) -> Reason | None:
    """The schema is too old or too new for workers of this version."""
    version = facts.standing["version"]
    details = {"version": version, "needed": facts.needed}
    if version < facts.needed:
        text = (
            f"The database schema is at version {version}, this code needs {facts.needed}: its workers wait. "
            "Upgrade it with: rowlock schema upgrade"
        )
        return Reason("schema_behind", text, details)
    if facts.standing["since"] > facts.needed:
        text = (
            f"The database schema is at version {version}; this code knows {facts.needed} and its workers refuse to "
            "start. Install a newer rowlock."
        )
        return Reason("schema_ahead", text, details)
    return None


def unreadable(facts: Facts) -> Reason | None:
    """No worker could read its arguments so far; it waits for other code."""
    job, errors = facts.job, facts.job.errors or {}
    if job.state is not State.QUEUED or errors.get("reason") != "unreadable":
        return None
    text = f"Workers that looked at it cannot read its arguments; it waits for one that can. {errors.get('message')}"
    return Reason("unreadable", text, {"run_after": job.run_after, "error": errors})


def not_due(facts: Facts) -> Reason | None:
    """The job is not due yet: scheduled, snoozed, or waiting for its next attempt."""
    job, row = facts.job, facts.row
    if job.state is State.RUNNING or job.run_after <= facts.now or unreadable(facts) is not None:
        return None
    if row["rate_turn"]:
        return None  # rate_limited() explains it
    why = {
        "failed": f"Attempt {job.attempt} of {job.max_attempts} failed ({blame(job.errors) or 'no error recorded'})",
        "snoozed": "Its handler asked to be run later",
        "interrupted": "It was interrupted and goes on later",
        "lost": f"{loss_text(job.errors)} ({several(job.losses, 'time')} so far)",
        "died": f"The process it ran in died ({blame(job.errors) or 'no reason recorded'})",
        None: "It is scheduled for later",
    }.get(row["last_outcome"], f"Its last attempt ended as {row['last_outcome']}")
    code = {None: "scheduled", "snoozed": "snoozed"}.get(row["last_outcome"], "retrying")
    text = f"{why}: it is due {until(job.run_after, facts.now)}."
    return Reason(code, text, {"run_after": job.run_after, "after": row["last_outcome"], "error": job.errors})


def parked(facts: Facts) -> Reason | None:
    """The job is parked at its gate until another job leaves."""
    if facts.job.state is not State.BLOCKED or facts.job.gate_key is None or facts.row["gate_place"] == 0:
        return None
    return _gate(facts, "parked", "It is parked at gate")


def gate_full(facts: Facts) -> Reason | None:
    """The gate is full: a worker would park the job."""
    row = facts.row
    if not facts.due or row["max_running"] is None or row["gate_place"] > 0 or row["held"] < row["max_running"]:
        return None
    return _gate(facts, "gate_full", "It would have to wait at gate")


def _gate(facts: Facts, code: str, verb: str) -> Reason:
    job, row = facts.job, facts.row
    text = f"{verb} {job.gate_key!r}, {row['held']} of {several(row['max_running'] or 0, 'place')} taken"
    if facts.holders:
        named = [
            f"{ids.encode(holder['id'])} ({holder['kind']}"
            + (
                f", running since {when(holder['claimed_at'], facts.now)})"
                if holder["claimed_at"]
                else ", about to start)"
            )
            for holder in facts.holders
        ]
        text += f" by {'; '.join(named)}"
    text += f"; {facts.parked_ahead} parked before it." if facts.parked_ahead else "."
    details = {
        "key": job.gate_key,
        "limit": row["max_running"],
        "held": row["held"],
        "holders": [ids.encode(holder["id"]) for holder in facts.holders],
        "parked_ahead": facts.parked_ahead,
    }
    return Reason(code, text, details)


def unserved(facts: Facts) -> Reason | None:
    """No lane serves the kind."""
    if facts.lane is not None or facts.carrier is not None:
        return None
    if not facts.lanes:
        text = "There is no lane yet: a worker creates them at its start. Start one: rowlock worker"
    else:
        there = _names(lane.name for lane in facts.lanes)
        text = (
            f"No lane serves the kind {facts.job.kind!r}; there are {there}. Put it into one: "
            f"rowlock lanes set {facts.lanes[0].name} --kinds …"
        )
    return Reason("kind_unserved", text, {"kind": facts.job.kind, "lanes": [lane.name for lane in facts.lanes]})


def drained(facts: Facts) -> Reason | None:
    """The job's lane is drained."""
    lane = facts.lane
    if lane is None or lane.enabled:
        return None
    edited = f" (last changed {when(lane.updated_at, facts.now)})" if lane.updated_at else ""
    text = f"Lane {lane.name!r} is drained{edited}. Let it start jobs again: rowlock lanes resume {lane.name}"
    return Reason("lane_drained", text, {"lane": lane.name, "changed_at": lane.updated_at})


def no_worker(facts: Facts) -> Reason | None:
    """No worker serves the job's lane."""
    if facts.lane is None or facts.serving or facts.carrier is not None:
        return None
    others = [worker for worker in facts.workers if worker.lanes]
    if not others:
        return Reason("no_worker", "No worker is there. Start one: rowlock worker", {"lane": facts.lane.name})
    serve = "; ".join(f"{worker.name}: {_names(worker.lanes or ())}" for worker in others[:5])
    text = f"No worker serves lane {facts.lane.name!r} ({serve}). Start one: rowlock worker --lanes {facts.lane.name}"
    return Reason("lane_unserved", text, {"lane": facts.lane.name, "workers": [worker.name for worker in others]})


def carried(facts: Facts) -> Reason | None:
    """A carrier brings the job, and no process has claimed it yet."""
    carrier, delivery = facts.carrier, facts.delivery
    if carrier is None or not facts.due:
        return None
    details = {"carrier": carrier, "backend_job_id": None, "delivered_at": None, "sent": 0}
    if delivery is not None:
        details |= {name: delivery[name] for name in ("backend_job_id", "delivered_at", "sent")}
    if delivery is None or facts.needs_message(delivery):
        soon = "within seconds"
        if facts.lane is not None and facts.lane.is_careful:
            soon = f"as soon as fewer than {facts.lane.room} jobs of lane {facts.lane.name!r} run or are with it"
        text = (
            f"{carrier} is to be told of it {soon}. If that does not happen, look whether its broker answers, "
            "and whether a process does the upkeep: rowlock worker --upkeep-only"
        )
        return Reason("undelivered", text, details)
    text = (
        f"{carrier} was told of it {when(delivery['delivered_at'], facts.now)} "
        f"({delivery['backend_job_id'] or 'no id'}), and no process behind it has claimed the job yet. "
        f"If it still waits, another message follows in {span_text(delivery['again_at'] - facts.now)}. "
        f"Look whether the processes of {carrier} run and are free."
    )
    return Reason("delivered", text, details)


def silent(facts: Facts) -> Reason | None:
    """The workers of the job's lane are silent."""
    quiet = [worker for worker in facts.serving if worker.silent or facts.missed_beats(worker)]
    if facts.working or not quiet:
        return None
    named = "; ".join(
        f"worker {worker.name} has been silent for {span_text(facts.now - worker.seen_at)}" for worker in quiet[:5]
    )
    text = f"No worker of its lane answers: {named}. Look whether they live, or start another: rowlock worker"
    return Reason("workers_silent", text, {"workers": [worker.name for worker in quiet]})


def draining(facts: Facts) -> Reason | None:
    """The workers of the job's lane are draining."""
    leaving = [worker for worker in facts.serving if not worker.silent and not worker.works]
    if facts.working or not leaving:
        return None
    text = f"The workers of its lane are draining and claim no more: {_names(worker.name for worker in leaving)}."
    return Reason("workers_draining", text, {"workers": [worker.name for worker in leaving]})


def unknown_kind(facts: Facts) -> Reason | None:
    """No worker of the job's lane knows the kind."""
    if not facts.working or facts.able:
        return None
    kinds = sorted({kind for worker in facts.working for kind in worker.kinds})
    near = closest(facts.job.kind, kinds, n=1)
    text = (
        f"No live worker of its lane knows the kind {facts.job.kind!r}; they know {_names(kinds[:10]) or 'none'}"
        + (f" and {len(kinds) - 10} more" if len(kinds) > 10 else "")  # noqa: PLR2004 - as many as are named
        + "."
        + (f" Did you mean {near[0]!r}?" if near else " Is the worker's code older, or a module not imported?")
    )
    details = {"kind": facts.job.kind, "known": kinds, "workers": [worker.name for worker in facts.working]}
    return Reason("kind_unknown", text, details)


def full(facts: Facts) -> Reason | None:
    """Every slot of the lane is taken: by which jobs, since when."""
    lane = facts.lane
    if lane is None or not facts.due or not facts.able:
        return None
    slots = [
        (worker, facts.use.get((worker.id, lane.name), 0) + worker.held_in(lane.name), worker.slots_in(lane))
        for worker in facts.able
    ]
    total = sum(size for *_, size in slots)
    if total == 0:
        text = (
            f"Lane {lane.name!r} has 0 slots, so nothing starts in it. Give it some: "
            f"rowlock lanes set {lane.name} --slots …"
        )
        return Reason("lane_full", text, {"lane": lane.name, "slots": 0, "used": 0, "stuck": 0, "jobs": []})
    # The row of a worker of the release before does not say which lane its stuck slots belong to.
    if any(used + max(0, worker.stuck - len(worker.held)) < size for worker, used, size in slots):
        return None
    used = sum(used for _, used, _ in slots)
    stuck = sum(worker.held_in(lane.name) + max(0, worker.stuck - len(worker.held)) for worker in facts.able)
    text = (
        f"Lane {lane.name!r} is full: {used} of {several(total, 'slot')} on {several(len(slots), 'worker')} taken"
        f"{_by(facts)}" + (f"; {several(stuck, 'slot')} held by {_stopped(facts)}." if stuck else ".")
    )
    per_worker = {worker.name: {"used": busy, "slots": size} for worker, busy, size in slots}
    details = {
        "lane": lane.name,
        "slots": total,
        "used": used,
        "stuck": stuck,
        "workers": per_worker,
        "jobs": _jobs(facts),
    }
    return Reason("lane_full", text, details)


def capped(facts: Facts) -> Reason | None:
    """The lane's max_total is reached."""
    lane = facts.lane
    if lane is None or not facts.due or lane.max_total is None or facts.running_in_lane() < lane.max_total:
        return None
    most = several(lane.max_total, "job")
    text = f"Lane {lane.name!r} runs {most} at once at most over all workers, and does{_by(facts)}."
    return Reason("lane_capped", text, {"lane": lane.name, "max_total": lane.max_total, "jobs": _jobs(facts)})


def ahead(facts: Facts) -> Reason | None:
    """Due jobs of higher priority, or older ones, come first."""
    if not facts.due or not (facts.higher.value or facts.older.value):
        return None
    parts = []
    if facts.higher.value:
        parts.append(f"{facts.higher} of higher priority")
    if facts.older.value:
        parts.append(f"{facts.older} as high and older")
    total = facts.higher + facts.older
    text = f"{total} due {'job' if total == Count(1) else 'jobs'} of its lane before it: {' and '.join(parts)}."
    if facts.position is not None and facts.position.start_in is not None:
        text += f" At the lane's pace of the last ten minutes it starts in about {span_text(facts.position.start_in)}."
    details = {"higher": facts.higher, "older": facts.older}
    return Reason("behind_others", text, details)


def expiring(facts: Facts) -> Reason | None:
    """The job expires or gets too old soon, or has already."""
    ends = [moment for moment in (facts.job.expires_at, facts.job.too_old_at) if moment is not None]
    if not ends or min(ends) - facts.now > _SOON:
        return None
    end = min(ends)
    what = "expires" if end == facts.job.expires_at else "fails as too old"
    passed = end <= facts.now
    text = (
        f"It is past its time (since {when(end, facts.now)}): upkeep ends it with its next round."
        if passed
        else f"It {what} {until(end, facts.now)} if it has not {'started' if what == 'expires' else 'ended'} by then."
    )
    return Reason("expired" if passed else "expires_soon", text, {"at": end})


def ready(facts: Facts) -> Reason:
    """Nothing keeps the job from running."""
    poll = facts.lane.poll_interval if facts.lane else timedelta(seconds=5)
    text = (
        "It should start at once: a worker that knows it has a free slot. Workers were notified, and look by "
        f"themselves every {span_text(poll)}."
    )
    return Reason("ready", text, {"poll_interval": poll, "workers": [worker.name for worker in facts.able]})


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _by(facts: Facts) -> str:
    if not facts.in_lane:
        return ""
    named = [
        f"{job.public_id} ({job.kind}) for {span_text(job.running_for)} on {job.worker or 'an unknown worker'}"
        for job in facts.in_lane
    ]
    more = facts.running_in_lane() - len(named)
    return f" by {'; '.join(named)}" + (f"; and {more} more" if more > 0 else "")


def _stopped(facts: Facts) -> str:
    """The handlers that hold slots without a running job."""
    named = [f"{slot.public_id} ({slot.kind}), told to stop {ago(slot.since, facts.now)}" for slot in facts.held]
    text = "handlers that were told to stop and have not"
    return f"{text}: {'; '.join(named)}" if named else text


def _jobs(facts: Facts) -> list[dict[str, object]]:
    return [{"id": job.public_id, "kind": job.kind, "worker": job.worker, "since": job.since} for job in facts.in_lane]


FINAL: Final[Sequence[Callable[[Facts], Reason | None]]] = (ended,)
RUNNING: Final[Sequence[Callable[[Facts], Reason | None]]] = (
    worker_silent,
    set_aside,
    stalls,
    cancel_requested,
    locked,
    running,
    expiring,
)
WAITING: Final[Sequence[Callable[[Facts], Reason | None]]] = (
    approval,
    set_aside,
    unreadable,
    workflow_cancelled,
    waits_for_steps,
    waits_for_signal,
    not_due,
    rate_limited,
    parked,
    schema,
    unserved,
    drained,
    no_worker,
    silent,
    draining,
    unknown_kind,
    gate_full,
    full,
    capped,
    lane_rate,
    carried,
    ahead,
)
"""Each of these keeps a job from running."""
REMARKS: Final[Sequence[Callable[[Facts], Reason | None]]] = (expiring,)
"""Added for a waiting job, whatever else holds."""

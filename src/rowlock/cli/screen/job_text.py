"""Jobs as people read them: rows of a table, the fields of one job, its progress and its errors in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.screen.output import aligned, compact, moment, span
from rowlock.cli.screen.progress_text import items_text, phase_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.desk.jobs import History
    from rowlock.model.job import Job
    from rowlock.model.progress import Progress

JOB_SPARE: Final = ("priority", "created", "lane", "attempt")
_JOB_COLUMNS: Final = ("id", "kind", "state", "priority", "attempt", "lane", "created", "last")
_ERROR_CHARACTERS: Final = 80
"""Of an error in a table; `jobs show` prints all of it."""


def job_columns(jobs: Sequence[Job]) -> tuple[str, ...]:
    """The columns of a table of jobs; with their errors, if one of them has one."""
    return (*_JOB_COLUMNS, "error") if any(job.errors for job in jobs) else _JOB_COLUMNS


def job_rows(jobs: Sequence[Job]) -> list[list[str]]:
    """Jobs as rows under job_columns()."""
    rows = [
        [
            job.public_id,
            job.kind,
            job.state.value,
            str(job.priority),
            f"{job.attempt}/{job.max_attempts}",
            job.lane or "",
            moment(job.created_at),
            _last_step(job),
        ]
        for job in jobs
    ]
    if any(job.errors for job in jobs):
        for job, row in zip(jobs, rows, strict=True):
            row.append(_error_cell(job))
    return rows


def _error_cell(job: Job) -> str:
    """The first line of a job's error, or of the first of the errors that it collected."""
    text = error_text(job.errors) or error_text(job.errors, full=True)
    line = text.partition("\n")[0]
    return line if len(line) <= _ERROR_CHARACTERS else f"{line[: _ERROR_CHARACTERS - 1]}…"


def _last_step(job: Job) -> str:
    if job.finished_at is not None:
        return f"ended {moment(job.finished_at)}"
    if job.state == "running":
        return f"since {moment(job.claimed_at)}" + ", cancel requested" * job.cancel_requested
    return f"due {moment(job.run_after)}" if job.state == "queued" else ""


def job_fields(history: History) -> dict[str, str]:
    """Everything about one job, label to text; empty texts for what it does not have."""
    job = history.job
    attempts = [
        [f"{a.attempt or ''}", a.outcome, a.worker or "", moment(a.ended_at), error_text(a.error)]
        for a in history.attempts
    ]
    acts = [[act.verb, act.by or "", moment(act.at), act.note or ""] for act in history.acts]
    ran = job.finished_at - job.claimed_at if job.finished_at and job.claimed_at else None
    return {
        "id": job.public_id,
        "kind": job.kind,
        "state": job.state.value + ", cancel requested" * (job.cancel_requested and not job.is_final),
        "priority": str(job.priority),
        "attempt": f"{job.attempt} of {job.max_attempts}",
        "run": "" if job.runs == job.attempt else f"{job.runs}, of which {job.losses} lost",
        "lane": job.lane or "",
        "worker": job.worker or "",
        "tenant": job.tenant or "",
        "submitted by": job.submitted_by or "",
        "created": moment(job.created_at),
        "due": moment(job.run_after),
        "claimed": moment(job.claimed_at),
        "finished": moment(job.finished_at),
        "ran": span(ran),
        "expires": moment(job.expires_at),
        "too old": moment(job.too_old_at),
        "workflow": f"{job.workflow}, step {job.step}" if job.workflow else "",
        "backend job id": job.backend_job_id or "",
        "unique key": job.unique_key or "",
        "gate": job.gate_key or "",
        "tags": ", ".join(job.tags),
        "refs": compact(job.refs) if job.refs else "",
        "meta": compact(job.meta) if job.meta else "",
        "args": compact(job.args) + (f" (version {job.args_version})" if job.args_version != 1 else ""),
        "progress": progress_text(job.progress),
        "phases": "\n".join(aligned(phase_rows(job.progress.phases))) if job.progress and job.progress.phases else "",
        "last progress": moment(job.last_progress_at),
        "result": "" if job.result is None else compact(job.result),
        "errors": error_text(job.errors, full=True),
        "attempts": "\n".join(aligned(attempts)) if attempts else "",
        "orders": "\n".join(aligned(acts)) if acts else "",
    }


def progress_text(progress: Progress | None) -> str:
    """Phase, counter and message in one line."""
    if progress is None:
        return ""
    counter = f"{progress.done:g}" + (f"/{progress.total:g}" if progress.total is not None else "")
    words = " ".join(part for part in (progress.phase, counter, progress.message) if part)
    return words if progress.items is None else f"{words} ({items_text(progress.items)})"


def error_text(error: Any, *, full: bool = False) -> str:  # noqa: ANN401 - a JSON document
    """Reason, class and message of a stored error; full: with its traceback or the collected errors."""
    if not error:
        return ""
    blame = ": ".join(str(error[key]) for key in ("reason", "type", "message") if error.get(key))
    more = [str(item) for item in error.get("errors", ())] if full else []
    trace = [str(error["traceback"]).rstrip()] if full and error.get("traceback") else []
    return "\n".join(filter(None, [blame, *more, *trace]))

"""Progress verbs: what running jobs report, and what an attempt finds of the attempts before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from rowlock.model.job import Claim

if TYPE_CHECKING:
    from datetime import datetime

    from rowlock.store.executor import SqlExecutor


class LogSize(NamedTuple):
    """The size of a job's log after a write."""

    job_id: int
    lines: int
    bytes: int


async def report(
    executor: SqlExecutor,
    *,
    worker: int,
    ids: list[int],
    fences: list[int],
    phases: list[str | None],
    progress: list[str | None],
    passed: list[str | None],
    checkpoints: list[str | None],
    cursors: list[str | None],
) -> set[Claim]:
    """Write phase, counters, passed phases, checkpoint and loop cursors (JSON); returns the claims that still hold."""
    rows = await executor.fetch(
        "report_progress",
        worker=worker,
        ids=ids,
        fences=fences,
        phases=phases,
        progress=progress,
        passed=passed,
        checkpoints=checkpoints,
        cursors=cursors,
    )
    return {Claim(row["job_id"], row["fence"]) for row in rows}


async def write_logs(
    executor: SqlExecutor,
    *,
    ids: list[int],
    fences: list[int],
    line_ids: list[int],
    numbers: list[int],
    moments: list[datetime],
    levels: list[int],
    loggers: list[str],
    messages: list[str],
) -> list[LogSize]:
    """Add log lines. ids and fences: the claims; line_ids: the job of each line. Returns the logs that grew."""
    rows = await executor.fetch(
        "write_logs",
        ids=ids,
        fences=fences,
        line_ids=line_ids,
        numbers=numbers,
        moments=moments,
        levels=levels,
        loggers=loggers,
        messages=messages,
    )
    return [LogSize(row["job_id"], row["log_lines"], row["log_bytes"]) for row in rows]


async def trim_log(executor: SqlExecutor, job_id: int, *, lines: int, size: int) -> None:
    """Delete the oldest lines of a log, until it has at most so many lines and bytes."""
    await executor.fetch("trim_logs", id=job_id, lines=lines, bytes=size)


async def write_items(
    executor: SqlExecutor,
    *,
    ids: list[int],
    fences: list[int],
    by_ids: list[int],
    by_fences: list[int],
    targets: list[int],
    phases: list[str],
    names: list[str],
    states: list[str],
    started: list[datetime | None],
    ended: list[datetime | None],
    reasons: list[str | None],
    errors: list[str | None],
) -> set[int]:
    """Write items that moved; returns the numbers of the targets that were reached.

    A target is a claim whose items these are (ids, fences), with the claim that writes them (by_ids, by_fences).
    targets: per item the number of its target, from 1.
    """
    rows = await executor.fetch(
        "write_items",
        ids=ids,
        fences=fences,
        by_ids=by_ids,
        by_fences=by_fences,
        targets=targets,
        phases=phases,
        names=names,
        states=states,
        started=started,
        ended=ended,
        reasons=reasons,
        errors=errors,
    )
    return {row["no"] for row in rows}


async def keep_items(executor: SqlExecutor, claim: Claim, *, phase: str, resume: bool) -> list[str]:
    """Names of the phase's items that earlier attempts finished; they become the items of this attempt."""
    rows = await executor.fetch("keep_items", id=claim.job_id, fence=claim.fence, phase=phase, resume=resume)
    return [row["name"] for row in rows]


async def read_checkpoint(executor: SqlExecutor, job_id: int) -> str | None:
    """The checkpoint of a job as JSON; None: it has none."""
    rows = await executor.fetch("checkpoint", id=job_id)
    return rows[0]["checkpoint"] if rows else None


async def read_cursors(executor: SqlExecutor, job_id: int) -> dict[str, int]:
    """How far the loops of earlier attempts came, by the loop's name."""
    rows = await executor.fetch("cursors", id=job_id)
    found: dict[str, int] = json.loads(rows[0]["cursors"] or "{}") if rows else {}
    return found


class ReceivedSignal(NamedTuple):
    """The answer to a handler that waits for a signal; value: JSON with payload and timed_out, None: none has come."""

    value: str | None


async def read_signal(executor: SqlExecutor, claim: Claim, name: str) -> ReceivedSignal | None:
    """The signal of that name; None: the claim is lost."""
    rows = await executor.fetch("signal_of", id=claim.job_id, fence=claim.fence, name=name)
    return ReceivedSignal(rows[0]["signal"]) if rows else None


async def step_name(executor: SqlExecutor, job_id: int) -> str | None:
    """The name of the job's workflow step; None: it belongs to no workflow."""
    rows = await executor.fetch("workflow_step_of", id=job_id)
    return str(rows[0]["name"]) if rows else None

"""Prune: rows past their retention are deleted: jobs, workflows, keys, audit lines, workers, gates and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model.access import EMBED_LONGEST, FAILURES_WITHIN, SESSION_IDLE, SESSION_LONGEST
from rowlock.upkeep.duty import BATCH, MOST_BATCHES, SMALL_BATCH
from rowlock.upkeep.refused_rows import fetch_apart

if TYPE_CHECKING:
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.upkeep.duty import DutyContext


async def prune(context: DutyContext, _beat: CompletedBeat) -> int:
    """Delete jobs past their retention, in bounded batches; keys have a retention of their own."""
    total = 0
    for rule in await context.database.fetch("retention_rules"):
        for _ in range(MOST_BATCHES):
            answers = await fetch_apart(
                context, "prune", "finished_ids", kind=rule["kind"], state=rule["state"], batch=BATCH
            )
            total += sum(row["pruned"] for (row,) in answers)
            if all(row["pruned"] < BATCH for (row,) in answers):
                break
    total += await _prune_workflows(context)
    await fetch_apart(context, "prune_keys", "expired_keys", batch=BATCH)
    await _prune_access(context)
    return total


async def _prune_workflows(context: DutyContext) -> int:
    """Delete whole workflows with their steps; those that a rule keeps longer are marked first."""
    total = 0
    for _ in range(MOST_BATCHES):
        judged = await fetch_apart(context, "judge_workflows", "old_workflow_names")
        # Only a run for all workflows together has marked each that a rule keeps longer.
        careful = len(judged) != 1 or "judge_workflows" in context.refused or context.refused.rests("judge_workflows")
        answers = await fetch_apart(context, "prune_workflows", "old_workflows", batch=BATCH, careful=careful)
        total += sum(row["pruned"] for (row,) in answers)
        if not any(row["workflows"] for (row,) in answers) and not any(judged):
            break
    return total


async def _prune_access(context: DutyContext) -> None:
    """Delete audit lines past their retention, expired sessions and old failed logins.

    Audit lines form a chain, from which no line may be passed over.
    """
    kept = {"idle": SESSION_IDLE, "longest": SESSION_LONGEST, "within": FAILURES_WITHIN, "longest_embed": EMBED_LONGEST}
    await fetch_apart(context, "prune_access", "old_access", **kept)
    if context.settings.audit_keep is None:
        return
    for _ in range(MOST_BATCHES):
        gone = await context.database.fetch("prune_audit", keep=context.settings.audit_keep, batch=BATCH)
        if len(gone) < BATCH:
            break


async def registry(context: DutyContext, _beat: CompletedBeat) -> int:
    """Delete rows of silent workers, and of waiters, locks and bulk orders whose process is gone."""
    await context.database.fetch("forget_deliverers")
    await fetch_apart(context, "workers_silent", "silent_workers")
    await fetch_apart(context, "prune_workers", "silent_workers")
    await fetch_apart(context, "prune_waiters", "expired_waiters")
    await fetch_apart(context, "prune_locks", "lock_names")
    await fetch_apart(context, "prune_operations", "old_operations")
    return 0


async def limits(context: DutyContext, _beat: CompletedBeat) -> int:
    """Delete gates and rates that no call has named for a week and no job needs."""
    gone = 0
    for name in ("forget_gates", "forget_rates"):
        for _ in range(MOST_BATCHES):
            answers = await fetch_apart(context, name, "unused_limits", batch=SMALL_BATCH)
            forgotten = sum(len(rows) for rows in answers)
            gone += forgotten
            if forgotten < SMALL_BATCH:
                break
    return gone

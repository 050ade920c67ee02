"""The duties of upkeep, one function each: bounded, idempotent, and harmless when two workers run it at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.desk.workflow_halt import halt
from rowlock.flow.worker.heartbeat import EVERY
from rowlock.model import ids
from rowlock.model.access import FAILURES_WITHIN, SESSION_IDLE, SESSION_LONGEST
from rowlock.model.lane import kinds_by_lane
from rowlock.model.pair import pair_of
from rowlock.model.released_jobs import parse_released
from rowlock.model.state import State
from rowlock.store import lanes as lane_rows
from rowlock.telemetry import Events, JobRescued

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.settings import Settings
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.upkeep")
_BATCH: Final = 5000
"""Rows that one statement deletes."""
_MOST_BATCHES: Final = 20
"""Statements of one kind per run of a duty."""
_FEW_BATCHES: Final = 5
_SMALL_BATCH: Final = 500
"""Rows that one statement moves; the statements have the same limit."""
_FLOWS: Final = 200
"""Live workflows that the duty looks at, one time it runs."""
_REVIVAL: Final = 2.5 * EVERY
"""Seconds in which a live worker whose row was deleted has written it again."""


@dataclass(frozen=True, slots=True)
class DutyContext:
    """What every duty gets."""

    database: Database
    settings: Settings
    waker: Waker
    events: Events = field(default_factory=Events)


async def rescue(context: DutyContext, beat: CompletedBeat) -> int:
    """Take jobs from silent workers: they go back to the queue, fail or wait for a person, as their kind says."""
    return await _in_batches(context, "rescue", watched=beat.watched)


async def stalled(context: DutyContext, beat: CompletedBeat) -> int:
    """Take running jobs from their workers that reported nothing for the progress timeout of their lane."""
    return await _in_batches(context, "stalled", "it made no progress", watched=beat.watched)


async def rescue_dead(context: DutyContext, workers: Sequence[int]) -> int:
    """Take jobs at once from workers whose supervisor saw them die, and mark those workers as gone."""
    await context.database.fetch("workers_gone", workers=list(workers))
    return await _in_batches(context, "rescue_dead", workers=list(workers))


async def orphans(context: DutyContext, _beat: CompletedBeat) -> int:
    """Take running jobs whose worker row was deleted by hand. A worker that lives writes its row again before that."""
    if not await context.database.fetch("any_orphan"):
        return 0
    await asyncio.sleep(_REVIVAL)
    return await _in_batches(context, "orphans")


async def _in_batches(context: DutyContext, name: str, why: str = "its worker was lost", **values: object) -> int:
    total = 0
    for _ in range(_MOST_BATCHES):
        rows = await context.database.fetch(
            name, max_losses=context.settings.max_losses, channel=context.database.channel, **values
        )
        total += _moved(context, rows, why)
        if len(rows) < _SMALL_BATCH:
            break
    return total


def _moved(context: DutyContext, rows: Iterable[Record], why: str) -> int:
    rows = list(rows)
    for row in rows:
        logger.warning(
            "↻ rescued %s %s: %s; now %s",
            row["kind"],
            ids.encode(row["id"]),
            why,
            row["state"],
            extra={"job_id": ids.encode(row["id"]), "kind": row["kind"]},
        )
        if context.events.active:
            context.events.emit(JobRescued(row["id"], row["kind"], row["state"]))
    context.waker.wake((pair_of(row), row["run_after"]) for row in rows if row["state"] == State.QUEUED)
    if any(row["promoted"] for row in rows):
        context.waker.look()
    if rows:
        _wake_hooks(context, rows[0])
        _wake_released(context, rows[0])
    return len(rows)


def _wake_hooks(context: DutyContext, row: Record) -> None:
    context.waker.wake(((kind, 0, 0), row["hooks_at"]) for kind in row["hook_kinds"] or ())


def _wake_released(context: DutyContext, row: Record) -> None:
    context.waker.wake((step.pair, step.run_after) for step in parse_released(row["released"]))


async def expire(context: DutyContext, _beat: CompletedBeat) -> int:
    """End waiting jobs past expires_at or without an answer in time, and any job older than its max_age."""
    total = 0
    channel = context.database.channel
    for name, state, error in (
        ("expire", State.EXPIRED, None),
        ("unanswered", State.EXPIRED, json.dumps({"reason": "unanswered"})),
        ("too_old", State.FAILED, json.dumps({"reason": "too old"})),
    ):
        for _ in range(_MOST_BATCHES):
            (row,) = await context.database.fetch(name, state=state, error=error, channel=channel)
            total += len(row["ids"])
            if row["ids"]:
                logger.warning("⊘ %s %d jobs: %s", name.replace("_", " "), len(row["ids"]), ids.listed(row["ids"]))
                _wake_hooks(context, row)
                _wake_released(context, row)
            if row["promoted"]:
                context.waker.look()
            if len(row["ids"]) < _SMALL_BATCH:
                break
    return total


async def sweep(context: DutyContext, _beat: CompletedBeat) -> int:
    """Publish where the queue of each pair begins; workers read it after their next beat."""
    (row,) = await context.database.fetch("sweep")
    return int(row["changed"])


async def gates(context: DutyContext, _beat: CompletedBeat) -> int:
    """Recount the places of gates, give free ones to parked jobs, and update caps and rates from the lanes."""
    await context.database.fetch("repair_caps")
    await context.database.fetch("lane_rate", name=None)
    (row,) = await context.database.fetch("repair_gates")
    if row["changed"]:
        context.waker.look()
    return int(row["changed"])


async def prune(context: DutyContext, _beat: CompletedBeat) -> int:
    """Delete jobs past their retention, in bounded batches; keys have a retention of their own."""
    total = 0
    for rule in await context.database.fetch("retention_rules"):
        for _ in range(_MOST_BATCHES):
            (row,) = await context.database.fetch("prune", kind=rule["kind"], state=rule["state"], batch=_BATCH)
            total += row["pruned"]
            if row["pruned"] < _BATCH:
                break
    total += await _prune_workflows(context)
    await context.database.fetch("prune_keys", batch=_BATCH)
    await _prune_access(context)
    return total


async def _prune_workflows(context: DutyContext) -> int:
    """Delete whole workflows with their steps; those that a rule keeps longer are marked first."""
    total = 0
    for _ in range(_MOST_BATCHES):
        judged = await context.database.fetch("judge_workflows")
        (row,) = await context.database.fetch("prune_workflows", batch=_BATCH)
        total += row["pruned"]
        if not row["workflows"] and not judged:
            break
    return total


async def _prune_access(context: DutyContext) -> None:
    """Delete audit lines past their retention, expired sessions and old failed logins."""
    await context.database.fetch("prune_access", idle=SESSION_IDLE, longest=SESSION_LONGEST, within=FAILURES_WITHIN)
    if context.settings.audit_keep is None:
        return
    for _ in range(_MOST_BATCHES):
        gone = await context.database.fetch("prune_audit", keep=context.settings.audit_keep, batch=_BATCH)
        if len(gone) < _BATCH:
            break


async def registry(context: DutyContext, _beat: CompletedBeat) -> int:
    """Delete rows of silent workers, and of waiters, locks and bulk orders whose process is gone."""
    await context.database.fetch("workers_silent")
    await context.database.fetch("prune_workers")
    await context.database.fetch("prune_waiters")
    await context.database.fetch("prune_locks")
    await context.database.fetch("prune_operations")
    return 0


async def operations(context: DutyContext, _beat: CompletedBeat) -> int:
    """Carry on bulk orders whose process is gone, a few batches at a time."""
    rows = await context.database.fetch("operation_take")
    if not rows:
        return 0
    # Imports the whole search grammar, and such orders are rare.
    from rowlock.desk.operation_driver import OperationDriver, Overtaken  # noqa: PLC0415

    driver, done = OperationDriver(lambda: context.database, context.waker.wake), 0
    with contextlib.suppress(Overtaken):
        for row in rows:
            latest = row
            for _ in range(_FEW_BATCHES):
                if latest["state"] == "running":
                    latest = await driver.step(latest)
            await context.database.fetch("operation_leave", ids=[row["id"]])
            done += sum(latest[name] - row[name] for name in ("done", "skipped", "failed"))
    return done


async def workflows(context: DutyContext, _beat: CompletedBeat) -> int:
    """Repair workflows: ends that released no step, steps passed over as locked, cancels whose process is gone."""
    channel = context.database.channel
    (row,) = await context.database.fetch("workflow_repair", flows=_FLOWS, steps=_SMALL_BATCH, channel=channel)
    _wake_released(context, row)
    done = len(row["ids"] or ())
    for flow in await context.database.fetch("workflows_cancelling"):
        for _ in range(_MOST_BATCHES):
            halted = await halt(context.database, flow["id"])
            _wake_released(context, halted)
            if halted["promoted"]:
                context.waker.look()
            done += len(halted["ids"])
            if not halted["ids"]:
                break
    return done


async def signals(context: DutyContext, _beat: CompletedBeat) -> int:
    """Release jobs whose wait for a signal has timed out; their handlers get a SignalTimeout."""
    done = 0
    for _ in range(_MOST_BATCHES):
        (row,) = await context.database.fetch("signals_overdue", batch=_SMALL_BATCH)
        _wake_released(context, row)
        done += len(row["ids"] or ())
        if len(row["ids"] or ()) < _SMALL_BATCH:
            break
    return done


async def ageing(context: DutyContext, _beat: CompletedBeat) -> int:
    """Raise jobs that waited long by one priority, in lanes with an aging interval."""
    lanes = await lane_rows.read(context.database)
    if not any(lane.aging_interval for lane in lanes):
        return 0
    kinds = kinds_by_lane(lanes, [row["kind"] for row in await context.database.fetch("pair_kinds")])
    total = 0
    for lane in lanes:
        if lane.aging_interval is None or not kinds[lane.name]:
            continue
        for _ in range(_FEW_BATCHES):
            rows = await context.database.fetch(
                "age", kinds=kinds[lane.name], every=lane.aging_interval, batch=_SMALL_BATCH
            )
            context.waker.wake((pair_of(row), row["run_after"]) for row in rows)
            raised = sum(row["n"] for row in rows)
            total += raised
            if raised < _SMALL_BATCH:
                break
    return total


async def limits(context: DutyContext, _beat: CompletedBeat) -> int:
    """Delete gates and rates that no call has named for a week and no job needs."""
    gone = 0
    for name in ("forget_gates", "forget_rates"):
        for _ in range(_MOST_BATCHES):
            forgotten = len(await context.database.fetch(name, batch=_SMALL_BATCH))
            gone += forgotten
            if forgotten < _SMALL_BATCH:
                break
    return gone


Duty = Callable[[DutyContext, "CompletedBeat"], Awaitable[int]]
DUTIES: Final[dict[str, Duty]] = {
    "rescue": rescue,
    "stalled": stalled,
    "orphans": orphans,
    "expire": expire,
    "sweep": sweep,
    "gates": gates,
    "prune": prune,
    "registry": registry,
    "operations": operations,
    "workflows": workflows,
    "signals": signals,
    "ageing": ageing,
    "limits": limits,
}

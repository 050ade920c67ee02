"""The duties of upkeep: each a bounded round that may be run by any worker, or by two at once."""

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
from rowlock.model.access import FAILURES_WITHIN, SESSION_IDLE, SESSION_LONGEST
from rowlock.model.lane import kinds_by_lane
from rowlock.model.released_jobs import released
from rowlock.model.state import State
from rowlock.store import lanes as lane_rows
from rowlock.telemetry import Events, JobRescued

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.worker.heartbeat import News
    from rowlock.settings import Settings
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.upkeep")
_BATCH: Final = 5000
_MOST_BATCHES: Final = 20
_BATCHES_OF_OTHERS: Final = 5
_STALE_BATCH: Final = 500
_FLOWS: Final = 200
"""Live workflows one round looks at."""
_REVIVAL: Final = 2.5 * EVERY


@dataclass(frozen=True, slots=True)
class Round:
    """What a duty works with."""

    database: Database
    settings: Settings
    waker: Waker
    events: Events = field(default_factory=Events)


async def rescue(at: Round, news: News) -> int:
    """Claims of silent workers go back to the queue, fail or wait for a person, as their kind says."""
    return await _in_batches(at, "rescue", watched=news.watched)


async def stalled(at: Round, news: News) -> int:
    """Running jobs that reported nothing for as long as their lane allows are lost like those of silent workers."""
    return await _in_batches(at, "stalled", "it made no progress", watched=news.watched)


async def rescue_dead(at: Round, workers: Sequence[int]) -> int:
    """The same for workers whose supervisor saw them die, at once; they are shown as gone."""
    await at.database.fetch("workers_gone", workers=list(workers))
    return await _in_batches(at, "rescue_dead", workers=list(workers))


async def orphans(at: Round, _news: News) -> int:
    """Running jobs whose worker row somebody deleted. A worker that lives writes its row again within a beat or two."""
    if not await at.database.fetch("any_orphan"):
        return 0
    await asyncio.sleep(_REVIVAL)
    return await _in_batches(at, "orphans")


async def _in_batches(at: Round, name: str, why: str = "its worker was lost", **values: object) -> int:
    total = 0
    for _ in range(_MOST_BATCHES):
        rows = await at.database.fetch(name, max_losses=at.settings.max_losses, channel=at.database.channel, **values)
        total += _moved(at, rows, why)
        if len(rows) < _STALE_BATCH:
            break
    return total


def _moved(at: Round, rows: Iterable[Record], why: str) -> int:
    rows = list(rows)
    for row in rows:
        logger.warning("↻ rescued %s %d: %s; now %s", row["kind"], row["id"], why, row["state"])
        if at.events.active:
            at.events.emit(JobRescued(row["id"], row["kind"], row["state"]))
    at.waker.wake(
        ((row["kind"], row["priority"], row["share"]), row["run_after"]) for row in rows if row["state"] == State.QUEUED
    )
    if any(row["promoted"] for row in rows):
        at.waker.look()
    if rows:
        _wake_hooks(at, rows[0])
        _wake_released(at, rows[0])
    return len(rows)


def _wake_hooks(at: Round, row: Record) -> None:
    at.waker.wake(((kind, 0, 0), row["hooks_at"]) for kind in row["hook_kinds"] or ())


def _wake_released(at: Round, row: Record) -> None:
    at.waker.wake((step.pair, step.run_after) for step in released(row["released"]))


async def expire(at: Round, _news: News) -> int:
    """Waiting jobs past expires_at, and any job older than its max_age."""
    total = 0
    channel = at.database.channel
    for name, state, error in (
        ("expire", State.EXPIRED, None),
        ("unanswered", State.EXPIRED, json.dumps({"reason": "unanswered"})),
        ("too_old", State.FAILED, json.dumps({"reason": "too old"})),
    ):
        for _ in range(_MOST_BATCHES):
            (row,) = await at.database.fetch(name, state=state, error=error, channel=channel)
            total += len(row["ids"])
            if row["ids"]:
                logger.warning("⊘ %s %d jobs: %s", name.replace("_", " "), len(row["ids"]), row["ids"])
                _wake_hooks(at, row)
                _wake_released(at, row)
            if row["promoted"]:
                at.waker.look()
            if len(row["ids"]) < _STALE_BATCH:
                break
    return total


async def sweep(at: Round, _news: News) -> int:
    """Publish where the live part of each pair begins; its workers read it after the next beat."""
    (row,) = await at.database.fetch("sweep")
    return int(row["changed"])


async def gates(at: Round, _news: News) -> int:
    """Recount held places and hand free ones on; the caps follow what the lanes say."""
    await at.database.fetch("repair_caps")
    await at.database.fetch("lane_rate", name=None)
    (row,) = await at.database.fetch("repair_gates")
    if row["changed"]:
        at.waker.look()
    return int(row["changed"])


async def prune(at: Round, _news: News) -> int:
    """Finished jobs past their retention, in bounded batches; keys have a retention of their own."""
    total = 0
    for rule in await at.database.fetch("retention_rules"):
        for _ in range(_MOST_BATCHES):
            (row,) = await at.database.fetch("prune", kind=rule["kind"], state=rule["state"], batch=_BATCH)
            total += row["pruned"]
            if row["pruned"] < _BATCH:
                break
    total += await _prune_workflows(at)
    await at.database.fetch("prune_keys", batch=_BATCH)
    await _prune_access(at)
    return total


async def _prune_workflows(at: Round) -> int:
    """Whole workflows with their steps; what one of their rules keeps longer is noted first."""
    total = 0
    for _ in range(_MOST_BATCHES):
        judged = await at.database.fetch("judge_workflows")
        (row,) = await at.database.fetch("prune_workflows", batch=_BATCH)
        total += row["pruned"]
        if not row["workflows"] and not judged:
            break
    return total


async def _prune_access(at: Round) -> None:
    """Lines of the audit past their retention, sessions that ran out, failed logins long past."""
    await at.database.fetch("prune_access", idle=SESSION_IDLE, longest=SESSION_LONGEST, within=FAILURES_WITHIN)
    if at.settings.audit_keep is None:
        return
    for _ in range(_MOST_BATCHES):
        gone = await at.database.fetch("prune_audit", keep=at.settings.audit_keep, batch=_BATCH)
        if len(gone) < _BATCH:
            break


async def registry(at: Round, _news: News) -> int:
    """Worker rows nobody beats for, and waiters nobody waits with."""
    await at.database.fetch("workers_silent")
    await at.database.fetch("prune_workers")
    await at.database.fetch("prune_waiters")
    await at.database.fetch("prune_locks")
    await at.database.fetch("prune_operations")
    return 0


async def operations(at: Round, _news: News) -> int:
    """Bulk orders whose process is gone: a few batches each round, until they are done."""
    rows = await at.database.fetch("operation_take")
    if not rows:
        return 0
    # The whole search grammar comes with it, and such orders are rare.
    from rowlock.desk.operation_driver import Driver, Overtaken  # noqa: PLC0415

    driver, done = Driver(lambda: at.database, at.waker.wake), 0
    with contextlib.suppress(Overtaken):
        for row in rows:
            latest = row
            for _ in range(_BATCHES_OF_OTHERS):
                if latest["state"] == "running":
                    latest = await driver.step(latest)
            await at.database.fetch("operation_leave", ids=[row["id"]])
            done += sum(latest[name] - row[name] for name in ("done", "skipped", "failed"))
    return done


async def workflows(at: Round, _news: News) -> int:
    """Ends nobody followed, releases that passed over a held row, cancels whose process is gone."""
    channel = at.database.channel
    (row,) = await at.database.fetch("workflow_repair", flows=_FLOWS, steps=_STALE_BATCH, channel=channel)
    _wake_released(at, row)
    done = len(row["ids"] or ())
    for flow in await at.database.fetch("workflows_cancelling"):
        for _ in range(_MOST_BATCHES):
            halted = await halt(at.database, flow["id"])
            _wake_released(at, halted)
            if halted["promoted"]:
                at.waker.look()
            done += len(halted["ids"])
            if not halted["ids"]:
                break
    return done


async def signals(at: Round, _news: News) -> int:
    """Jobs that waited for a signal as long as they may: they go on, and are told so."""
    done = 0
    for _ in range(_MOST_BATCHES):
        (row,) = await at.database.fetch("signals_overdue", batch=_STALE_BATCH)
        _wake_released(at, row)
        done += len(row["ids"] or ())
        if len(row["ids"] or ()) < _STALE_BATCH:
            break
    return done


async def ageing(at: Round, _news: News) -> int:
    """Jobs that waited too long in their priority rise by one, in lanes that say so."""
    lanes = await lane_rows.read(at.database)
    if not any(lane.aging_interval for lane in lanes):
        return 0
    kinds = kinds_by_lane(lanes, [row["kind"] for row in await at.database.fetch("pair_kinds")])
    total = 0
    for lane in lanes:
        if lane.aging_interval is None or not kinds[lane.name]:
            continue
        for _ in range(_BATCHES_OF_OTHERS):
            rows = await at.database.fetch("age", kinds=kinds[lane.name], every=lane.aging_interval, batch=_STALE_BATCH)
            at.waker.wake(((row["kind"], row["priority"], row["share"]), row["run_after"]) for row in rows)
            raised = sum(row["n"] for row in rows)
            total += raised
            if raised < _STALE_BATCH:
                break
    return total


async def limits(at: Round, _news: News) -> int:
    """Gates and rates that nobody named for a week and no job needs."""
    gone = 0
    for name in ("forget_gates", "forget_rates"):
        for _ in range(_MOST_BATCHES):
            forgotten = len(await at.database.fetch(name, batch=_STALE_BATCH))
            gone += forgotten
            if forgotten < _STALE_BATCH:
                break
    return gone


Duty = Callable[[Round, "News"], Awaitable[int]]
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

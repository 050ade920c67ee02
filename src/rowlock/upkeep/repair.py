"""Repair: gates, workflows and bulk orders go on where a process left them; long waiting jobs rise."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowlock.desk.workflow_halt import halt
from rowlock.errors import WriteRefused
from rowlock.model.lane import kinds_by_lane
from rowlock.model.queue_pair import pair_of
from rowlock.store import lanes as lane_rows
from rowlock.store.database import TRANSIENT, UNSERVED
from rowlock.store.jobs.wake import announce_pairs
from rowlock.upkeep.duty import BATCH, FEW_BATCHES, MOST_BATCHES, SMALL_BATCH, wake_released
from rowlock.upkeep.refused_rows import fetch_apart

if TYPE_CHECKING:
    from rowlock.flow.worker.heartbeat import CompletedBeat
    from rowlock.upkeep.duty import DutyContext

logger = logging.getLogger("rowlock.upkeep")
_FLOWS: Final = 200
"""Live workflows that the duty looks at, one time it runs."""


async def sweep(context: DutyContext, _beat: CompletedBeat) -> int:
    """Publish where the queue of each pair begins; workers read it after their next beat."""
    answers = await fetch_apart(context, "sweep", "pair_names")
    return sum(row["changed"] for (row,) in answers)


async def gates(context: DutyContext, _beat: CompletedBeat) -> int:
    """Recount the places of gates, give free ones to parked jobs, and update caps and rates from the lanes."""
    await fetch_apart(context, "repair_caps", "lane_names")
    await fetch_apart(context, "lane_rate", "lane_names")
    (row,) = await context.database.fetch("repair_gates")
    if row["changed"]:
        context.waker.look()
    return int(row["changed"])


async def operations(context: DutyContext, _beat: CompletedBeat) -> int:
    """Carry on bulk orders whose process is gone, a few batches at a time."""
    rows = [row for taken in await fetch_apart(context, "operation_take", "abandoned_operations") for row in taken]
    if not rows:
        return 0
    # Imports the whole search grammar, and such orders are rare.
    from rowlock.desk.operation_driver import OperationDriver, Overtaken  # noqa: PLC0415

    driver, done = OperationDriver(lambda: context.database, context.waker.wake), 0
    for row in rows:
        latest = row
        try:
            for _ in range(FEW_BATCHES):
                if latest["state"] == "running":
                    latest = await driver.step(latest)
            await context.database.fetch("operation_leave", ids=[row["id"]])
        except Overtaken:
            continue
        except UNSERVED:
            raise
        except Exception as error:  # noqa: BLE001 - its own row may be refused or unreadable; the others go on
            logger.warning("operation %d is put off: %s: %s", row["id"], type(error).__name__, error)
        done += sum(latest[name] - row[name] for name in ("done", "skipped", "failed"))
    return done


async def workflows(context: DutyContext, _beat: CompletedBeat) -> int:
    """Repair workflows: ends that released no step, steps passed over as locked, cancels whose process is gone."""
    channel = context.database.channel
    (row,) = await context.database.fetch("workflow_repair", flows=_FLOWS, steps=SMALL_BATCH, channel=channel)
    wake_released(context, row)
    done = len(row["ids"] or ())
    for flow in await context.database.fetch("workflows_cancelling"):
        try:
            done += await _halt(context, flow["id"])
        except (WriteRefused, *TRANSIENT) as error:
            # A step that is held or refused keeps no other workflow; the next round tries again.
            logger.warning("the cancel of workflow %d is put off: %s", flow["id"], error)
    return done


async def _halt(context: DutyContext, workflow_id: int) -> int:
    done = 0
    for _ in range(MOST_BATCHES):
        answers = await halt(context.database, workflow_id)
        for halted in answers:
            wake_released(context, halted)
            if halted["promoted"]:
                context.waker.look()
            done += len(halted["ids"])
        if not any(halted["ids"] for halted in answers):
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
        for _ in range(FEW_BATCHES):
            waited = {"kinds": kinds[lane.name], "every": lane.aging_interval}
            answers = await fetch_apart(context, "age", "ageing_jobs", waited, batch=SMALL_BATCH, **waited)
            rows = [row for answer in answers for row in answer]
            context.waker.wake((pair_of(row), row["run_after"]) for row in rows)
            if new := [pair_of(row) for row in rows if row["is_new"]]:
                await announce_pairs(context.database, new)
            raised = sum(row["n"] for row in rows)
            total += raised
            if raised < SMALL_BATCH:
                break
    return total


async def seal(context: DutyContext, _beat: CompletedBeat) -> int:
    """Seal new lines of the audit."""
    total = 0
    for _ in range(MOST_BATCHES):
        (row,) = await context.database.fetch("audit_seal", most=BATCH)
        total += row["sealed"]
        if row["sealed"] < BATCH:
            break
    return total

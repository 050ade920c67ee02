"""Finish verbs: running -> anything else, in batches under the claims (id, fence) of one worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from rowlock.model.job import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from rowlock.store.executor import SqlExecutor


class Claims(TypedDict):
    """What every write of this module begins with: the worker, and the claims in the order of their job ids.

    channel: on which waiters are notified of the ends of their jobs.
    """

    worker: int
    channel: str
    ids: list[int]
    fences: list[int]


class Endings(TypedDict):
    """The columns of `complete`: final states, results and errors as JSON."""

    states: list[str]
    results: list[str | None]
    errors: list[str | None]


class Returns(TypedDict):
    """The columns of `give_back`. delays: seconds; refunds and deaths: 1 or 0."""

    states: list[str]
    deaths: list[int]
    delays: list[float]
    refunds: list[int]
    outcomes: list[str]
    errors: list[str | None]


class HookJobs(TypedDict):
    """Per claim the kind of the hook that is enqueued with the write, and how often it is attempted; None: no hook."""

    hooks: list[str | None]
    hook_attempts: list[int | None]


@dataclass(frozen=True, slots=True)
class Accepted:
    """What one write did: ids of the jobs whose claim still held; every other claim was lost.

    promoted: places at gates that parked jobs got; released and resumed: steps that may run now, as JSON.
    """

    ids: Sequence[int]
    promoted: int
    released: str | None
    again_at: datetime | None = None
    """When the first job given back is due."""
    resumed: str | None = None
    hook_kinds: Sequence[str] = ()
    hooks_at: datetime | None = None


class Settled(NamedTuple):
    """What became of a claim whose write hit no row. applied: an earlier try wrote it, and its answer was lost."""

    claim: Claim
    applied: bool


def _accepted(row: asyncpg.Record) -> Accepted:
    return Accepted(
        row["ids"],
        row["promoted"] or 0,
        row["released"],
        row.get("again_at"),
        row.get("resumed"),
        row.get("hook_kinds") or (),
        row.get("hooks_at"),
    )


async def complete_plain(executor: SqlExecutor, claims: Claims) -> Accepted:
    """End jobs that all completed without a result."""
    (row,) = await executor.fetch("complete_plain", **claims)
    return _accepted(row)


async def complete(executor: SqlExecutor, claims: Claims, endings: Endings, hooks: HookJobs | None) -> Accepted:
    """End jobs; hooks None: no kind among them has one for its end."""
    if hooks is None:
        (row,) = await executor.fetch("complete", **claims, **endings)
    else:
        (row,) = await executor.fetch("complete_hooked", **claims, **endings, **hooks)
    return _accepted(row)


async def give_back(executor: SqlExecutor, claims: Claims, returns: Returns, hooks: HookJobs | None) -> Accepted:
    """Return jobs to the queue, or hold them for a person; hooks None: no kind among them has one for a failure."""
    if hooks is None:
        (row,) = await executor.fetch("give_back", **claims, **returns)
    else:
        (row,) = await executor.fetch("give_back_hooked", **claims, **returns, **hooks)
    return _accepted(row)


async def suspend(
    executor: SqlExecutor, claims: Claims, *, signals: list[str | None], seconds: list[float | None]
) -> Accepted:
    """Block jobs until their signals come, for so many seconds at most; None: for ever."""
    (row,) = await executor.fetch("suspend", **claims, signals=signals, seconds=seconds)
    return _accepted(row)


async def pause_rates(
    executor: SqlExecutor, *, ids: list[int], fences: list[int], delays: list[float], keys: list[str | None]
) -> None:
    """Pause the rates of these claims for their delays in seconds; key None: every rate of the job."""
    await executor.fetch("rates_retry_after", ids=ids, fences=fences, delays=delays, keys=keys)


async def settled(executor: SqlExecutor, *, worker: int, ids: list[int], fences: list[int]) -> list[Settled]:
    """What became of the claims whose write hit no row."""
    rows = await executor.fetch("settled", worker=worker, ids=ids, fences=fences)
    return [Settled(Claim(row["id"], row["fence"]), row["applied"]) for row in rows]

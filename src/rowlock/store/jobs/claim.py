"""Claim verbs: queued -> running, and what is locked around a claim when a lane has an order, a cap or a rate.

The rows of a claim stay the driver's records: a worker claims tens of thousands a second, and an object for each would
cost more than the rest of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from rowlock.model.queue_pair import pair_of
from rowlock.store.jobs.wake import announce_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from rowlock.model.queue_pair import Pair
    from rowlock.store.database import Database
    from rowlock.store.executor import SqlExecutor, SqlSession


class LevelProbes(TypedDict):
    """The parameters of `claim`: lanes, the priority levels of each, the pairs of each level.

    first_levels and last_levels are positions, counted from 1, in the arrays of the levels (priorities, first_pairs,
    last_pairs); those name positions in the arrays of the pairs (kinds, shares, lows, takes).
    """

    worker: int
    lanes: list[str]
    free: list[int]
    first_levels: list[int]
    last_levels: list[int]
    priorities: list[int]
    first_pairs: list[int]
    last_pairs: list[int]
    kinds: list[str]
    shares: list[int]
    lows: list[datetime]
    takes: list[int]


class PairProbes(TypedDict):
    """The parameters of `claim_pairs`: lanes, and the pairs of each in the order in which they are emptied."""

    worker: int
    lanes: list[str]
    free: list[int]
    first_pairs: list[int]
    last_pairs: list[int]
    kinds: list[str]
    priorities: list[int]
    shares: list[int]
    lows: list[datetime]


class PairsAbove(TypedDict):
    """Pairs of a higher priority, each with the moment from which it is looked at."""

    kinds: list[str]
    priorities: list[int]
    shares: list[int]
    lows: list[datetime]


class RateRoom(NamedTuple):
    """How many jobs the rate of a lane lets start now; again_at: when it has more room."""

    free: int
    again_at: datetime


async def by_level(executor: SqlExecutor, values: LevelProbes) -> list[asyncpg.Record]:
    """Claim for several lanes, in the order of priority and age over the kinds of each."""
    return await executor.fetch("claim", **values)


async def by_pair(executor: SqlExecutor, values: PairProbes) -> list[asyncpg.Record]:
    """Claim for several lanes, from one pair of a lane after the other."""
    return await executor.fetch("claim_pairs", **values)


async def by_turns(executor: SqlExecutor, values: LevelProbes, debts: list[float]) -> list[asyncpg.Record]:
    """Claim for fair lanes. debts: per pair, how much more it was given than the pair that was given least."""
    return await executor.fetch("claim_fair", **values, debts=debts)


async def by_id(executor: SqlExecutor, *, worker: int, lane: str, ids: list[int]) -> list[asyncpg.Record]:
    """Claim the jobs of these ids that are queued and due."""
    return await executor.fetch("claim_ids", worker=worker, lane=lane, ids=ids)


async def heads(
    executor: SqlExecutor, pairs: PairsAbove, *, worker: int, passed_over: list[int], most: int
) -> list[int]:
    """The ids that a claim from these pairs would take, unlocked, without those passed over."""
    rows = await executor.fetch("claim_heads", worker=worker, passed_over=passed_over, most=most, **pairs)
    return [row["id"] for row in rows]


async def released(
    executor: SqlExecutor, above: PairsAbove, *, worker: int, lane: str, ids: list[int], free: int
) -> list[asyncpg.Record]:
    """Claim up to `free` steps that were just released; none while a job waits in the pairs above it."""
    return await executor.fetch("claim_released", worker=worker, lane=lane, ids=ids, free=free, **above)


async def lock_lane(executor: SqlExecutor, lane: str) -> None:
    """Lock the row of a strict lane, so that one worker at a time claims from it."""
    await executor.fetch("lock_lanes", lanes=[lane])


async def enter_cap(executor: SqlExecutor, lane: str, free: int) -> int:
    """Lock the cap of a lane (max_total); returns how many of `free` jobs may start."""
    rows = await executor.fetch("cap_enter", lanes=[lane], free=[free])
    return rows[0]["free"] if rows else 0


async def use_cap(executor: SqlExecutor, lane: str, started: int) -> None:
    """Count the jobs that were started against the cap of their lane."""
    await executor.fetch("cap_taken", lanes=[lane] * started)


async def enter_rate(executor: SqlExecutor, lane: str, free: int) -> RateRoom | None:
    """Lock the rate of a lane and read its room, at most `free`; None: the rate has no row."""
    rows = await executor.fetch("lane_rate_enter", lane=lane, free=free)
    return RateRoom(rows[0]["free"], rows[0]["again_at"]) if rows else None


async def use_rate(executor: SqlExecutor, lane: str, started: int) -> None:
    """Count the jobs that were started against the rate of their lane."""
    await executor.fetch("lane_rate_taken", lane=lane, n=started)


async def register_pairs(executor: Database | SqlSession, pairs: Iterable[Pair]) -> None:
    """Have workers look for jobs of these pairs, those included that are too busy to be woken for a job.

    A busy worker claims again without being woken, but only from pairs that it knows: until the next sweep it would
    pass over an urgent job whose kind never had this priority.
    """
    kinds, priorities, shares = (list(column) for column in zip(*pairs, strict=True))
    new = await executor.fetch("register_pairs", kinds=kinds, priorities=priorities, shares=shares)
    if new:
        await announce_pairs(executor, map(pair_of, new))


async def read_pairs(executor: SqlExecutor, kinds: Sequence[str]) -> list[asyncpg.Record]:
    """The pairs of these kinds: kind, priority, share, low_water (where to begin) and next_at (when to look)."""
    return await executor.fetch("pairs", kinds=list(kinds))


class JobKind(NamedTuple):
    """The kind of a job, and the number that changes with every edit of a lane."""

    kind: str
    lanes_version: int


async def kind_of(executor: SqlExecutor, job_id: int) -> JobKind | None:
    """The kind of a job; None: there is no such job."""
    rows = await executor.fetch("job_kind", id=job_id)
    return JobKind(rows[0]["kind"], rows[0]["lanes_version"]) if rows else None

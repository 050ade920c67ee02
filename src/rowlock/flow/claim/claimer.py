"""Claimer: turns the free slots of each lane into claimed jobs, with one batch claim where the lanes allow it."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.errors import DatabaseError
from rowlock.flow.claim.fairness import Fairness, pairs_of
from rowlock.flow.claim.in_flight import ClaimsInFlight
from rowlock.flow.claim.refused_rows import RefusedRows
from rowlock.flow.claim.saturation import Saturation
from rowlock.model.lane import kinds_by_lane
from rowlock.model.queue_pair import BEGINNING, pair_of
from rowlock.set_aside import SetAside
from rowlock.store.batch_halving import in_halves
from rowlock.store.database import LOCKED, RACES, TRANSIENT, UNSERVED
from rowlock.store.jobs import claim as verbs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.claim.cursors import Cursors, Probe
    from rowlock.model.lane import Lane
    from rowlock.model.queue_pair import Pair
    from rowlock.model.released_jobs import ReleasedJob
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.database import Record
    from rowlock.store.executor import SqlSession

logger = logging.getLogger("rowlock.claim")
_FORESEEN: Final = (DatabaseError, *TRANSIENT)
_MANY_LANES: Final = 8
_SMALL: Final = 20
"""Slots at most of a small lane: many small lanes take turns, so that a claim has fewer probes."""
LARGEST: Final = 500
"""Jobs per claim at most."""
_BELOW_ALL: Final = -101
"""A priority that no job has."""
_APART_SECONDS: Final = 5.0
"""Seconds that one claim looks for the job that makes it fail; the next one goes on."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One claim: what it asked for, and the rows it brought."""

    free: Mapping[str, int]
    """Jobs wanted, by lane."""
    probes: Mapping[str, Sequence[Probe]]
    began: datetime | None
    """The database's clock before the claim; None: unknown, or no statement was sent."""
    rows: Sequence[Record]
    saturated: Collection[str] = frozenset()
    """Lanes whose pairs were emptied one after the other, until the slots were full."""
    narrow: Collection[str] = frozenset()
    """Saturated lanes of which only the pairs with the oldest jobs were probed."""
    in_order: bool = False
    """The pairs were emptied in the order of the probes."""


_Claim: TypeAlias = "Callable[[SqlSession, int], Awaitable[_Answer]]"


class Claimer:
    """Claims jobs for the lanes that one worker serves."""

    def __init__(
        self,
        link: WorkerConnection,
        worker_id: int,
        cursors: Cursors,
        kinds: Collection[str],
        now: Callable[[], datetime | None] = lambda: None,
        *,
        later: Callable[[Iterable[datetime]], None] = lambda _: None,
        set_aside: SetAside | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        carried: Callable[[str, str], bool] = lambda _kind, _lane: False,
    ) -> None:
        """later: called with the moments at which jobs become due that a rate has held back.

        carried: whether a carrier brings the jobs of a kind in this lane; they are claimed by id alone.

        set_aside: where jobs are noted whose claim the database refuses.
        """
        self._link, self._worker_id, self._cursors, self._now = link, worker_id, cursors, now
        self._later, self._fairness, self._monotonic = later, Fairness(), monotonic
        self._refused = RefusedRows[int](SetAside(logger) if set_aside is None else set_aside, monotonic, "claim")
        self._resting: dict[str, datetime] = {}
        """Lanes without room in their rate, and the moment at which there is room again."""
        self._kinds, self._carried = kinds, carried
        self._lanes: dict[str, Lane] = {}
        self._served: dict[str, list[str]] = {}
        self._lane_of: dict[str, str] = {}
        self.in_flight = ClaimsInFlight()
        """Callers hold in_flight.sending() around a claim until its jobs have their slots."""
        self._busy = False
        """The last claim took half of the jobs it asked for, or more: some lanes are always empty."""
        self._waiting: set[str] = set()
        """Lanes that the last claim left out."""
        self._saturation = Saturation(cursors)

    def serve(self, lanes: Mapping[str, Lane], every_lane: Iterable[Lane]) -> None:
        """Serve these lanes from now on. every_lane: all lanes there are, which decides the kinds that '*' covers."""
        self._lanes = dict(lanes)
        self._resting = {}
        self._waiting.intersection_update(lanes)
        self._saturation.keep(lanes)
        self._refused.keep(lanes)
        of_lane = kinds_by_lane(every_lane, self._kinds)
        self._lane_of = {kind: name for name, kinds in of_lane.items() if name in lanes for kind in kinds}
        self._served = {
            name: [kind for kind in kinds if not self._carried(kind, name)] for name, kinds in of_lane.items()
        }

    def lane_of(self, kind: str) -> str | None:
        """The lane of this worker that serves a kind; None: no lane of this worker does."""
        return self._lane_of.get(kind)

    def claims(self, kind: str) -> bool:
        """Whether this worker claims jobs of a kind by itself: a lane of its serves it, and no carrier brings it."""
        lane = self._lane_of.get(kind)
        return lane is not None and kind in self._served[lane]

    def kinds(self) -> list[str]:
        """The kinds this worker serves."""
        return list(self._lane_of)

    @property
    def backlogged(self) -> set[str]:
        """Lanes to claim from again as soon as they have a slot: the last claim left jobs there, or left them out."""
        # A lane that rests is not claimed from, so it would stay in this set, and its worker would never pause.
        return {name for name in self._waiting | self._saturation.names if not self._rests(name)}

    async def claim(self, free: Mapping[str, int]) -> list[Record]:
        """Claim up to `free` jobs per lane; each row names its lane."""
        able = {name: n for name, n in free.items() if n > 0 and self._lanes[name].enabled and not self._rests(name)}
        wanted = self._turn(able)
        apart = {name: wanted.pop(name) for name in list(wanted) if name in self._refused}
        answers: list[_Answer] = []
        failure: Exception | None = None
        try:
            for group in self._groups(wanted):
                try:
                    answers.append(await self._claim_group(group))
                except Exception as error:
                    if isinstance(error, (*UNSERVED, *RACES)):
                        raise
                    # One row may be to blame: the lanes of this statement are claimed from singly, job by job.
                    apart |= group
        except Exception as error:  # noqa: BLE001 - raised below, unless the lanes before took something
            failure = error
        wanted = {name: n for name, n in wanted.items() if name not in apart}
        by_id: list[Record] = []
        if apart and failure is None:
            try:
                by_id = await self._claim_apart(apart)
            except Exception as error:  # noqa: BLE001 - as above
                failure = error
        taken = Counter(row["lane"] for answer in answers for row in answer.rows)
        # After a failure, too: the answers from the other lanes are valid.
        self._note_taken(wanted, answers, taken)
        self._waiting = able.keys() - wanted.keys()
        rows = [*by_id, *(row for answer in answers for row in self._noted(answer))]
        if len(taken) > 1:
            # The few jobs of a quiet lane start before the many of a busy one.
            rows.sort(key=lambda row: taken[row["lane"]])
        if failure is not None:
            if not rows:
                raise failure
            # The jobs of the lanes before are ours already; the lane that failed is claimed from again soon.
            logger.warning("a lane could not be claimed from: %s", failure, exc_info=_trace(failure))
            self.in_flight.lose_answer()
        return rows

    def _groups(self, wanted: Mapping[str, int]) -> list[dict[str, int]]:
        """The lanes that one statement claims from: all plain ones, all fair ones, each careful one by itself."""
        careful = sorted(name for name in wanted if self._lanes[name].is_careful)
        fair = {name: n for name, n in wanted.items() if name not in careful and self._lanes[name].order == "fair"}
        plain = {name: n for name, n in wanted.items() if name not in careful and name not in fair}
        return [group for group in (plain, fair, *({name: wanted[name]} for name in careful)) if group]

    async def _claim_group(self, group: Mapping[str, int]) -> _Answer:
        first = self._lanes[next(iter(group))]
        if first.is_careful:
            return await self._under_locks(first.name, group[first.name], self._heads_of(first.name))
        async with self._link.session() as session:
            return await self._claim(session, group, fair=first.order == "fair")

    async def _claim_apart(self, lanes: Mapping[str, int]) -> list[Record]:
        """Claim from each of these lanes job by job, so that a job that the database refuses keeps no other one.

        The cursors stay where they are: the refused jobs lie before those that are taken.
        """
        rows: list[Record] = []
        until = self._monotonic() + _APART_SECONDS
        for name, free in sorted(lanes.items()):
            try:
                ids = await self._heads(name, free)
                taken = await self._claim_in_halves(name, ids, until)
            except Exception as error:
                if not rows:
                    raise
                logger.warning("a lane could not be claimed from: %s", error)
                self.in_flight.lose_answer()
                break
            self._refused.written(name, [row["id"] for row in taken])
            rows += [row for row in taken if not row["parked"]]
            if len(taken) >= free:
                self._waiting.add(name)
        return rows

    async def _heads(self, name: str, free: int) -> list[int]:
        probes = self._cursors.above(self._served.get(name, ()), _BELOW_ALL)
        pairs = _pairs_above(probes)
        async with self._link.session() as session:
            passed_over = self._refused.passed_over(name)
            return await verbs.heads(session, pairs, worker=self._worker_id, passed_over=passed_over, most=free)

    async def _claim_in_halves(self, name: str, ids: list[int], until: float) -> list[Record]:
        """Claim these jobs of a lane, but for those that make the claim fail."""
        rows: list[Record] = []
        lane_held = False

        async def claim_some(some: list[int]) -> None:
            nonlocal lane_held

            async def by_id(session: SqlSession, free: int) -> _Answer:
                taken = await verbs.by_id(session, worker=self._worker_id, lane=name, ids=some[:free])
                return _Answer({}, {}, None, taken)

            try:
                answer = await self._under_locks(name, len(some), by_id)
            except LOCKED as error:
                if not self._lanes[name].is_careful:
                    raise
                # The row that is held may be the lane's own, its cap or its rate.
                self._refused.rest(name, error)
                lane_held = True
                return
            self._note_later(answer)
            rows.extend(answer.rows)

        try:
            await in_halves(
                ids,
                claim_some,
                may_go_on=lambda: not lane_held and self._monotonic() < until,
                refused=lambda job_id, error: self._refused.refused(name, job_id, error),
            )
        except UNSERVED:
            if not rows:
                raise
            self.in_flight.lose_answer()
        return rows

    def _note_taken(self, wanted: Mapping[str, int], answers: Sequence[_Answer], taken: Mapping[str, int]) -> None:
        """Count the jobs of each lane, parked ones included. A lane that its cap or rate holds back has no more."""
        narrow = {name for answer in answers for name in answer.narrow if taken[name] < answer.free[name]}
        for name, n in wanted.items():
            self._saturation.record(name, filled=taken[name] >= n, all_pairs=name not in narrow)
        asked = sum(wanted.values())
        self._busy = 0 < asked <= 2 * sum(taken.values())

    async def claim_one(self, job_id: int, lane: str) -> list[Record]:
        """Claim one job by its id, under the order, cap and rate of its lane."""

        async def by_id(session: SqlSession, _free: int) -> _Answer:
            rows = await verbs.by_id(session, worker=self._worker_id, lane=lane, ids=[job_id])
            return _Answer({}, {}, None, rows)

        if self._lanes[lane].is_careful:
            answer = await self._under_locks(lane, 1, by_id)
        else:
            async with self._link.session() as session:
                answer = await by_id(session, 1)
        self._note_later(answer)
        # The cursor of the pair stays: older jobs may still wait before this one.
        return [row for row in answer.rows if not row["parked"]]

    async def claim_released(self, steps: Sequence[ReleasedJob], lane: str) -> list[Record]:
        """Claim steps that were just released, by their ids, unless jobs of a higher priority wait in their lane."""
        lowest = min(step.pair[1] for step in steps)
        above = _pairs_above(self._cursors.above(self._served.get(lane, ()), lowest))
        ids = [step.id for step in steps]

        async def by_id(session: SqlSession, free: int) -> _Answer:
            rows = await verbs.released(session, above, worker=self._worker_id, lane=lane, ids=ids, free=free)
            return _Answer({}, {}, None, rows)

        if self._lanes[lane].max_total is None and self._lanes[lane].rate is None:
            async with self._link.session() as session:
                answer = await by_id(session, len(steps))
        else:
            answer = await self._under_locks(lane, len(steps), by_id)
        return [row for row in answer.rows if not row["parked"]]

    def _noted(self, answer: _Answer) -> list[Record]:
        """Move the cursors by an answer, after its transaction; returns the rows without the parked ones."""
        taken = Counter(row["lane"] for row in answer.rows)
        filled = {name for name, n in answer.free.items() if taken[name] >= n}
        for name, probes in answer.probes.items():
            self._cursors.probed(probes, drained=name not in filled)
            if name not in filled and answer.began is not None:
                self._cursors.exhausted(probes, answer.began)
        furthest: dict[Pair, datetime] = {}
        for row in answer.rows:
            pair = pair_of(row)
            furthest[pair] = max(row["run_after"], furthest.get(pair, BEGINNING))
        for pair, run_after in furthest.items():
            self._cursors.advance(pair, run_after)
        for name, probes in answer.probes.items():
            if name not in answer.saturated:
                if name in filled:
                    self._saturation.merged(probes, furthest)
            elif answer.began is not None:
                self._saturation.emptied(
                    probes, furthest.keys(), answer.began, filled=name in filled, in_order=answer.in_order
                )
        self._note_later(answer)
        return [row for row in answer.rows if not row["parked"]]

    def _note_later(self, answer: _Answer) -> None:
        if answer.rows and answer.rows[0]["again_at"]:
            self._later(answer.rows[0]["again_at"])

    def _rests(self, name: str) -> bool:
        """Whether the lane has no room in its rate yet, as far as known, or most of its jobs are refused."""
        if self._refused.rests(name):
            return True
        until = self._resting.get(name)
        now = self._now() if until is not None else None
        return until is not None and now is not None and now < until

    def _turn(self, free: Mapping[str, int]) -> dict[str, int]:
        """How many jobs to claim now: half the slots, so that outcomes of the other half are written meanwhile.

        While many small lanes are full of jobs, all free slots of half the lanes in turn: a lane costs its probes
        however few jobs it takes.
        """
        turn = {name: min(n, LARGEST, max(1, (self._lanes[name].slots + 1) // 2)) for name, n in free.items()}
        small = [name for name in free if self._lanes[name].slots <= _SMALL]
        if self._busy and len(small) >= _MANY_LANES:
            small.sort(key=lambda name: (name not in self._waiting, -free[name]))
            half = (sum(lane.slots <= _SMALL for lane in self._lanes.values()) + 1) // 2
            turn |= {name: free[name] for name in small[:half]}
            for name in small[half:]:
                del turn[name]
        return turn

    async def _claim(self, session: SqlSession, free: Mapping[str, int], *, fair: bool = False) -> _Answer:
        # A lane may be gone by the time the connection is free.
        now = self._now()
        pairs = {name: self._cursors.pairs(self._served.get(name, ())) for name in free}
        if not any(pairs.values()):
            return _Answer(free, dict.fromkeys(free, ()), None, ())
        saturated: dict[str, list[Pair]] = {}
        for name, n in free.items():
            if name in self._lanes and (some := self._saturation.order(self._lanes[name], n, pairs[name])) is not None:
                saturated[name] = some
        probes = {name: self._cursors.starts(saturated.get(name, some), now) for name, some in pairs.items()}
        if fair:
            return _Answer(free, probes, now, await self._claim_fair(session, self._arguments(free, probes)))
        narrow = {name for name, some in saturated.items() if len(some) < len(pairs[name])}
        in_order = all(name in saturated or len(some) <= 1 for name, some in pairs.items())
        if in_order:
            rows = await verbs.by_pair(session, one_by_one(self._worker_id, free, probes))
        else:
            rows = await verbs.by_level(session, self._arguments(free, probes, saturated))
        return _Answer(free, probes, now, rows, saturated.keys(), narrow, in_order)

    async def _claim_fair(self, session: SqlSession, values: verbs.LevelProbes) -> list[Record]:
        pairs = pairs_of(values)
        rows = await verbs.by_turns(session, values, self._fairness.debts(pairs))
        self._fairness.record(pairs, map(pair_of, rows))
        return rows

    def _heads_of(self, name: str) -> _Claim:
        fair = self._lanes[name].order == "fair"
        return lambda session, free: self._claim(session, {name: free}, fair=fair)

    async def _under_locks(self, name: str, free: int, claim: _Claim) -> _Answer:
        """Claim while the lane's row, its cap and its rate are locked: they hold over all workers together."""
        lane = self._lanes[name]
        async with self._link.session() as session, session.transaction():
            if lane.order == "strict":
                await verbs.lock_lane(session, name)
            if lane.max_total is not None:
                free = await verbs.enter_cap(session, name, free)
            if lane.rate is not None and free > 0:
                free = await self._allowed(session, name, free)
            if free <= 0:
                return _Answer({}, {}, None, ())
            answer = await claim(session, free)
            started = sum(not row["parked"] for row in answer.rows)
            if started and lane.max_total is not None:
                await verbs.use_cap(session, name, started)
            if started and lane.rate is not None:
                await verbs.use_rate(session, name, started)
            return answer

    async def _allowed(self, session: SqlSession, name: str, free: int) -> int:
        """How many jobs the lane's rate lets start now; at 0 the lane rests until there is room."""
        room = await verbs.enter_rate(session, name, free)
        if room is None:
            return free  # its row is gone, and the gates duty writes another
        if room.free < free:
            self._later([room.again_at])
        if room.free <= 0:
            self._resting[name] = room.again_at
        return room.free

    def _arguments(
        self, free: Mapping[str, int], probes: Mapping[str, Sequence[Probe]], saturated: Collection[str] = ()
    ) -> verbs.LevelProbes:
        strict = {name for name in free if name in self._lanes and self._lanes[name].order == "strict"}
        return arguments(self._worker_id, free, probes, strict, saturated)


def _trace(error: Exception) -> Exception | None:
    """The error whose traceback is logged; None for a foreseen one, whose message says it all."""
    return None if isinstance(error, _FORESEEN) else error


def one_by_one(worker_id: int, free: Mapping[str, int], probes: Mapping[str, Sequence[Probe]]) -> verbs.PairProbes:
    """The parameters of a claim that empties the pairs of a lane one after the other."""
    asked = [name for name in free if probes[name]]
    pairs = [probe for name in asked for probe in probes[name]]
    lasts = list(accumulate(len(probes[name]) for name in asked))
    return {
        "worker": worker_id,
        "lanes": asked,
        "free": [free[name] for name in asked],
        "first_pairs": [last - len(probes[name]) + 1 for name, last in zip(asked, lasts, strict=True)],
        "last_pairs": lasts,
        "kinds": [pair[0] for pair, _ in pairs],
        "priorities": [pair[1] for pair, _ in pairs],
        "shares": [pair[2] for pair, _ in pairs],
        "lows": [low for _, low in pairs],
    }


def arguments(
    worker_id: int,
    free: Mapping[str, int],
    probes: Mapping[str, Sequence[Probe]],
    strict: Collection[str] = (),
    saturated: Collection[str] = (),
) -> verbs.LevelProbes:
    """The parameters of a claim that merges heads: lanes refer to slices of levels, levels to slices of pairs.

    strict: lanes whose order must be exact; saturated: lanes whose pairs are emptied one after the other.
    """
    first_levels: list[int] = []
    last_levels: list[int] = []
    priorities: list[int] = []
    first_pairs: list[int] = []
    last_pairs: list[int] = []
    pairs: list[tuple[str, int, datetime]] = []
    takes: list[int] = []
    for name, n in free.items():
        levels: dict[int, list[tuple[str, int, datetime]]] = {}
        for (kind, priority, share), low in probes[name]:
            levels.setdefault(priority, []).append((kind, share, low))
        first_levels.append(len(priorities) + 1)
        for priority in sorted(levels, reverse=True):
            level = levels[priority]
            priorities.append(priority)
            first_pairs.append(len(pairs) + 1)
            pairs.extend(level)
            take = 0 if name in saturated else _take(len(level), n, strict=name in strict)
            takes.extend([take] * len(level))
            last_pairs.append(len(pairs))
        last_levels.append(len(priorities))
    return {
        "worker": worker_id,
        "lanes": list(free),
        "free": list(free.values()),
        "first_levels": first_levels,
        "last_levels": last_levels,
        "priorities": priorities,
        "first_pairs": first_pairs,
        "last_pairs": last_pairs,
        "kinds": [kind for kind, _, _ in pairs],
        "shares": [share for _, share, _ in pairs],
        "lows": [low for _, _, low in pairs],
        "takes": takes,
    }


def _pairs_above(probes: Iterable[Probe]) -> verbs.PairsAbove:
    probes = list(probes)
    return {
        "kinds": [pair[0] for pair, _ in probes],
        "priorities": [pair[1] for pair, _ in probes],
        "shares": [pair[2] for pair, _ in probes],
        "lows": [low for _, low in probes],
    }


def _take(width: int, free: int, *, strict: bool) -> int:
    """How many heads of each pair are merged; 0: the level has one pair and needs no merge."""
    if width == 1:
        return 0
    if strict:
        return free + min(free, 10)
    return math.ceil(2 * free / width) + 1

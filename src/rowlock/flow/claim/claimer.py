"""Claim: free slots per lane -> cursors per pair -> one batch claim."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.errors import DatabaseError
from rowlock.flow.claim.cursors import BEGINNING
from rowlock.flow.claim.fairness import Turns, pairs_of
from rowlock.flow.claim.saturation import Crowds
from rowlock.model.lane import kinds_by_lane
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.claim.cursors import Cursors, Probe
    from rowlock.flow.enqueue.wake import Pair
    from rowlock.model.lane import Lane
    from rowlock.model.released_jobs import Released
    from rowlock.store.database import Connection, Record
    from rowlock.store.worker_connection import Link

logger = logging.getLogger("rowlock.claim")
_FORESEEN: Final = (DatabaseError, *TRANSIENT)
_MANY_LANES: Final = 8
_SMALL: Final = 20
"""Slots of a lane that takes turns with others of its size."""
LARGEST: Final = 500
"""Jobs per claim."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one claim asked and got. began: the database's clock before it, None: unknown or nothing was asked."""

    free: Mapping[str, int]
    probes: Mapping[str, Sequence[Probe]]
    began: datetime | None
    rows: Sequence[Record]
    crowded: Collection[str] = frozenset()
    """Lanes whose pairs were emptied one after the other, until they were full."""
    narrow: Collection[str] = frozenset()
    """Those of them of which only the pairs with the oldest jobs were looked at."""
    in_order: bool = False
    """One after the other as they are listed in the probes."""


_Claim: TypeAlias = "Callable[[Connection[Record], int], Awaitable[_Answer]]"


class Claimer:
    """Claims jobs for the lanes this worker serves."""

    def __init__(
        self,
        link: Link,
        worker_id: int,
        cursors: Cursors,
        kinds: Collection[str],
        now: Callable[[], datetime | None] = lambda: None,
        *,
        later: Callable[[Iterable[datetime]], None] = lambda _: None,
    ) -> None:
        """later: told when jobs that a rate put back, or a lane's rate holds back, are due."""
        self._link, self._worker_id, self._cursors, self._now = link, worker_id, cursors, now
        self._later, self._turns = later, Turns()
        self._resting: dict[str, datetime] = {}
        """Lanes whose rate has no room before that moment."""
        self._kinds = kinds
        self._lanes: dict[str, Lane] = {}
        self._served: dict[str, list[str]] = {}
        self.in_flight = False
        """A claim was sent, and what it took is not known or not started yet; cleared by whoever starts it."""
        self.doubtful = False
        """One lane of the last claim got no answer: it may have taken jobs that nobody here knows of."""
        self._busy = False
        """It took half of what it asked for, or more: some lanes are always empty."""
        self._waiting: set[str] = set()
        """Lanes it left out."""
        self._crowds = Crowds(cursors)

    def serve(self, lanes: Mapping[str, Lane], every_lane: Iterable[Lane]) -> None:
        """Take over the lanes as they stand now; `every_lane` decides what '*' means."""
        self._lanes = dict(lanes)
        self._resting = {}
        self._waiting.intersection_update(lanes)
        self._crowds.keep(lanes)
        self._served = kinds_by_lane(every_lane, self._kinds)

    def lane_of(self, kind: str) -> str | None:
        """The lane that serves a kind; None: none that this worker serves."""
        return next((name for name, kinds in self._served.items() if kind in kinds and name in self._lanes), None)

    def kinds(self) -> list[str]:
        """The kinds this worker serves."""
        return [kind for name, kinds in self._served.items() if name in self._lanes for kind in kinds]

    @property
    def rich(self) -> set[str]:
        """Lanes worth asking again as soon as they have a slot: their last claim left jobs, or it left them out."""
        # A lane that rests is not asked, so it would stay rich, and its worker would ask for ever.
        return {name for name in self._waiting | self._crowds.names if not self._rests(name)}

    async def claim(self, free: Mapping[str, int]) -> list[Record]:
        """Claim up to `free` jobs per lane; rows come with their lane."""
        able = {name: n for name, n in free.items() if n > 0 and self._lanes[name].enabled and not self._rests(name)}
        wanted = self._turn(able)
        careful = {name for name in wanted if self._lanes[name].is_careful}
        fair = {name for name in wanted if name not in careful and self._lanes[name].order == "fair"}
        plain = {name: n for name, n in wanted.items() if name not in careful and name not in fair}
        answers: list[_Answer] = []
        failure: Exception | None = None
        self.in_flight, self.doubtful = True, False
        try:
            if plain:
                async with self._link.session() as connection:
                    answers.append(await self._claim(connection, plain))
            if fair:
                async with self._link.session() as connection:
                    answers.append(await self._claim(connection, {name: wanted[name] for name in fair}, fair=True))
            for name in sorted(careful):
                answers.append(await self._carefully(name, wanted[name], self._heads_of(name)))  # noqa: PERF401 - kept up to a failure
        except Exception as error:  # noqa: BLE001 - raised below, unless the lanes before took something
            failure = error
        taken = Counter(row["lane"] for answer in answers for row in answer.rows)
        # After a failure, too: what the other lanes told of their pairs holds.
        self._note_taken(wanted, answers, taken)
        self._waiting = able.keys() - wanted.keys()
        rows = [row for answer in answers for row in self._noted(answer)]
        if len(taken) > 1:
            # The few jobs of a quiet lane start before the many of a busy one.
            rows.sort(key=lambda row: taken[row["lane"]])
        if failure is not None:
            if not taken:
                raise failure
            # What the lanes before took is ours already; the lane that failed is asked again with the next look.
            logger.warning("a lane could not be claimed from: %s", failure, exc_info=_trace(failure))
            self.doubtful = True
        return rows

    def _note_taken(self, wanted: Mapping[str, int], answers: Sequence[_Answer], taken: Mapping[str, int]) -> None:
        """What a lane gave, parked jobs among it; one that its cap or rate holds back has no more to give."""
        narrow = {name for answer in answers for name in answer.narrow if taken[name] < answer.free[name]}
        for name, n in wanted.items():
            self._crowds.told(name, filled=taken[name] >= n, everywhere=name not in narrow)
        asked = sum(wanted.values())
        self._busy = 0 < asked <= 2 * sum(taken.values())

    async def claim_one(self, job_id: int, lane: str) -> list[Record]:
        """Claim a job by its id; the lane's order and cap hold for it like for any other."""
        statement = self._link.database.statements["claim_ids"]
        values = statement.bind({"worker": self._worker_id, "lane": lane, "ids": [job_id]})

        async def by_id(connection: Connection[Record], _free: int) -> _Answer:
            return _Answer({}, {}, None, await connection.fetch(statement.dollar, *values))

        self.in_flight = True
        answer = await self._carefully(lane, 1, by_id)
        self._note_later(answer)
        # Its cursor stays where it is: older jobs of the pair may still wait before this one.
        return [row for row in answer.rows if not row["parked"]]

    async def claim_released(self, steps: Sequence[Released], lane: str) -> list[Record]:
        """Claim steps that were just released, by their ids; none that a job of a higher priority should precede."""
        statement = self._link.database.statements["claim_released"]
        lowest = min(step.pair[1] for step in steps)
        above = self._cursors.above(self._served.get(lane, ()), lowest)
        values = {
            "worker": self._worker_id,
            "lane": lane,
            "ids": [step.id for step in steps],
            "kinds": [pair[0] for pair, _ in above],
            "priorities": [pair[1] for pair, _ in above],
            "shares": [pair[2] for pair, _ in above],
            "lows": [low for _, low in above],
        }

        async def by_id(connection: Connection[Record], free: int) -> _Answer:
            rows = await connection.fetch(statement.dollar, *statement.bind({**values, "free": free}))
            return _Answer({}, {}, None, rows)

        if self._lanes[lane].max_total is None and self._lanes[lane].rate is None:
            async with self._link.session() as connection:
                answer = await by_id(connection, len(steps))
        else:
            answer = await self._carefully(lane, len(steps), by_id)
        return [row for row in answer.rows if not row["parked"]]

    def _noted(self, answer: _Answer) -> list[Record]:
        """Move the cursors by an answer whose transaction is over; returns the rows that may run."""
        taken = Counter(row["lane"] for row in answer.rows)
        filled = {name for name, n in answer.free.items() if taken[name] >= n}
        for name, probes in answer.probes.items():
            self._cursors.probed(probes, drained=name not in filled)
            if name not in filled and answer.began is not None:
                self._cursors.exhausted(probes, answer.began)
        furthest: dict[Pair, datetime] = {}
        for row in answer.rows:
            pair = (row["kind"], row["priority"], row["share"])
            furthest[pair] = max(row["run_after"], furthest.get(pair, BEGINNING))
        for pair, run_after in furthest.items():
            self._cursors.advance(pair, run_after)
        for name, probes in answer.probes.items():
            if name not in answer.crowded:
                if name in filled:
                    self._crowds.merged(probes, furthest)
            elif answer.began is not None:
                self._crowds.emptied(
                    probes, furthest.keys(), answer.began, filled=name in filled, in_order=answer.in_order
                )
        self._note_later(answer)
        return [row for row in answer.rows if not row["parked"]]

    def _note_later(self, answer: _Answer) -> None:
        if answer.rows and answer.rows[0]["again_at"]:
            self._later(answer.rows[0]["again_at"])

    def _rests(self, name: str) -> bool:
        """Whether the rate of the lane is known to have no room yet."""
        until = self._resting.get(name)
        now = self._now() if until is not None else None
        return until is not None and now is not None and now < until

    def _turn(self, free: Mapping[str, int]) -> dict[str, int]:
        """Half the slots at most, so that one half is claimed while the other half's outcomes are written.

        While many small lanes are full of jobs, that is half the lanes in turn rather than half of each: a lane costs
        its probes however few jobs it takes.
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

    async def _claim(self, connection: Connection[Record], free: Mapping[str, int], *, fair: bool = False) -> _Answer:
        # A lane may be gone by the time the connection is free.
        now = self._now()
        pairs = {name: self._cursors.pairs(self._served.get(name, ())) for name in free}
        if not any(pairs.values()):
            return _Answer(free, dict.fromkeys(free, ()), None, ())
        crowded: dict[str, list[Pair]] = {}
        for name, n in free.items():
            if name in self._lanes and (some := self._crowds.order(self._lanes[name], n, pairs[name])) is not None:
                crowded[name] = some
        probes = {name: self._cursors.starts(crowded.get(name, some), now) for name, some in pairs.items()}
        if fair:
            return _Answer(free, probes, now, await self._take_turns(connection, self._arguments(free, probes)))
        narrow = {name for name, some in crowded.items() if len(some) < len(pairs[name])}
        in_order = all(name in crowded or len(some) <= 1 for name, some in pairs.items())
        statement = self._link.database.statements["claim_pairs" if in_order else "claim"]
        values = one_by_one(self._worker_id, free, probes) if in_order else self._arguments(free, probes, crowded)
        rows = await connection.fetch(statement.dollar, *statement.bind(values))
        return _Answer(free, probes, now, rows, crowded.keys(), narrow, in_order)

    async def _take_turns(self, connection: Connection[Record], values: dict[str, object]) -> list[Record]:
        pairs = pairs_of(values)
        statement = self._link.database.statements["claim_fair"]
        rows = await connection.fetch(statement.dollar, *statement.bind(values | {"debts": self._turns.debts(pairs)}))
        self._turns.give(pairs, ((row["kind"], row["priority"], row["share"]) for row in rows))
        return rows

    def _heads_of(self, name: str) -> _Claim:
        fair = self._lanes[name].order == "fair"
        return lambda connection, free: self._claim(connection, {name: free}, fair=fair)

    async def _carefully(self, name: str, free: int, claim: _Claim) -> _Answer:
        """Order, caps and rates hold over all workers: the lane's row, its cap and its rate are locked around it."""
        statements, lane = self._link.database.statements, self._lanes[name]
        async with self._link.session() as connection, connection.transaction():
            if lane.order == "strict":
                await connection.fetch(statements["lock_lanes"].dollar, [name])
            if lane.max_total is not None:
                enter = statements["cap_enter"]
                granted = await connection.fetchrow(enter.dollar, *enter.bind({"lanes": [name], "free": [free]}))
                free = 0 if granted is None else granted["free"]
            if lane.rate is not None and free > 0:
                free = await self._allowed(connection, name, free)
            if free <= 0:
                return _Answer({}, {}, None, ())
            answer = await claim(connection, free)
            started = sum(not row["parked"] for row in answer.rows)
            if started and lane.max_total is not None:
                await connection.fetch(statements["cap_taken"].dollar, [name] * started)
            if started and lane.rate is not None:
                taken = statements["lane_rate_taken"]
                await connection.fetch(taken.dollar, *taken.bind({"lane": name, "n": started}))
            return answer

    async def _allowed(self, connection: Connection[Record], name: str, free: int) -> int:
        """How many the lane's rate lets start; without room it rests until there is some."""
        enter = self._link.database.statements["lane_rate_enter"]
        row = await connection.fetchrow(enter.dollar, *enter.bind({"lane": name, "free": free}))
        if row is None:
            return free  # its count is gone, and the gates duty makes another
        if row["free"] < free:
            self._later([row["again_at"]])
        if row["free"] <= 0:
            self._resting[name] = row["again_at"]
        return int(row["free"])

    def _arguments(
        self, free: Mapping[str, int], probes: Mapping[str, Sequence[Probe]], crowded: Collection[str] = ()
    ) -> dict[str, object]:
        strict = {name for name in free if name in self._lanes and self._lanes[name].order == "strict"}
        return arguments(self._worker_id, free, probes, strict, crowded)


def _trace(error: Exception) -> Exception | None:
    """What to show of an error beside its message; None: it was foreseen."""
    return None if isinstance(error, _FORESEEN) else error


def one_by_one(worker_id: int, free: Mapping[str, int], probes: Mapping[str, Sequence[Probe]]) -> dict[str, object]:
    """The parameters of a claim that takes from one pair of a lane after the other."""
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
    crowded: Collection[str] = (),
) -> dict[str, object]:
    """The parameters of a claim: the probes by lane and priority level, each a slice of the arrays of the next.

    crowded: lanes whose pairs are emptied one after the other.
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
            take = 0 if name in crowded else _take(len(level), n, strict=name in strict)
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


def _take(width: int, free: int, *, strict: bool) -> int:
    """How many heads of each pair are merged: none when the level has one pair, all when the order must be exact."""
    if width == 1:
        return 0
    if strict:
        return free + min(free, 10)
    return math.ceil(2 * free / width) + 1

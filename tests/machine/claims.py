"""Claims: in queue order, fairly by tenant, by id, and of jobs that were just released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.machine.action import KINDS, PRIORITIES, Action, untouched
from tests.machine.oracle import CROWDED, REFUSED, Meant, Memory, Path
from tests.machine.rates import BUCKETS, Start
from typing_extensions import override

from rowlock.flow.claim.claimer import arguments, one_by_one
from rowlock.flow.claim.fairness import pairs_of
from rowlock.model.job import Claim
from rowlock.model.queue_pair import BEGINNING
from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Job, Pair, Snapshot

TAKEN: Final[tuple[Path, ...]] = ((Verb.CLAIM,), (REFUSED,))
PAIRS: Final = tuple((kind, priority, 0) for kind in KINDS for priority in PRIORITIES)
"""All there are where nobody is fair and nothing ages."""


@dataclass(frozen=True)
class _Claiming(Action):
    worker: int
    sides: ClassVar[frozenset[Path]] = CROWDED

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({row["id"]: TAKEN for row in answer}, self.sides)

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        for row in answer:
            if row["parked"]:
                continue
            claim = Claim(row["id"], row["fence"])
            memory.took(claim, row["claimed_by"])
            weight = after.jobs[row["id"]].weight if row["id"] in after.jobs else 1
            for rate in row["rate_keys"] or ():
                start = Start(before.now + memory.travelled, after.now + memory.travelled, weight)
                memory.starts.setdefault(rate, []).append(start)

    def _check_taken(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        for row in answer:
            was, now = before.jobs[row["id"]], after.jobs[row["id"]]
            assert was.run_after <= after.now, f"it was not due: {was}"
            if row["parked"]:
                assert now.state in {State.BLOCKED, State.QUEUED}
                assert (now.attempt, now.claimed_by, now.lane) == (was.attempt, None, None), now
                continue
            assert (now.state, now.fence, now.attempt) == (State.RUNNING, was.fence + 1, was.attempt + 1)
            assert not now.cancelling
            for rate in was.rates or ():
                assert before.rates[rate][1] <= after.now, f"its rate {rate} is paused: {was}"
            gate = before.gates.get(was.gate_key or "")
            if gate is not None and gate.fifo and was.gate_place == 0:
                waiting = [job for job in before.jobs.values() if job.parked and job.gate_key == was.gate_key]
                assert not waiting, f"{was} overtook {waiting}"
        self._check_buckets(before, answer, memory)

    def _check_buckets(self, before: Snapshot, answer: Any, memory: Memory) -> None:
        """A bucket with tokens and nobody in line refuses nobody."""
        for key, bucket in BUCKETS.items():
            jobs = [before.jobs[row["id"]] for row in answer if key in (row["rate_keys"] or ())]
            refused = {row["id"] for row in answer if row["parked"]}
            horizon, paused = before.rates[key]
            if max(horizon, paused) > before.now or any(job.gate_key or job.rates != [key] for job in jobs):
                continue
            level = bucket.level(memory.starts.get(key, ()), before.now + memory.travelled)
            for job in sorted(jobs, key=lambda job: (not job.rate_turn, *job.order)):
                if level < job.weight:
                    break
                assert job.id not in refused, f"{key} has {level} tokens, and this one was put back: {job}"
                level -= job.weight


def line(due: Sequence[Job], pairs: Sequence[Pair], take: int, debts: Sequence[float] | None = None) -> list[int]:
    """Who is next: level by level the heads of all pairs, by age or by turns, then the rest of those that had more."""
    found: list[int] = []
    for level in sorted({priority for _, priority, _ in pairs}, reverse=True):
        heads: list[tuple[float, float, int]] = []
        full: list[tuple[float, float, list[int]]] = []
        for i, pair in enumerate(pairs):
            if pair[1] != level:
                continue
            mine = sorted((job for job in due if job.pair == pair), key=lambda job: job.order)
            debt = 0.0 if debts is None else debts[i]
            turns = [0.0 if debts is None else debt + rank for rank in range(1, take + 1)]
            heads += [(turn, job.run_after, job.id) for turn, job in zip(turns, mine, strict=False)]
            if len(mine) >= take:
                last = mine[take - 1].run_after if take else 0.0
                full.append((debt + take, last, [job.id for job in mine[take:]]))
        found += [job_id for _, _, job_id in sorted(heads)]
        found += [job_id for _, _, rest in sorted(full) for job_id in rest]
    return found


@dataclass(frozen=True)
class ClaimSome(_Claiming):
    """take: heads of each pair that are merged; as many as are wanted make the order exact, 0: pair by pair."""

    n: int
    lane: str
    pairs: tuple[Pair, ...] = PAIRS
    take: int | None = None
    debts: tuple[float, ...] | None = None
    """By pair: then it is the claim of a fair lane."""

    @override
    async def run(self, store: Store) -> Any:
        async with store.connection.transaction():
            (room,) = await store.fetch("cap_enter", lanes=[self.lane], free=[self.n])
            if room["free"] == 0:
                return []
            name, values = self._asked(room["free"])
            rows = await store.fetch(name, **values)
            await store.fetch("cap_taken", lanes=[row["lane"] for row in rows if not row["parked"]])
        return rows

    def _asked(self, free: int) -> tuple[str, dict[str, Any]]:
        """The statement and its parameters."""
        probes = {self.lane: [(pair, BEGINNING) for pair in self.pairs]}
        if self._take() == 0:
            return "claim_pairs", {**one_by_one(self.worker, {self.lane: free}, probes)}
        values = arguments(self.worker, {self.lane: free}, probes)
        values["takes"] = [self._take()] * len(self.pairs)
        if self.debts is None:
            return "claim", {**values}
        debts = dict(zip(self.pairs, self.debts, strict=True))
        return "claim_fair", {**values, "debts": [debts[pair] for pair in pairs_of(values)]}

    def _take(self) -> int:
        return self.n if self.take is None else self.take

    def _first(self, due: Sequence[Job]) -> list[int]:
        if self._take() > 0:
            return line(due, self.pairs, self._take(), self.debts)
        ordered = sorted(due, key=lambda job: job.order)
        return [job.id for pair in self.pairs for job in ordered if job.pair == pair]

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_taken(before, after, answer, memory)
        cap = before.gates.get(f"lane:{self.lane}")
        free = self.n if cap is None else max(0, min(self.n, cap.limit - cap.held))
        just = [job for job in before.jobs.values() if before.now < job.run_after <= after.now]
        first = set(self._first(before.due())[:free])
        assert just or {row["id"] for row in answer} == first, f"{first} are first in the queue, {answer} were taken"


@dataclass(frozen=True)
class ClaimIds(_Claiming):
    ids: Sequence[int]
    lane: str = "free"

    @override
    async def run(self, store: Store) -> Any:
        return await store.fetch("claim_ids", worker=self.worker, lane=self.lane, ids=sorted(self.ids))

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_taken(before, after, answer, memory)
        taken = {row["id"] for row in answer}
        assert {job.id for job in before.due() if job.id in self.ids} <= taken <= set(self.ids)
        untouched(
            before,
            after,
            *(i for i in self.ids if before.jobs[i].state is not State.QUEUED and not before.jobs[i].parked),
        )


@dataclass(frozen=True)
class ClaimReleased(_Claiming):
    """Steps by their ids: none while one of a higher priority is due."""

    ids: Sequence[int]
    lane: str
    pairs: tuple[Pair, ...] = PAIRS

    @override
    async def run(self, store: Store) -> Any:
        async with store.connection.transaction():
            (room,) = await store.fetch("cap_enter", lanes=[self.lane], free=[len(self.ids)])
            if room["free"] == 0:
                return []
            rows = await store.fetch(
                "claim_released",
                worker=self.worker,
                lane=self.lane,
                ids=list(self.ids),
                kinds=[kind for kind, _, _ in self.pairs],
                priorities=[priority for _, priority, _ in self.pairs],
                shares=[share for _, _, share in self.pairs],
                lows=[BEGINNING] * len(self.pairs),
                free=room["free"],
            )
            await store.fetch("cap_taken", lanes=[row["lane"] for row in rows if not row["parked"]])
        return rows

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_taken(before, after, answer, memory)
        cap = before.gates.get(f"lane:{self.lane}")
        free = len(self.ids) if cap is None else max(0, min(len(self.ids), cap.limit - cap.held))
        due = before.due()
        highest = max((job.priority for job in due), default=0)
        meant = sorted(job.id for job in due if job.id in self.ids and job.priority == highest)[:free]
        just = [job for job in before.jobs.values() if before.now < job.run_after <= after.now]
        assert just or {row["id"] for row in answer} == set(meant), f"{meant} may pass, {answer} were taken"
        untouched(before, after, *(i for i in self.ids if before.jobs[i].state not in {State.QUEUED, State.BLOCKED}))

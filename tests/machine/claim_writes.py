"""The writes of a running job's owner: finish, give back, wait for a signal, report, save. Each carries its claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tests.machine.action import HOOK, Action, untouched
from tests.machine.oracle import NOBODY, Meant, Memory, Path
from typing_extensions import override

from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Job, Snapshot

    from rowlock.model.job import Claim


@dataclass(frozen=True)
class _Owned(Action):
    claims: Sequence[Claim]

    def sorted(self) -> list[Claim]:
        return sorted(self.claims, key=lambda claim: claim.job_id)

    def _columns(self) -> dict[str, Any]:
        """The claims as parameters, each with a hook."""
        n, claims = len(self.claims), self.sorted()
        hooks = {"hooks": [HOOK] * n, "hook_attempts": [2] * n}
        return {"ids": [claim.job_id for claim in claims], "fences": [claim.fence for claim in claims], **hooks}

    @override
    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return [(c.job_id, c.fence) for c in self.claims if (c.job_id, c.fence) in answer]

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({job_id: self.paths for job_id, _ in answer}, self.sides)

    def _answered(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        assert len(set(ids)) == len(ids)
        return [(c.job_id, c.fence) for c in self.claims if c.job_id in ids]

    def _check_stale(self, before: Snapshot, after: Snapshot, answer: Any) -> None:
        """Exactly the claims that count are accepted; a stale one changes nothing at all."""
        current = {(c.job_id, c.fence) for c in self.claims if before.current(c) is not None}
        assert set(answer) == current, f"{current} count, {answer} were accepted"


@dataclass(frozen=True)
class Finish(_Owned):
    state: str = "completed"
    hook: bool = False
    paths: ClassVar[tuple[Path, ...]] = ((Verb.COMPLETE,), (Verb.FAIL,), (Verb.CANCEL,))

    @override
    async def run(self, store: Store) -> Any:
        if not self.hook:
            return self._answered(await store.complete(*self.sorted(), state=self.state))
        n = len(self.claims)
        values = {"states": [self.state] * n, "results": [None] * n, "errors": [None] * n}
        row = await store.one("complete_hooked", **self._columns(), **values, channel=store.database.channel)
        return self._answered(row["ids"])

    @override
    def hooks(self, before: Snapshot, after: Snapshot, answer: Any) -> set[tuple[int, int]]:
        return set(answer) if self.hook else set()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_stale(before, after, answer)
        for job_id, _ in answer:
            now = after.jobs[job_id]
            assert (now.state, now.gate_place) == (State(self.state), 0)
            assert now.claimed_by == before.jobs[job_id].claimed_by


@dataclass(frozen=True)
class GiveBack(_Owned):
    """retry: counted; snooze and interrupt: refunded."""

    outcome: str = "failed"
    delay: float = 0.0
    refund: int = 0
    hook: bool = False
    paths: ClassVar[tuple[Path, ...]] = ((Verb.FAIL,), (Verb.SNOOZE,), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    @override
    async def run(self, store: Store) -> Any:
        if self.hook:
            return self._answered((await store.one("give_back_hooked", **self._values(store)))["ids"])
        ids = await store.give_back(*self.sorted(), delay=self.delay, refund=self.refund, outcome=self.outcome)
        return self._answered(ids)

    def _values(self, store: Store) -> dict[str, Any]:
        each = {"states": "queued", "delays": self.delay, "refunds": self.refund, "deaths": 0, "outcomes": self.outcome}
        many = {name: [value] * len(self.claims) for name, value in {**each, "errors": None}.items()}
        return {**self._columns(), **many, "channel": store.database.channel}

    @override
    def hooks(self, before: Snapshot, after: Snapshot, answer: Any) -> set[tuple[int, int]]:
        again = {(i, fence) for i, fence in answer if after.jobs[i].state is State.QUEUED}
        return again if self.hook else set()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_stale(before, after, answer)
        leaving = [before.jobs[job_id] for job_id, _ in answer]
        for was in leaving:
            now = after.jobs[was.id]
            check_left(was, now, State.QUEUED, superseded(was, leaving, before), refund=self.refund)
            assert now.claimed_by == was.claimed_by
            assert now.refunds == was.refunds + self.refund
            assert now.state.is_final or now.run_after >= before.now + self.delay
            assert after.attempts[was.id, was.fence] == (was.claimed_by, self.outcome)


@dataclass(frozen=True)
class Suspend(_Owned):
    signal: str = "s"
    seconds: float | None = None
    paths: ClassVar[tuple[Path, ...]] = ((Verb.WAIT,), (Verb.WAIT, Verb.RELEASE), (Verb.CANCEL,))
    transient: ClassVar[bool] = True

    @override
    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        return self._answered((await store.suspend(claim, self.signal, self.seconds))["ids"])

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        self._check_stale(before, after, answer)
        for job_id, _ in answer:
            was, now = before.jobs[job_id], after.jobs[job_id]
            there = any((job_id, self.signal, late) in before.signals for late in (False, True))
            wish = State.BLOCKED if not there else State.PENDING if was.approval & 3 == 1 else State.QUEUED
            check_left(was, now, wish, superseded(was, [was], before), refund=1)
            if now.state is State.BLOCKED:
                assert after.waits[job_id].signal == self.signal


def superseded(was: Job, leaving: Sequence[Job], before: Snapshot) -> bool:
    """Whether a twin of the same key waits already, or goes back to wait and is newer."""
    if was.unique_scope != "waiting":
        return False
    twins = [j for j in leaving if j.unique_key == was.unique_key and j.unique_scope == "waiting" and not j.cancelling]
    return before.holder(was.unique_key, "waiting") is not None or any(j.id > was.id for j in twins)


def check_left(was: Job, now: Job, wish: State, twin: bool, *, refund: int) -> None:
    """A running job left its worker: a cancel wins over another attempt, and so does a waiting twin."""
    end = wish is not State.FAILED and (was.cancelling or twin)
    assert now.state is (State.CANCELLED if end else wish), (was, now, wish)
    assert now.attempt == was.attempt - refund, f"the attempt was to be refunded by {refund}: {was} {now}"
    assert now.gate_place == 0 or now.state is State.RUNNING
    if twin and end:
        assert now.reason == "superseded"


@dataclass(frozen=True)
class Report(_Owned):
    """Progress and items of one claim."""

    items: Sequence[tuple[str, str]] = ()
    checkpoint: int | None = None
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        told = await store.report(claim, None if self.checkpoint is None else str(self.checkpoint))
        n = len(self.items)
        wrote = await store.fetch(
            "write_items",
            ids=[claim.job_id],
            fences=[claim.fence],
            by_ids=[claim.job_id],
            by_fences=[claim.fence],
            targets=[1] * n,
            phases=["p"] * n,
            names=[name for name, _ in self.items],
            states=[state for _, state in self.items],
            started=[None] * n,
            ended=[None] * n,
            reasons=[None] * n,
            errors=[None] * n,
        )
        return told, bool(wrote)

    @override
    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return []

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        if answer[0] and self.checkpoint is not None:
            memory.saved[self.claims[0].job_id] = self.checkpoint

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        (claim,) = self.claims
        current = before.current(claim) is not None
        assert answer == (current, current), f"{claim} counts: {current}; the store took its report: {answer}"
        if not current:
            assert after.progress.get(claim.job_id) == before.progress.get(claim.job_id)
            return
        fence, _, *counts, checkpoint, _ = after.progress[claim.job_id]
        was = before.progress.get(claim.job_id)
        kept = was[-2] if was and self.checkpoint is None else self.checkpoint
        assert (fence, checkpoint) == (claim.fence, kept)
        already = sum(was[2:6]) if was and was[0] == claim.fence else 0
        assert already <= sum(counts) <= already + len({name for name, _ in self.items})


@dataclass(frozen=True)
class Settled(_Owned):
    """Asked by a worker whose write hit no row: was it mine, or did I lose the claim?"""

    worker: int = 0
    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        return await store.settled(self.worker, claim)

    @override
    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return []

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        (claim,) = self.claims
        own = memory.settled.get((claim.job_id, claim.fence))
        if own is not None and claim.job_id in before.jobs:
            assert answer is own, f"{claim} ended by its own write: {own}; settled says {answer}"


@dataclass(frozen=True)
class _Held(_Owned):
    """In the user's own transaction, which the claim must outlive: whoever takes it away waits for the commit."""

    sides: ClassVar[frozenset[Path]] = NOBODY

    @override
    def accepted(self, answer: Any) -> list[tuple[int, int]]:
        return []

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant()

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        (claim,) = self.claims
        assert answer is (before.current(claim) is not None), f"{claim}, {before.jobs.get(claim.job_id)}: {answer}"
        untouched(before, after, claim.job_id)


@dataclass(frozen=True)
class Guard(_Held):
    @override
    async def run(self, store: Store) -> Any:
        return await store.guard(self.claims[0])


@dataclass(frozen=True)
class Save(_Held):
    """A checkpoint beside the user's rows."""

    checkpoint: int = 0

    @override
    async def run(self, store: Store) -> Any:
        (claim,) = self.claims
        values = {"id": claim.job_id, "fence": claim.fence, "checkpoint": str(self.checkpoint)}
        return bool(await store.fetch("save_checkpoint", **values))

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        if answer:
            memory.saved[self.claims[0].job_id] = self.checkpoint

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        super().check(before, after, answer, memory)
        mine = (self.claims[0].job_id, self.checkpoint)
        assert (mine in after.saved) if answer else after.saved == before.saved


@dataclass(frozen=True)
class Resume(_Held):
    """What an attempt goes on from: the newest that was saved, wherever that was."""

    @override
    async def run(self, store: Store) -> Any:
        rows = await store.fetch("checkpoint", id=self.claims[0].job_id)
        return int(rows[0]["checkpoint"]) if rows else None

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        saved = memory.saved.get(self.claims[0].job_id) if self.claims[0].job_id in before.jobs else None
        assert answer == saved, f"{self.claims[0].job_id} goes on from {answer}, and saved {saved}"

"""Workflows that start, grow, are cancelled and retried."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tests.machine.action import Action, untouched
from tests.machine.oracle import CASCADE, NOBODY, STAYS, Meant, Memory, Path
from typing_extensions import override

from rowlock.model.state import State, Verb

if TYPE_CHECKING:
    from tests.factories import Store
    from tests.machine.snapshot import Snapshot


@dataclass(frozen=True)
class Start(Action):
    """A new workflow, or the live one that has its key. Answers what, its number, and the jobs of the steps by name."""

    plan: str
    key: str | None = None

    @override
    async def run(self, store: Store) -> Any:
        values = {"name": "f", "tenant": None, "submitted_by": "ann", "unique_key": self.key, "meta": None}
        rows = await store.fetch("workflow_start", **values, plan=self.plan)
        ((what, number),) = {(row["what"], row["workflow_id"]) for row in rows}
        return what, number, {row["name"]: row["job_id"] for row in rows}

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant(creates=answer[0] == "created")

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        what, number, jobs = answer
        holder = live_flow(before, self.key)
        if holder is not None:
            steps = {step.name: i for i, step in before.steps.items() if step.workflow == holder}
            assert answer == ("kept", holder, steps), f"workflow {holder} has the key: {answer}"
            assert before.flows == after.flows
            untouched(before, after, *jobs.values())
            return
        assert what == "created"
        assert after.flows[number]["unique_key"] == self.key
        plan = json.loads(self.plan)
        behind = {edge["downstream"] for edge in plan["edges"]}
        for step in plan["steps"]:
            first = State.PENDING if step["approval"] else State.QUEUED
            assert after.jobs[jobs[step["name"]]].state is (State.BLOCKED if step["name"] in behind else first)


def live_flow(snapshot: Snapshot, key: str | None) -> int | None:
    """The workflow that has the key."""
    found = (n for n, flow in snapshot.flows.items() if flow["unique_key"] == key and flow["finished_at"] is None)
    return None if key is None else next(found, None)


@dataclass(frozen=True)
class Grow(Action):
    """A running job adds a step behind itself, under its claim."""

    job_id: int
    fence: int
    name: str
    joins: bool

    @override
    async def run(self, store: Store) -> Any:
        plan = {"steps": [{"name": self.name, "kind": "a"}], "edges": [], "joins": self.joins}
        values = {"job": self.job_id, "fence": self.fence, "workflow": None, "plan": json.dumps(plan)}
        return [
            (r["what"], r["job_id"])
            for r in await store.fetch("workflow_add", **values, channel=store.database.channel)
        ]

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant(creates=any(what == "created" for what, _ in answer))

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        ((what, _),) = answer
        was = before.jobs.get(self.job_id)
        current = was is not None and was.fence == self.fence and not was.state.is_final
        assert (what == "lost") == (not current), f"{what}: {was}, fence {self.fence}"
        assert what == "created" or before.jobs.keys() == after.jobs.keys()


@dataclass(frozen=True)
class CancelFlow(Action):
    workflow: int
    halt: bool
    paths: ClassVar[tuple[Path, ...]] = ((Verb.CANCEL,),)

    @override
    async def run(self, store: Store) -> Any:
        if not self.halt:
            await store.fetch("workflow_cancel", workflow=self.workflow)
            return []
        values = {"workflow": self.workflow, "state": "cancelled", "error": None, "channel": store.database.channel}
        return list((await store.one("workflow_halt", **values))["ids"])

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant(dict.fromkeys(answer, self.paths), CASCADE, creates=True)


@dataclass(frozen=True)
class RetryStep(Action):
    workflow: int
    step: str
    paths: ClassVar[tuple[Path, ...]] = ((Verb.RETRY,), STAYS)

    @override
    async def run(self, store: Store) -> Any:
        values = {"workflow": self.workflow, "step": self.step, "by_whom": "ann", "note": None}
        return [(row["what"], row["job_id"]) for row in await store.fetch("workflow_retry", **values)]

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant({job_id: self.paths for what, job_id in answer if what == "retried"}, NOBODY)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        what, first = answer[0]
        was = before.flows[self.workflow]
        taken = was["finished_at"] is not None and live_flow(before, was["unique_key"]) is not None
        assert not (taken and what == "retried"), f"another workflow has its key: {was}"
        assert taken or what != "taken", f"nobody has its key: {was}"
        if what == "retried":
            assert before.jobs[first].state.is_final
            assert after.jobs[first].state in {State.QUEUED, State.PENDING}
            assert after.flows[self.workflow]["state"] == "running"

"""Orders of principals: the desk carries them out as the oracle says, or refuses them and leaves no trace.

The orders themselves are those of orders.py, and are judged by them. Here: who may give which, and how the desk
answers.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.machine.action import Action, untouched
from tests.machine.oracle import CASCADE, Meant, Memory
from tests.machine.orders import Approve, CancelRunning, CancelWaiting, Edit, Reject, Reprioritise, Retry, Stop
from tests.rights import Rights
from typing_extensions import override

from rowlock.desk.guard import Guard
from rowlock.desk.jobs import Jobs
from rowlock.errors import ApprovalRefused, Forbidden, JobNotFound, WrongState
from rowlock.model.access import Permission
from rowlock.model.state import State
from rowlock.model.stored_args import Encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.factories import Store
    from tests.machine.snapshot import Job, Snapshot

TAKES: Final = {"a": "free", "b": "free", "c": "capped"}
"""Kind to the lane that takes it before its first claim."""
_ALL: Final = frozenset({"jobs:read", "jobs:cancel", "jobs:approve", "jobs:retry", "jobs:edit", "jobs:delete"})
ASKERS: Final = (
    Rights("ann", None, _ALL),
    Rights("bob", "acme", _ALL),
    Rights("cat", "zeta", _ALL | {"jobs:read_all"}),
    Rights(
        "dan",
        None,
        frozenset(
            {
                *("jobs:read", "jobs:read_all", "jobs:cancel@kind=a", "jobs:approve@lane=capped"),
                *("jobs:retry@kind=a,lane=free", "jobs:edit@lane=free", "jobs:delete@kind=b"),
            }
        ),
    ),
    Rights(
        "eve",
        "acme",
        frozenset({"jobs:read@kind=b", "jobs:read_all@lane=capped", "jobs:cancel", "jobs:retry", "jobs:edit@kind=c"}),
    ),
    Rights("fay", None, frozenset({"jobs:read", "jobs:read_all"})),
)
"""Their own jobs, those of their tenant, all of them, some by kind and lane, only looking."""
NEEDED: Final = {
    "cancel": Permission.CANCEL,
    "stop": Permission.CANCEL,
    "approve": Permission.APPROVE,
    "reject": Permission.APPROVE,
    "retry": Permission.RETRY,
    "reprioritise": Permission.EDIT,
    "edit": Permission.EDIT,
    "delete": Permission.DELETE,
}
ORDERS: Final = tuple(NEEDED)
VERBS: Final = {"reprioritise": "priority"}
"""How an order is recorded, where the desk has another word."""


def lane_of(job: Job) -> str:
    return job.lane or TAKES[job.kind]


@dataclass(frozen=True)
class Answer:
    """What the desk said: done, nothing (the state does not fit), refused (an approval that does not count)."""

    said: str
    acts: list[tuple[int, str, str | None]]
    """(job, verb, by whom) that were recorded meanwhile."""
    lines: int
    """Lines of the audit about jobs that were written meanwhile."""


class _Kinds:
    """The application behind the desk: arguments are stored as they come."""

    kinds: Final = ("a", "b", "c")
    runs_at_once: Final = False

    async def __call__(self, *_said: object) -> tuple[int, str]:
        raise NotImplementedError

    async def encoded(self, _kind: str, args: Mapping[str, object] | Sequence[object], /) -> Encoded:
        return Encoded(json.dumps(args))


def desk_of(store: Store, who: Rights) -> Jobs:
    return Jobs(lambda: store.database, _unheard, Guard(who.principal), submit=_Kinds())


def _unheard(_pairs: Iterable[Any]) -> None:
    """Nobody is woken: claims are rules of the machine."""


async def _traces(store: Store) -> tuple[Counter[tuple[int, str, str | None]], int]:
    acts = await store.connection.fetch("SELECT job_id, verb, by_whom FROM rowlock.job_acts")
    lines = await store.value("SELECT count(*) FROM {s}.audit WHERE target LIKE 'job:%'")
    return Counter((row["job_id"], row["verb"], row["by_whom"]) for row in acts), lines


@dataclass(frozen=True)
class Ask(Action):
    """One principal gives one order about one job."""

    who: Rights
    order: str
    job_id: int
    value: int = 0
    """The argument of an edit, or the priority."""

    @override
    async def run(self, store: Store) -> Any:
        acts, lines = await _traces(store)
        said = await self._said(desk_of(store, self.who))
        now, more = await _traces(store)
        return Answer(said, sorted((now - acts).elements(), key=str), more - lines)

    async def _said(self, desk: Jobs) -> str:
        given: dict[str, tuple[Any, ...]] = {"reprioritise": (self.value,)}
        named: dict[str, dict[str, Any]] = {"edit": {"args": {"n": self.value}}}
        try:
            await getattr(desk, self.order)(self.job_id, *given.get(self.order, ()), **named.get(self.order, {}))
        except ApprovalRefused:
            return "refused"
        except Forbidden:
            return "forbidden"
        except JobNotFound:
            return "missing"
        except WrongState:
            return "nothing"
        return "done"

    def expected(self, before: Snapshot, memory: Memory) -> str:
        """What the desk must say, by the rights alone and then by the job's state."""
        job = before.jobs.get(self.job_id)
        said = self.who.outcome(NEEDED[self.order], job, lane_of(job) if job else "")
        if said != "done" or job is None:
            return said
        match self.order:
            case "cancel" | "stop":
                fits = not job.state.is_final
            case "retry" | "delete":
                fits = job.state.is_final
            case "approve":
                if job.state is State.PENDING and _ApproveAs((job.id,), self.who.subject).refusal(job, before, memory):
                    return "refused"
                fits = job.state is State.PENDING
            case "reject":
                fits = job.state is State.PENDING
            case _:
                fits = job.waits
        return "done" if fits else "nothing"

    def changes(self, before: Snapshot, answer: Answer) -> bool:
        """Whether the job is another one now; an order that finds its wish fulfilled changes nothing."""
        job = before.jobs.get(self.job_id)
        if answer.said != "done" or job is None:
            return False
        same = {
            "cancel": job.cancelling,
            "edit": job.args == {"n": self.value},
            "reprioritise": job.priority == self.value,
        }
        return not same.get(self.order, False)

    def _inner(self, before: Snapshot) -> tuple[Action, Any]:
        """The order of orders.py, and its answer when it changed the job."""
        job = before.jobs[self.job_id]
        only = [job.id]
        orders: dict[str, tuple[Action, Any]] = {
            "cancel": ((CancelRunning if job.state is State.RUNNING else CancelWaiting)(only), only),
            "stop": (Stop(only), only),
            "approve": (_ApproveAs(only, self.who.subject), {job.id: None}),
            "reject": (Reject(only), only),
            "retry": (Retry(only), {job.id: None}),
            "reprioritise": (Reprioritise(only, self.value), only),
            "edit": (Edit(job.id, self.value, self.who.subject), True),
            "delete": (_Delete(job.id), True),
        }
        return orders[self.order]

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        if not self.changes(before, answer):
            return Meant()
        inner, changed = self._inner(before)
        return inner.meant(before, changed)

    @override
    def remember(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        if self.changes(before, answer):
            inner, changed = self._inner(before)
            inner.remember(before, after, changed, memory)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert answer.said == self.expected(before, memory), f"{self.who} {self.order}: {before.jobs.get(self.job_id)}"
        if self.changes(before, answer):
            inner, changed = self._inner(before)
            inner.check(before, after, changed, memory)
            verb = VERBS.get(self.order, self.order)
            signed = [] if self.order == "delete" else [(self.job_id, verb, self.who.subject)]
            assert answer.acts == signed, f"{answer.acts} is not signed by {self.who.subject}"
            assert answer.lines == 1, "an order that is carried out leaves one line"
            return
        assert after.jobs == before.jobs, f"{answer.said}, and yet something changed"
        assert (answer.acts, answer.lines) == ([], 0), f"{answer.said}, and yet there is a trace: {answer}"


@dataclass(frozen=True)
class AskMany(Action):
    """One principal cancels several jobs in one call."""

    who: Rights
    ids: Sequence[int]

    @override
    async def run(self, store: Store) -> Any:
        acts, lines = await _traces(store)
        try:
            done = await desk_of(store, self.who).cancel_many(self.ids)
        except Forbidden:
            said: set[int] | None = None
        else:
            said = {job.id for job in done.changed}
            assert said | set(done.refused) == set(self.ids), f"each job is answered for: {done}"
        now, more = await _traces(store)
        return said, sorted((now - acts).elements(), key=str), more - lines

    def _reached(self, before: Snapshot) -> list[Job]:
        jobs = [before.jobs[i] for i in self.ids if i in before.jobs]
        return [job for job in jobs if self.who.reaches(Permission.CANCEL, job, lane_of(job))]

    def _changed(self, before: Snapshot) -> list[Job]:
        return [job for job in self._reached(before) if not job.state.is_final and not job.cancelling]

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        if answer[0] is None:
            return Meant()
        kinds = {
            job.id: CancelRunning if job.state is State.RUNNING else CancelWaiting for job in self._changed(before)
        }
        return Meant({i: order.paths for i, order in kinds.items()}, CASCADE)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        said, acts, lines = answer
        if not self.who.has(Permission.CANCEL):
            assert (said, acts, lines) == (None, [], 0)
            assert after.jobs == before.jobs
            return
        assert said == {job.id for job in self._reached(before) if not job.state.is_final}, (self.who, said)
        changed = self._changed(before)
        assert acts == sorted(((job.id, "cancel", self.who.subject) for job in changed), key=str)
        assert lines == len(changed)
        untouched(before, after, *(i for i in self.ids if i not in {job.id for job in changed}))
        for job in changed:
            now = after.jobs[job.id]
            assert now.cancelling if job.state is State.RUNNING else now.state is State.CANCELLED, now


@dataclass(frozen=True)
class _ApproveAs(Approve):
    """By a caller with permissions of its own: nobody approves what they submitted or edited."""

    @override
    def refusal(self, was: Job, before: Snapshot, memory: Memory) -> str | None:
        others = was.approval & 3 == 1
        if others and not (was.answer_by is not None and was.answer_by <= before.now):
            if was.submitted_by == self.by:
                return "own"
            if self.by in memory.edited.get(was.id, ()) and not (was.approval & 4 and was.submitted_by is None):
                return "edited"
        return super().refusal(was, before, memory)


@dataclass(frozen=True)
class _Delete(Action):
    job_id: int

    @override
    def meant(self, before: Snapshot, answer: Any) -> Meant:
        return Meant(prunes=True)

    @override
    def check(self, before: Snapshot, after: Snapshot, answer: Any, memory: Memory) -> None:
        assert before.jobs[self.job_id].state.is_final
        assert {i: job for i, job in before.jobs.items() if i != self.job_id} == after.jobs

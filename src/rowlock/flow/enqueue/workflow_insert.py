"""Workflow insert: the steps of a workflow, written together with one statement."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from rowlock.flow.enqueue.middleware import EnqueueCall, run_middleware
from rowlock.model.state import State
from rowlock.model.workflow import Undo, WorkflowPlan
from rowlock.store.jobs.enqueue import auto_approve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.enqueue.insert import OwnConnection
    from rowlock.flow.enqueue.lane_policy import LanePolicy
    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.model.options import Options
    from rowlock.model.queue_pair import Pair
    from rowlock.model.workflow import Edge, Planned
    from rowlock.store.jobs.enqueue import StatementPlan

Demanded: TypeAlias = "Callable[[PreparedJob], PreparedJob]"
"""Makes of a job what its lane demands."""


class StepLike(Protocol):
    """A step as task.step() makes it."""

    @property
    def producer(self) -> Producer:
        """The producer of the step's application, which writes it."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    @property
    def options(self) -> Options:
        """The options that the caller gave."""

    @property
    def job(self) -> PreparedJob:
        """The job but for its arguments."""

    @property
    def call(self) -> Mapping[str, object]:
        """The arguments that the caller gave, by name."""

    def checked(self) -> Any:  # noqa: ANN401 - the step itself
        """The step itself if no argument is missing; InvalidArguments otherwise."""

    def prepared(self, options: Options) -> PreparedJob:
        """The job with these options instead."""

    @property
    def args(self) -> str:
        """All arguments, encoded."""

    def planned(self, name: str, job: PreparedJob, *, any_of: bool = False, undo: Undo | None = None) -> Planned:
        """The step as a plan contains it."""


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step under its name in the workflow. undo: the step that compensates for it."""

    name: str
    step: StepLike
    any_of: bool = False
    undo: StepLike | None = None


class StepJobs(NamedTuple):
    """The prepared jobs of a step and of its undo step."""

    step: PreparedJob
    undo: PreparedJob | None


class StepReceipt(NamedTuple):
    """One step as it was written, or found. what: created, kept or retried."""

    what: str
    name: str
    job_id: int
    kind: str
    priority: int
    share: int
    state: str
    run_after: datetime


@dataclass(frozen=True, slots=True)
class WorkflowReceipt:
    """The outcome of writing steps.

    what: the first step's outcome, or the reason why nothing was written, which is then about the step `about`.
    """

    workflow_id: int
    what: str
    steps: Sequence[StepReceipt] = ()
    about: str | None = None

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[object]]) -> WorkflowReceipt:
        """Read the rows of a statement that writes steps; a row without a kind says why nothing was written."""
        workflow_id, what, name, _, kind = rows[0][:5]
        if kind is None:
            return cls(cast("int", workflow_id), str(what), (), cast("str | None", name))
        steps = [StepReceipt(*row[1:9]) for row in rows]  # type: ignore[arg-type]  # the statement's columns
        return cls(cast("int", workflow_id), str(what), steps)


def _unchanged(job: PreparedJob) -> PreparedJob:
    return job


@dataclass(frozen=True, slots=True)
class WorkflowInsert:
    """Steps to be written by one statement.

    jobs: their prepared jobs, each once. statement: its name. values: makes its parameters, given the jobs as their
    lanes demand them.
    """

    jobs: Sequence[PreparedJob]
    statement: str
    values: Callable[[Demanded], Mapping[str, object]]
    demanded: Demanded = _unchanged

    @property
    def is_atomic(self) -> bool:
        """Always: approval by rule takes a statement of its own."""
        return True

    def under(self, policy: LanePolicy) -> WorkflowInsert:
        """The steps as their lanes demand them."""
        demanded = {id(job): policy.applied_to(job) for job in self.jobs}
        return replace(self, jobs=list(demanded.values()), demanded=lambda job: demanded[id(job)])

    def plan(self) -> StatementPlan[WorkflowReceipt]:
        """Write the steps, and approve new ones that a rule approves in advance."""
        receipt = WorkflowReceipt.from_rows((yield self.statement, self.values(self.demanded)))
        pending = [step.job_id for step in receipt.steps if step.state == State.PENDING and step.what == "created"]
        if not pending:
            return receipt
        moved = {job.id: job for job in (yield from auto_approve(pending))}
        steps = [
            step._replace(state=moved[step.job_id].state, run_after=moved[step.job_id].run_after)
            if step.job_id in moved
            else step
            for step in receipt.steps
        ]
        return replace(receipt, steps=steps)

    def write(self, own: OwnConnection) -> Awaitable[WorkflowReceipt]:
        """Run the plan."""
        return own.run(self)

    def claimable(self, receipt: WorkflowReceipt) -> dict[Pair, datetime]:
        """The lowest run_after per pair of the steps that may start."""
        lows: dict[Pair, datetime] = {}
        for step in receipt.steps:
            if step.state == State.QUEUED and step.what != "kept":
                pair = (step.kind, step.priority, step.share)
                lows[pair] = min(step.run_after, lows.get(pair, step.run_after))
        return lows

    def created(self, receipt: WorkflowReceipt) -> list[int]:
        """The ids of the jobs that were not there before."""
        return [step.job_id for step in receipt.steps if step.what == "created"]

    def outcomes(self, receipt: WorkflowReceipt) -> Iterable[tuple[int, str, str]]:
        """Id and kind of each new job."""
        return ((step.job_id, step.kind, step.what) for step in receipt.steps if step.what == "created")


def build_plan(
    steps: Sequence[NamedStep],
    jobs: Sequence[StepJobs],
    demanded: Demanded,
    edges: Sequence[Edge],
) -> WorkflowPlan:
    """The plan that a statement writes."""
    planned = []
    for named, job in zip(steps, jobs, strict=True):
        undo = None
        if named.undo is not None and job.undo is not None:
            undo = Undo(demanded(job.undo).job, named.undo.args)
        planned.append(named.step.planned(named.name, demanded(job.step), any_of=named.any_of, undo=undo))
    return WorkflowPlan(planned, edges)


@contextlib.contextmanager
def prepared_steps(
    producer: Producer, steps: Sequence[NamedStep], tenant: str | None = None
) -> Iterator[list[StepJobs]]:
    """The prepared jobs of the steps, after enqueue middleware; what a middleware does after its yield runs at the end.

    tenant: the workflow's, by whose share fair lanes take the steps.
    """
    of_tenant: dict[int, PreparedJob] = {}
    with contextlib.ExitStack() as stack:

        def unseen(step: StepLike) -> PreparedJob:
            if tenant is None:
                return step.job
            if id(step.job) not in of_tenant:
                of_tenant[id(step.job)] = step.prepared(replace(step.options, tenant=tenant))
            return of_tenant[id(step.job)]

        def job(step: StepLike) -> PreparedJob:
            if not producer.middleware:
                return unseen(step)
            call = EnqueueCall(step.kind, [step.call], step.options)
            stack.enter_context(run_middleware(producer.middleware, call))
            return unseen(step) if call.options is step.options else step.prepared(call.options)

        yield [StepJobs(job(one.step), None if one.undo is None else job(one.undo)) for one in steps]


def distinct(jobs: Iterable[PreparedJob | None]) -> list[PreparedJob]:
    """Each job once: steps made with the same options share theirs."""
    return list({id(job): job for job in jobs if job is not None}.values())

"""Workflow additions: steps added to a workflow that runs, by one of its own jobs or behind one of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from rowlock.errors import ClaimLost, DatabaseBusy, InvalidOption, JobNotFound, WrongState
from rowlock.flow.enqueue.workflow_insert import NamedStep, StepLike, WorkflowInsert, distinct, prepared_steps
from rowlock.model import ids
from rowlock.model.workflow import NEEDS, Edge, Planned, WorkflowPlan, checked_step_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.workflow_insert import Demanded, WorkflowReceipt
    from rowlock.model.job import Claim
    from rowlock.model.workflow import Needs


class Added(NamedTuple):
    """A step that was added. what: created, or kept when an earlier attempt had added it."""

    name: str
    job_id: int
    what: str

    @property
    def public_id(self) -> str:
        """The job's id to show to people."""
        return ids.encode(self.job_id)


class NewStep(NamedTuple):
    """A step that is ready to be written. args: encoded."""

    name: str
    job: PreparedJob
    args: str
    any_of: bool


@dataclass(frozen=True, slots=True)
class WorkflowAddition:
    """Steps for the workflow of a job, as plain values: a child process sends them to its worker, which writes them.

    fence: of the job's claim, without which nothing is added; None: from outside. joins: steps that wait for the job
    wait for these steps, too.
    """

    job: int
    fence: int | None
    steps: tuple[NewStep, ...]
    edges: tuple[Edge, ...]
    joins: bool = False


class WorkflowWriter(Protocol):
    """Writes the steps that a job adds: directly, or for a child process through its worker."""

    async def step_name(self, claim: Claim) -> str | None:
        """The name of the job's step; None: the job is in no workflow."""

    async def add_steps(self, producer: Producer, addition: WorkflowAddition) -> WorkflowReceipt:
        """Write the steps. producer: the one of their application."""


class CurrentWorkflow:
    """ctx.workflow: adds steps to the workflow that this job is a step of; a plain job becomes the first step of one.

    A step is added once, however often the job is tried: steps are recognised by their names.
    """

    __slots__ = ("_claim", "_kind", "_numbers", "_parent", "_writer")

    def __init__(self, claim: Claim, kind: str, writer: WorkflowWriter) -> None:
        self._claim, self._kind, self._writer = claim, kind, writer
        self._parent: str | None = None
        self._numbers: dict[str, int] = {}

    async def add(
        self,
        step: object,
        *,
        name: str | None = None,
        after: Iterable[Added | str] = (),
        before: Iterable[Added | str] = (),
        when: Needs = "success",
        any_of: bool = False,
    ) -> Added:
        """Add a task or step. after: steps it waits for, none by default; before: steps that also wait for it.

        Without a name it gets one made of this step's name, its kind and a number: add steps in the same order in every
        attempt, or name them. `before` takes steps that still wait; WrongState otherwise.
        """
        if when not in NEEDS:
            message = f"when must be {', '.join(NEEDS)}; got {when!r}."
            raise InvalidOption(message)
        made = checked_step(step)
        chosen = checked_step_name(name) if name is not None else await self._name(made)
        edges = [Edge(_name_of(one), chosen, when) for one in after]
        edges += [Edge(chosen, _name_of(one)) for one in before]
        (added,) = await self._add_steps([NamedStep(chosen, made, any_of)], edges, joins=False)
        return added

    async def spawn(self, steps: Iterable[object], *, join: bool = True) -> list[Added]:
        """Add steps that may start at once. join: steps that wait for this one wait for them, too."""
        added = []
        for step in steps:
            made = checked_step(step)
            added.append(NamedStep(await self._name(made), made))
        return await self._add_steps(added, [], joins=join) if added else []

    async def _name(self, step: StepLike) -> str:
        if self._parent is None:
            self._parent = await self._writer.step_name(self._claim) or self._kind
        n = self._numbers[step.kind] = self._numbers.get(step.kind, 0) + 1
        return f"{self._parent}/{step.kind}-{n}"

    async def _add_steps(self, steps: Sequence[NamedStep], edges: Sequence[Edge], *, joins: bool) -> list[Added]:
        receipt = await add_steps(
            self._claim.job_id, self._claim.fence, steps, edges, joins=joins, by=self._writer.add_steps
        )
        return [Added(step.name, step.job_id, step.what) for step in receipt.steps]


async def write(producer: Producer, addition: WorkflowAddition) -> WorkflowReceipt:
    """Write the steps with a connection of this process."""

    def values(demanded: Demanded) -> dict[str, object]:
        steps = [Planned(step.name, demanded(step.job).job, step.args, step.any_of) for step in addition.steps]
        return {
            "job": addition.job,
            "fence": addition.fence,
            "workflow": None,
            "plan": WorkflowPlan(steps, addition.edges, addition.joins).text(),
            "channel": producer.database().channel,
        }

    jobs = distinct(step.job for step in addition.steps)
    try:
        return await producer.enqueue(WorkflowInsert(jobs, "workflow_add", values))
    except DatabaseBusy as error:
        message = (
            f"Nothing was added to the workflow of job {ids.encode(addition.job)}: {error} If the handler holds the "
            "job with ctx.guarded(), add steps before or after that block: the first one makes the job a step."
        )
        raise DatabaseBusy(message, error.sqlstate, error.blockers) from error


async def add_steps(
    job: int,
    fence: int | None,
    steps: Sequence[NamedStep],
    edges: Sequence[Edge],
    *,
    joins: bool = False,
    by: Callable[[Producer, WorkflowAddition], Awaitable[WorkflowReceipt]] = write,
) -> WorkflowReceipt:
    """Add steps to the workflow of a job. fence: of its claim, without which nothing is added; None: from outside."""
    producer = steps[0].step.producer
    with prepared_steps(producer, steps) as jobs:
        new = tuple(
            NewStep(named.name, job.step, named.step.args, named.any_of) for named, job in zip(steps, jobs, strict=True)
        )
        receipt = await by(producer, WorkflowAddition(job, fence, new, tuple(edges), joins))
        if not receipt.steps:
            raise refused(receipt, job)
    return receipt


def refused(found: WorkflowReceipt, job: int) -> Exception:
    """The error about steps that were not added."""
    named = ids.encode(job)
    if found.what == "lost":
        return ClaimLost(f"This attempt has lost job {named}; it adds nothing to its workflow.")
    if found.what == "missing":
        return JobNotFound(f"There is no job {named}. Finished jobs are removed after their retention.")
    whose = f"the workflow of job {named}"
    return WrongState(
        {
            "finished": f"Nothing was added: {whose} has ended.",
            "cancelled": f"Nothing was added: {whose} is being cancelled.",
            "late": f"Nothing was added: step {found.about!r} no longer waits, so nothing can be put before it.",
            "unknown": f"Nothing was added: there is no step {found.about!r} in {whose}.",
            "reserved": f"Nothing was added: {found.about!r} is the name of an undo step of {whose}.",
        }.get(found.what, f"Nothing was added to {whose}: {found.what}.")
    )


def checked_step(thing: Any) -> StepLike:  # noqa: ANN401 - a task or a step
    """The step, or the step of a task without arguments; InvalidArguments if arguments are missing."""
    factory = getattr(thing, "step_factory", None)
    step = thing if hasattr(thing, "planned") else None if factory is None else factory().step((), {})
    if step is None:
        message = f"Expected a task or a step made by task.step(…); got {thing!r}."
        raise InvalidOption(message)
    return cast("StepLike", step.checked())


def _name_of(one: Added | str) -> str:
    return one if isinstance(one, str) else one.name

"""Grow: steps added to a workflow that runs, by one of its own jobs under its claim, or behind a job from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from rowlock.errors import ClaimLost, InvalidOption, JobNotFound, WrongState
from rowlock.flow.enqueue import plan as place
from rowlock.flow.enqueue.plan import Member, Stepped
from rowlock.model import ids
from rowlock.model.workflow import NEEDS, Edge, Plan, Planned, checked_step_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence

    from rowlock.flow.enqueue.plan import Placed
    from rowlock.flow.enqueue.prepare import Prepared
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.model.job import Claim
    from rowlock.model.workflow import Needs
    from rowlock.store.caller_transaction import Ask


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
    """A step to be added, made: all that is left is to write it. args: encoded."""

    name: str
    ready: Prepared
    args: str
    any_of: bool


@dataclass(frozen=True, slots=True)
class Growing:
    """Steps for the workflow of a job. fence: of its claim, without which nothing is added; None: from outside.

    Nothing but values: a child process has its worker write it.
    """

    job: int
    fence: int | None
    steps: tuple[NewStep, ...]
    edges: tuple[Edge, ...]
    joins: bool = False


class Grower(Protocol):
    """How a job's growth is written: here, or for a child process by its worker."""

    async def step_name(self, claim: Claim) -> str | None:
        """The name of the job's step; None: it is of no workflow."""

    async def grow(self, producer: Producer, growing: Growing) -> Placed:
        """Write it. producer: the one its steps were made for."""


class Growth:
    """ctx.workflow: adds steps to the workflow this job is a step of; a plain job becomes the first step of one.

    What an attempt adds is added once, though it may run again: steps are known by their names.
    """

    __slots__ = ("_claim", "_grower", "_kind", "_numbers", "_parent")

    def __init__(self, claim: Claim, kind: str, grower: Grower) -> None:
        self._claim, self._kind, self._grower = claim, kind, grower
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
        """Add a task or step. after: steps it waits for, none by default; before: steps that wait for it, too.

        Without a name it has one made of this step's, its kind and a number: add in the same order in every attempt, or
        name them. `before` takes steps that still wait; WrongState otherwise.
        """
        if when not in NEEDS:
            message = f"when must be {', '.join(NEEDS)}; got {when!r}."
            raise InvalidOption(message)
        made = stepped(step)
        chosen = checked_step_name(name) if name is not None else await self._name(made)
        edges = [Edge(_name_of(one), chosen, when) for one in after]
        edges += [Edge(chosen, _name_of(one)) for one in before]
        (added,) = await self._grow([Member(chosen, made, any_of)], edges, joins=False)
        return added

    async def spawn(self, steps: Iterable[object], *, join: bool = True) -> list[Added]:
        """Add steps that may start at once. join: whoever waits for this step waits for them, too."""
        members = []
        for step in steps:
            made = stepped(step)
            members.append(Member(await self._name(made), made))
        return await self._grow(members, [], joins=join) if members else []

    async def _name(self, step: Stepped) -> str:
        if self._parent is None:
            self._parent = await self._grower.step_name(self._claim) or self._kind
        n = self._numbers[step.kind] = self._numbers.get(step.kind, 0) + 1
        return f"{self._parent}/{step.kind}-{n}"

    async def _grow(self, members: Sequence[Member], edges: Sequence[Edge], *, joins: bool) -> list[Added]:
        found = await grow(self._claim.job_id, self._claim.fence, members, edges, joins=joins, by=self._grower.grow)
        return [Added(step.name, step.job_id, step.what) for step in found.steps]


async def write(producer: Producer, growing: Growing) -> Placed:
    """Write it with a connection of this process."""

    def plan(asked: Callable[[Prepared], Prepared]) -> Generator[Ask, list[Sequence[object]], Placed]:
        steps = [Planned(step.name, asked(step.ready).job, step.args, step.any_of) for step in growing.steps]
        text = Plan(steps, growing.edges, growing.joins).text()
        values = {"job": growing.job, "fence": growing.fence, "workflow": None, "plan": text}
        return place.write("workflow_add", values | {"channel": producer.database().channel})

    return await producer.place(place.distinct([step.ready for step in growing.steps]), plan, None)


async def grow(
    job: int,
    fence: int | None,
    members: Sequence[Member],
    edges: Sequence[Edge],
    *,
    joins: bool = False,
    by: Callable[[Producer, Growing], Awaitable[Placed]] = write,
) -> Placed:
    """Add steps to the workflow of a job. fence: of its claim, without which nothing is added; None: from outside."""
    producer = members[0].step.producer
    with place.passed(producer, members) as readies:
        steps = tuple(
            NewStep(one.name, ready.step, one.step.args, one.any_of)
            for one, ready in zip(members, readies, strict=True)
        )
        found = await by(producer, Growing(job, fence, steps, tuple(edges), joins))
        if not found.steps:
            raise refused(found, job)
        place.tell(producer, found)
    return found


def refused(found: Placed, job: int) -> Exception:
    """What to tell of steps that were not added."""
    named = ids.encode(job)
    if found.what == "lost":
        return ClaimLost(f"Job {named} is not this attempt's any more; it adds nothing to its workflow.")
    if found.what == "missing":
        return JobNotFound(f"There is no job {named}. Finished jobs are removed after their retention.")
    whose = f"the workflow of job {named}"
    return WrongState(
        {
            "finished": f"Nothing was added: {whose} has ended.",
            "cancelled": f"Nothing was added: {whose} is being cancelled.",
            "late": f"Nothing was added: step {found.about!r} does not wait any more, so nothing can be put before it.",
            "unknown": f"Nothing was added: there is no step {found.about!r} in {whose}.",
            "reserved": f"Nothing was added: {found.about!r} is the name of what takes another step of {whose} back.",
        }.get(found.what, f"Nothing was added to {whose}: {found.what}.")
    )


def stepped(thing: Any) -> Stepped:  # noqa: ANN401 - a task or a step
    """A step that has all it needs; of a task, the one without arguments."""
    step = thing if hasattr(thing, "planned") else thing.stepper().step((), {}) if hasattr(thing, "stepper") else None
    if step is None:
        message = f"Expected a task or a step made by task.step(…); got {thing!r}."
        raise InvalidOption(message)
    return cast("Stepped", step.checked())


def _name_of(one: Added | str) -> str:
    return one if isinstance(one, str) else one.name

"""Grow: steps added to a workflow that runs, by one of its own jobs under its claim, or behind a job from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rowlock.errors import ClaimLost, InvalidOption, JobNotFound, WrongState
from rowlock.flow import place
from rowlock.flow.place import Member, Stepped
from rowlock.model import ids
from rowlock.model.workflow import NEEDS, Edge, checked_step_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from rowlock.flow.enqueue import Prepared
    from rowlock.flow.place import Placed
    from rowlock.model.job import Claim
    from rowlock.model.workflow import Needs
    from rowlock.store.caller import Ask


class Added(NamedTuple):
    """A step that was added. what: created, or kept when an earlier attempt had added it."""

    name: str
    job_id: int
    what: str

    @property
    def public_id(self) -> str:
        """The job's id to show to people."""
        return ids.encode(self.job_id)


class Growth:
    """ctx.workflow: adds steps to the workflow this job is a step of; a plain job becomes the first step of one.

    What an attempt adds is added once, though it may run again: steps are known by their names.
    """

    __slots__ = ("_claim", "_kind", "_numbers", "_parent")

    def __init__(self, claim: Claim, kind: str) -> None:
        self._claim, self._kind = claim, kind
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
            found = await step.producer.database().fetch("workflow_step_of", id=self._claim.job_id)
            self._parent = str(found[0]["name"]) if found else self._kind
        n = self._numbers[step.kind] = self._numbers.get(step.kind, 0) + 1
        return f"{self._parent}/{step.kind}-{n}"

    async def _grow(self, members: Sequence[Member], edges: Sequence[Edge], *, joins: bool) -> list[Added]:
        found = await grow(self._claim.job_id, self._claim.fence, members, edges, joins=joins)
        return [Added(step.name, step.job_id, step.what) for step in found.steps]


async def grow(
    job: int, fence: int | None, members: Sequence[Member], edges: Sequence[Edge], *, joins: bool = False
) -> Placed:
    """Add steps to the workflow of a job. fence: of its claim, without which nothing is added; None: from outside."""
    producer = members[0].step.producer
    with place.passed(producer, members) as readies:

        def plan(asked: Callable[[Prepared], Prepared]) -> Generator[Ask, list[Sequence[object]], Placed]:
            text = place.plan_of(members, readies, asked, edges, joins=joins).text()
            values = {"job": job, "fence": fence, "workflow": None, "plan": text}
            return place.write("workflow_add", values | {"channel": producer.database().channel})

        found = await producer.place(place.distinct(readies), plan, None)
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

"""Place: a plan of steps -> rows. Like an enqueue of many kinds at once: registered, written, told to workers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from rowlock.flow.enqueue.middleware import Enqueuing, passing
from rowlock.model.state import State
from rowlock.model.workflow import Plan, Undo
from rowlock.store.jobs.enqueue import auto_approve
from rowlock.telemetry import JobEnqueued

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.enqueue.prepare import Prepared
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.wake import Pair
    from rowlock.model.options import Options
    from rowlock.model.workflow import Edge, Planned
    from rowlock.store.caller_transaction import Ask


class Stepped(Protocol):
    """A step as task.step() makes it."""

    @property
    def producer(self) -> Producer:
        """Writes it."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    @property
    def options(self) -> Options:
        """As the caller gave them."""

    @property
    def ready(self) -> Prepared:
        """All but its arguments."""

    @property
    def call(self) -> Mapping[str, object]:
        """The arguments given, by name."""

    def checked(self) -> Any:  # noqa: ANN401 - the step itself
        """The step, if it has all it needs."""

    def prepared(self, options: Options) -> Prepared:
        """As a job of these options."""

    @property
    def args(self) -> str:
        """All arguments, encoded."""

    def planned(self, name: str, ready: Prepared, *, any_of: bool = False, undo: Undo | None = None) -> Planned:
        """As a plan has it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One step under its name."""

    name: str
    step: Stepped
    any_of: bool = False
    undo: Stepped | None = None


class Readied(NamedTuple):
    """All of a step and of what takes it back, but for their arguments."""

    step: Prepared
    undo: Prepared | None


class PlacedStep(NamedTuple):
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
class Placed:
    """What became of a plan. what: that of the first step, or why nothing was written; about: the step in question."""

    workflow_id: int
    what: str
    steps: Sequence[PlacedStep] = ()
    about: str | None = None

    @property
    def lows(self) -> dict[Pair, datetime]:
        """The lowest run_after that became claimable, per kind, priority and share."""
        lows: dict[Pair, datetime] = {}
        for step in self.steps:
            if step.state == State.QUEUED and step.what != "kept":
                pair = (step.kind, step.priority, step.share)
                lows[pair] = min(step.run_after, lows.get(pair, step.run_after))
        return lows

    @property
    def created(self) -> list[int]:
        """The jobs that were not there before."""
        return [step.job_id for step in self.steps if step.what == "created"]


def placed(rows: Sequence[Sequence[object]]) -> Placed:
    """Read the answer of a statement that writes a plan; a row without a kind says why nothing was written."""
    workflow_id, what, name, _, kind = rows[0][:5]
    if kind is None:
        return Placed(cast("int", workflow_id), str(what), (), cast("str | None", name))
    steps = [PlacedStep(*row[1:9]) for row in rows]  # type: ignore[arg-type]  # as the statement says
    return Placed(cast("int", workflow_id), str(what), steps)


def write(statement: str, values: Mapping[str, object]) -> Generator[Ask, list[Sequence[object]], Placed]:
    """Write a plan; what a rule approves in advance is approved with it."""
    found = placed((yield statement, values))
    asked = [step.job_id for step in found.steps if step.state == State.PENDING and step.what == "created"]
    if not asked:
        return found
    moved = {job.id: job for job in (yield from auto_approve(asked))}
    steps = [
        step._replace(state=moved[step.job_id].state, run_after=moved[step.job_id].run_after)
        if step.job_id in moved
        else step
        for step in found.steps
    ]
    return Placed(found.workflow_id, found.what, steps)


def plan_of(
    members: Sequence[Member],
    readies: Sequence[Readied],
    asked: Callable[[Prepared], Prepared],
    edges: Sequence[Edge],
) -> Plan:
    """As it is written; asked: makes of a job what its lane asks for."""
    steps = []
    for member, ready in zip(members, readies, strict=True):
        undo = None
        if member.undo is not None and ready.undo is not None:
            undo = Undo(asked(ready.undo).job, member.undo.args)
        steps.append(member.step.planned(member.name, asked(ready.step), any_of=member.any_of, undo=undo))
    return Plan(steps, edges)


@contextlib.contextmanager
def passed(producer: Producer, members: Sequence[Member], tenant: str | None = None) -> Iterator[list[Readied]]:
    """Every step, and what takes it back, as middleware of enqueues leaves it; without any, as it was made.

    tenant: the workflow's, by whose share fair lanes take the steps.
    """
    known: dict[int, Prepared] = {}
    with contextlib.ExitStack() as stack:

        def of_tenant(step: Stepped) -> Prepared:
            if tenant is None:
                return step.ready
            if id(step.ready) not in known:
                known[id(step.ready)] = step.prepared(replace(step.options, tenant=tenant))
            return known[id(step.ready)]

        def ready(step: Stepped) -> Prepared:
            if not producer.middleware:
                return of_tenant(step)
            seen = stack.enter_context(passing(producer.middleware, Enqueuing(step.kind, [step.call], step.options)))
            return of_tenant(step) if seen.options is step.options else step.prepared(seen.options)

        yield [Readied(ready(one.step), None if one.undo is None else ready(one.undo)) for one in members]


def tell(producer: Producer, found: Placed) -> None:
    """Emit what was enqueued, if anybody listens."""
    if producer.events.active:
        for step in found.steps:
            if step.what == "created":
                producer.events.emit(JobEnqueued(step.job_id, step.kind, "created"))


def distinct(readies: Iterable[Prepared | None]) -> list[Prepared]:
    """Each once: steps made with the same options share them."""
    return list({id(ready): ready for ready in readies if ready is not None}.values())

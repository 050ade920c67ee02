"""Start: how a chain, workflow or group is enqueued, and with which options."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from rowlock.compose.flow_handle import Started
from rowlock.errors import InvalidOption, InvalidWorkflow, UniqueConflict
from rowlock.flow.enqueue import plan as place
from rowlock.model import ids
from rowlock.model.keys import checked_key
from rowlock.model.options import as_json
from rowlock.model.workflow import Edge, check

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from rowlock.compose.step import Step
    from rowlock.flow.enqueue.plan import Member, Placed, Readied
    from rowlock.flow.enqueue.prepare import Prepared
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.store.caller_transaction import Ask

_FOUR_EYES: Final = 4


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """How a workflow is to be enqueued, for all of its steps."""

    unique_key: str | None = None
    on_conflict: Literal["reject", "keep"] = "reject"
    tenant: str | None = None
    submitted_by: str | None = None
    meta: Mapping[str, object] | None = None
    connection: object | None = None

    def __post_init__(self) -> None:
        if self.on_conflict not in ("reject", "keep"):
            message = (
                f'on_conflict of a workflow must be "reject" or "keep"; got {self.on_conflict!r}. '
                "To begin anew, cancel the one that is there."
            )
            raise InvalidOption(message)
        for name in ("unique_key", "tenant", "submitted_by"):
            if getattr(self, name) is not None:
                checked_key(getattr(self, name), name)


def flow_options(given: Mapping[str, Any]) -> FlowOptions:
    """The options of a call that takes session beside connection."""
    values = dict(given)
    session = values.pop("session", None)
    if session is not None and values.get("connection") is not None:
        message = "connection and session were both given. Pass the one whose transaction the workflow is to join."
        raise InvalidOption(message)
    return FlowOptions(**values | ({} if session is None else {"connection": session}))


@dataclass(frozen=True, slots=True)
class Draft:
    """A workflow with all that is needed to write it. last: whose results are the workflow's."""

    name: str
    members: Sequence[Member]
    edges: Sequence[Edge]
    options: FlowOptions
    result: Callable[[Mapping[str, object]], object]
    last: tuple[str, ...]

    def __post_init__(self) -> None:
        for member in self.members:
            member.step.checked()
        check({member.name for member in self.members}, self.edges)
        steps = [step for member in self.members for step in (member.step, member.undo) if step is not None]
        asked = [step.kind for step in steps if step.ready.job.approval & _FOUR_EYES]
        if asked and self.options.submitted_by is None:
            message = (
                f"{asked[0]} needs the approval of somebody else than its submitter, so it must be known who that is. "
                "Pass submitted_by to the workflow's options()."
            )
            raise InvalidOption(message)
        if len({id(step.producer) for step in steps}) > 1:
            message = "The steps of a workflow belong to one application; these are of several."
            raise InvalidWorkflow(message)

    @property
    def producer(self) -> Producer:
        """Writes for them all."""
        return self.members[0].step.producer

    async def enqueue(self) -> Started[Any]:
        """Write it; returns when that is done, in the caller's transaction if one was given."""
        with place.passed(self.producer, self.members, self.options.tenant) as readies:
            found = await self.producer.place(
                place.distinct(chain.from_iterable(readies)), self._placing(readies), self.options.connection
            )
            return self._started(found)

    def enqueue_sync(self) -> Started[Any]:
        """enqueue() for blocking code."""
        with place.passed(self.producer, self.members, self.options.tenant) as readies:
            found = self.producer.place_sync(
                place.distinct(chain.from_iterable(readies)), self._placing(readies), self.options.connection
            )
            return self._started(found)

    def _placing(
        self, readies: Sequence[Readied]
    ) -> Callable[[Callable[[Prepared], Prepared]], Generator[Ask, list[Sequence[object]], Placed]]:
        key = self.options.unique_key

        def plan(asked: Callable[[Prepared], Prepared]) -> Generator[Ask, list[Sequence[object]], Placed]:
            values = {
                "name": self.name,
                "tenant": self.options.tenant,
                "submitted_by": self.options.submitted_by,
                "unique_key": None if key is None else f"{self.name}:{key}",
                "meta": as_json(self.options.meta, "meta"),
                "plan": place.plan_of(self.members, readies, asked, self.edges).text(),
            }
            return place.write("workflow_start", values)

        return plan

    def _started(self, found: Placed) -> Started[Any]:
        if found.what == "kept" and self.options.on_conflict == "reject":
            message = (
                f"A workflow {self.name!r} with unique_key {self.options.unique_key!r} is under way: "
                f"{ids.encode_workflow(found.workflow_id)}. Nothing was enqueued; "
                'pass on_conflict="keep" to get that one.'
            )
            raise UniqueConflict(message, found.steps[0].job_id if found.steps else 0)
        place.tell(self.producer, found)
        origins = {member.name: cast("Step[Any]", member.step).origin for member in self.members}
        jobs = {step.name: step.job_id for step in found.steps}
        return Started(found.workflow_id, found.what, jobs, origins, self.result, self.last)

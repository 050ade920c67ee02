"""Workflow draft: a chain, workflow or group that is complete, checked, and ready to be enqueued."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from rowlock.compose.workflow_handle import Started
from rowlock.errors import InvalidOption, InvalidWorkflow, UniqueConflict
from rowlock.flow.enqueue.workflow_insert import WorkflowInsert, build_plan, distinct, prepared_steps
from rowlock.model import ids
from rowlock.model.keys import checked_key
from rowlock.model.options import as_json
from rowlock.model.workflow import Edge, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.compose.step import Step
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.workflow_insert import Demanded, NamedStep, StepJobs, WorkflowReceipt

_FOUR_EYES: Final = 4


@dataclass(frozen=True, slots=True)
class WorkflowOptions:
    """How a workflow is enqueued; the options count for all of its steps."""

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
                "To start over, cancel the workflow that holds the key."
            )
            raise InvalidOption(message)
        for name in ("unique_key", "tenant", "submitted_by"):
            if getattr(self, name) is not None:
                checked_key(getattr(self, name), name)


def workflow_options(given: Mapping[str, Any]) -> WorkflowOptions:
    """The options of a call that takes session= besides connection=."""
    values = dict(given)
    session = values.pop("session", None)
    if session is not None and values.get("connection") is not None:
        message = "connection and session were both given. Pass the one whose transaction the workflow is to join."
        raise InvalidOption(message)
    return WorkflowOptions(**values | ({} if session is None else {"connection": session}))


@dataclass(frozen=True, slots=True)
class WorkflowDraft:
    """A checked workflow. result: makes its result from those of the steps named in `last`."""

    name: str
    steps: Sequence[NamedStep]
    edges: Sequence[Edge]
    options: WorkflowOptions
    result: Callable[[Mapping[str, object]], object]
    last: tuple[str, ...]

    def __post_init__(self) -> None:
        for named in self.steps:
            named.step.checked()
        check({named.name for named in self.steps}, self.edges)
        steps = [step for named in self.steps for step in (named.step, named.undo) if step is not None]
        four_eyes = [step.kind for step in steps if step.job.job.approval & _FOUR_EYES]
        if four_eyes and self.options.submitted_by is None:
            message = (
                f"{four_eyes[0]} must be approved by a person other than its submitter, so the submitter must be "
                "known. Pass submitted_by to the workflow's options()."
            )
            raise InvalidOption(message)
        if len({id(step.producer) for step in steps}) > 1:
            message = "All steps of a workflow must belong to one application; these belong to several."
            raise InvalidWorkflow(message)

    @property
    def producer(self) -> Producer:
        """The producer of the application, which writes all steps."""
        return self.steps[0].step.producer

    async def enqueue(self) -> Started[Any]:
        """Write the workflow, in the caller's transaction if one was given."""
        with prepared_steps(self.producer, self.steps, self.options.tenant) as jobs:
            return self._started(await self.producer.enqueue(self._insert(jobs), self.options.connection))

    def enqueue_sync(self) -> Started[Any]:
        """enqueue() for blocking code."""
        with prepared_steps(self.producer, self.steps, self.options.tenant) as jobs:
            return self._started(self.producer.enqueue_sync(self._insert(jobs), self.options.connection))

    def _insert(self, jobs: Sequence[StepJobs]) -> WorkflowInsert:
        key = self.options.unique_key

        def values(demanded: Demanded) -> dict[str, object]:
            return {
                "name": self.name,
                "tenant": self.options.tenant,
                "submitted_by": self.options.submitted_by,
                "unique_key": None if key is None else f"{self.name}:{key}",
                "meta": as_json(self.options.meta, "meta"),
                "plan": build_plan(self.steps, jobs, demanded, self.edges).text(),
            }

        return WorkflowInsert(distinct(chain.from_iterable(jobs)), "workflow_start", values)

    def _started(self, found: WorkflowReceipt) -> Started[Any]:
        if found.what == "kept" and self.options.on_conflict == "reject":
            message = (
                f"A workflow {self.name!r} with unique_key {self.options.unique_key!r} is under way: "
                f"{ids.encode_workflow(found.workflow_id)}. Nothing was enqueued; "
                'pass on_conflict="keep" to get that one.'
            )
            raise UniqueConflict(message, found.steps[0].job_id if found.steps else 0)
        services = {named.name: cast("Step[Any]", named.step).services for named in self.steps}
        jobs = {step.name: step.job_id for step in found.steps}
        return Started(found.workflow_id, found.what, jobs, services, self.result, self.last)

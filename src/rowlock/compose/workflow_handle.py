"""The handle of a chain, workflow or group that was enqueued."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from rowlock.errors import InvalidWorkflow, WorkflowFailed
from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.compose.task_services import TaskServices
    from rowlock.model.workflow import StepView, WorkflowView

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_CONSEQUENCES = ("dependency", "not needed", "workflow cancelled")
"""Reasons of steps that were cancelled because of another step or of the whole workflow."""


class StepWithOutput(Protocol[R_co]):
    """A step of a workflow, as Workflow.add() returns it."""

    @property
    def name(self) -> str:
        """Its name, unique within the workflow."""

    @property
    def output(self) -> R_co:
        """A placeholder of the step's result."""


@dataclass(frozen=True, slots=True)
class Started(Generic[R_co]):
    """An enqueued workflow. what: created, or kept if the key was taken. jobs: the job ids by name of the step."""

    id: int
    what: str
    jobs: Mapping[str, int]
    _services: Mapping[str, TaskServices] = field(repr=False)
    """By name of the step."""
    _result: Callable[[Mapping[str, object]], object] = field(repr=False)
    """Makes the workflow's result from the results of its last steps."""
    _last: tuple[str, ...] = field(repr=False)

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode_workflow(self.id)

    @property
    def _any(self) -> TaskServices:
        return next(iter(self._services.values()))

    async def wait(self, timeout: float | None = None) -> R_co:
        """Wait for the result of the last step; several last steps give a mapping of results by name.

        Steps that run only after a failure are not counted among the last ones. timeout: in seconds; WaitTimeout leaves
        the workflow alone. WorkflowFailed names the step because of which the workflow did not complete.
        """
        view = await self._any.desk.workflows.wait(self.id, timeout=timeout)
        if not view.state.is_success:
            raise failure(view)
        return cast("R_co", self._result(await self._outputs(self._last)))

    def wait_sync(self, timeout: float | None = None) -> R_co:
        """wait() for blocking code."""
        return self._any.bridge.run(self.wait(timeout))

    async def output(self, step: StepWithOutput[R]) -> R:
        """The result of one step; None if it has not ended or did not succeed."""
        if step.name not in self._services:
            message = f"There is no step {step.name!r} in this workflow; there are {', '.join(self._services)}."
            raise InvalidWorkflow(message)
        return cast("R", (await self._outputs((step.name,)))[step.name])

    async def _outputs(self, names: tuple[str, ...]) -> dict[str, object]:
        found = await self._any.desk.workflows.results(self.id, names)
        return {name: self._services[name].handler.codec.decode_result(found.get(name)) for name in names}

    async def workflow(self) -> WorkflowView:
        """Read the workflow as it stands now, with its steps."""
        return await self._any.desk.workflows.get(self.id)

    def workflow_sync(self) -> WorkflowView:
        """workflow() for blocking code."""
        return self._any.bridge.run(self.workflow())


def failure(view: WorkflowView) -> WorkflowFailed:
    """The error about a workflow that did not succeed: which step failed, and why."""
    blamed = _blamed(view)
    message = f"Workflow {view.public_id} ({view.name}) ended {view.state}"
    if blamed is None:
        return WorkflowFailed(f"{message}.")
    about: Mapping[str, Any] = blamed.errors or {}
    reason = about.get("message") or about.get("reason") or "no reason was recorded"
    message = f"{message}: step {blamed.name!r} ({blamed.kind}, job {blamed.public_id}) is {blamed.state}: {reason}"
    return WorkflowFailed(message, blamed.name)


def _blamed(view: WorkflowView) -> StepView | None:
    """The first step that failed for a reason of its own."""
    ended = [
        step
        for step in view.steps
        if step.state in (State.FAILED, State.EXPIRED, State.CANCELLED)
        and step.undoes is None
        and (step.errors or {}).get("reason") not in _CONSEQUENCES
    ]
    worst = [step for step in ended if step.state is not State.CANCELLED] or ended
    return min(worst, key=lambda step: step.finished_at or step.created_at, default=None)

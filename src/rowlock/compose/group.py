"""Groups: many steps that run side by side, and callbacks that run when all of them have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from rowlock.compose.step import Output, Step, TakesNothing, step_of
from rowlock.compose.workflow_draft import WorkflowDraft, WorkflowOptions, workflow_options
from rowlock.errors import InvalidWorkflow
from rowlock.flow.enqueue.workflow_insert import NamedStep
from rowlock.model.workflow import Edge, checked_step_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rowlock.compose.workflow_handle import Started
    from rowlock.model.workflow import Needs

R = TypeVar("R")
_CALLBACKS: Final[tuple[tuple[str, Needs, bool], ...]] = (
    ("on_success", "success", False),
    ("on_finish", "finish", False),
    # One failure is enough, and it is known only when all have ended.
    ("on_failure", "failure", True),
)


def group(
    steps: Iterable[Step[R] | TakesNothing[R]],
    /,
    *,
    name: str | None = None,
    on_success: object = None,
    on_finish: object = None,
    on_failure: object = None,
) -> Group[R]:
    """Steps that run side by side. Callbacks are tasks or steps, run once when all steps have ended.

    on_success: if none failed; on_failure: if one did; on_finish: in any case. A callback whose signature has an open
    parameter gets the list of the steps' results there, in the order of the steps; None for a step without a result.
    """
    made = [step_of(step) for step in steps]
    callbacks = {"on_success": on_success, "on_finish": on_finish, "on_failure": on_failure}
    return Group(made, {event: step_of(one) for event, one in callbacks.items() if one is not None}, name)


class Group(Generic[R]):
    """The result of group(); it can be enqueued any number of times."""

    def __init__(self, steps: Sequence[Step[R]], callbacks: Mapping[str, Step[Any]], name: str | None) -> None:
        if not steps:
            message = "A group needs at least one step."
            raise InvalidWorkflow(message)
        kinds = list(dict.fromkeys(step.kind for step in steps))
        self.name = checked_step_name(name or f"group of {', '.join(kinds[:3])}{', …' if len(kinds) > 3 else ''}"[:200])  # noqa: PLR2004 - as many as are named
        self._options = WorkflowOptions()
        numbers: dict[str, int] = {}
        self._steps = []
        for step in steps:
            n = numbers[step.kind] = numbers.get(step.kind, 0) + 1
            self._steps.append(NamedStep(step.kind if n == 1 else f"{step.kind}-{n}", step.checked()))
        results = [Output(named.name, step.services.returns) for named, step in zip(self._steps, steps, strict=True)]
        self._callbacks = [
            (NamedStep(event, callbacks[event].gathering(results, f"The group {self.name!r}").checked(), any_of), needs)
            for event, needs, any_of in _CALLBACKS
            if event in callbacks
        ]

    def options(
        self,
        *,
        unique_key: str | None = None,
        on_conflict: Literal["reject", "keep"] = "reject",
        tenant: str | None = None,
        submitted_by: str | None = None,
        meta: Mapping[str, object] | None = None,
        connection: object | None = None,
        session: object | None = None,
    ) -> Group[R]:
        """The same group, enqueued with these options. connection or session: the transaction to join."""
        given = locals()
        given.pop("self")
        other: Group[R] = object.__new__(Group)
        other.name, other._steps, other._callbacks = self.name, self._steps, self._callbacks
        other._options = workflow_options(given)
        return other

    async def enqueue(self) -> Started[list[R]]:
        """Enqueue all steps at once; wait() returns the results in the order of the steps."""
        return await self._draft().enqueue()

    def enqueue_sync(self) -> Started[list[R]]:
        """enqueue() for blocking code."""
        return self._draft().enqueue_sync()

    def _draft(self) -> WorkflowDraft:
        edges = [Edge(named.name, callback.name, needs) for callback, needs in self._callbacks for named in self._steps]
        steps = [*self._steps, *(callback for callback, _ in self._callbacks)]
        last = tuple(named.name for named in self._steps)
        return WorkflowDraft(self.name, steps, edges, self._options, _in_order, last)


def _in_order(outputs: Mapping[str, object]) -> object:
    return list(outputs.values())

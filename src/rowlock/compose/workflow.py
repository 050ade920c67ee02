"""Workflows: graphs of steps, built in code and enqueued as a whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from typing_extensions import override

from rowlock.compose.step import Output, Step, TakesNothing, step_of
from rowlock.compose.workflow_draft import WorkflowDraft, WorkflowOptions, workflow_options
from rowlock.errors import InvalidOption, InvalidWorkflow
from rowlock.flow.enqueue.workflow_insert import NamedStep
from rowlock.model.workflow import MOST_STEPS, NEEDS, Edge, checked_step_name, undo_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rowlock.compose.workflow_handle import Started
    from rowlock.model.workflow import Needs

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Node(Generic[R_co]):
    """A step in its workflow."""

    __slots__ = ("_workflow", "name", "step")

    def __init__(self, workflow: Workflow, name: str, step: Step[R_co]) -> None:
        self._workflow, self.name, self.step = workflow, name, step

    @property
    def output(self) -> R_co:
        """A placeholder of the step's result: pass it to the step() of other tasks, which then wait for this step."""
        return cast("R_co", Output(self.name, self.step.services.returns, self._workflow.identity))

    @property
    def workflow(self) -> Workflow:
        """The workflow that the step was added to."""
        return self._workflow

    @override
    def __repr__(self) -> str:
        return f"<step {self.name} of {self._workflow.name}>"


class Workflow:
    """A graph of steps. Add steps, then enqueue the workflow, any number of times.

    A step waits for the steps whose output it takes and for the steps named by `after`. Nothing is written before
    enqueue().
    """

    def __init__(self, name: str) -> None:
        self.name = checked_step_name(name)
        self._steps: dict[str, NamedStep] = {}
        self._edges: dict[tuple[str, str], Needs] = {}
        self._numbers: dict[str, int] = {}
        self._options = WorkflowOptions()
        self.identity = object()
        """Shared by all copies of this workflow that options() makes."""

    @override
    def __repr__(self) -> str:
        return f"<workflow {self.name}: {len(self._steps)} steps>"

    @overload
    def add(
        self,
        name: str,
        step: Step[R] | TakesNothing[R],
        /,
        *,
        after: Iterable[Node[Any] | str] = (),
        before: Iterable[Node[Any] | str] = (),
        when: Needs = "success",
        any_of: bool = False,
        undo: object = None,
    ) -> Node[R]: ...
    @overload
    def add(
        self,
        step: Step[R] | TakesNothing[R],
        /,
        *,
        after: Iterable[Node[Any] | str] = (),
        before: Iterable[Node[Any] | str] = (),
        when: Needs = "success",
        any_of: bool = False,
        undo: object = None,
    ) -> Node[R]: ...
    def add(
        self,
        name: Any,
        step: Any = None,
        /,
        *,
        after: Iterable[Node[Any] | str] = (),
        before: Iterable[Node[Any] | str] = (),
        when: Needs = "success",
        any_of: bool = False,
        undo: Any = None,
    ) -> Node[Any]:
        """Add a step; without a name it gets its kind's, numbered when repeated.

        after: further steps to wait for, besides those whose output the step takes; nodes or names. when: the outcome
        that each of them must have: "success" (with errors or without), "strict" (without), "finish" (any end) or
        "failure". any_of: one of them is enough, judged when all have ended. before: steps that wait for this one.
        undo: a task or step that compensates for this one when the workflow fails or is cancelled; it gets this step's
        result as its first open parameter, or where it has RESULT.
        """
        if when not in NEEDS:
            message = f"when must be {', '.join(NEEDS)}; got {when!r}."
            raise InvalidOption(message)
        given, unnamed = (name, None) if isinstance(name, str) else (None, name)
        made = step_of(step if unnamed is None else unnamed).checked()
        chosen = self._named(given, made)
        self._check_owner(made)
        back = None if undo is None else self._undo(step_of(undo), chosen, made)
        self._check_name(chosen, undone=undo is not None)
        if len(self._steps) >= MOST_STEPS:
            message = f"A workflow has at most {MOST_STEPS:,} steps. Let steps enqueue workflows of their own."
            raise InvalidWorkflow(message)
        edges = {self._name_of(one): when for one in after} | {
            output.step: when for output in _outputs(made) if output.step != chosen
        }
        self._steps[chosen] = NamedStep(chosen, made, any_of, back)
        self._edges |= {(upstream, chosen): needs for upstream, needs in edges.items()}
        self._edges |= {(chosen, self._name_of(one)): when for one in before}
        return Node(self, chosen, made)

    def _named(self, name: str | None, step: Step[Any]) -> str:
        if name is not None:
            if checked_step_name(name) in self._steps:
                message = f"The workflow {self.name!r} has a step {name!r} already. Give this one another name."
                raise InvalidWorkflow(message)
            return name
        while True:
            n = self._numbers[step.kind] = self._numbers.get(step.kind, 0) + 1
            chosen = step.kind if n == 1 else f"{step.kind}-{n}"
            if chosen not in self._steps:
                return chosen

    def _check_name(self, name: str, *, undone: bool) -> None:
        """Refuse a name that an undo step has or will have."""
        owner = name.removeprefix(undo_name(""))
        before = None if owner == name else self._steps.get(owner)
        if (before is not None and before.undo is not None) or (undone and undo_name(name) in self._steps):
            taken, owner = (name, owner) if before is not None else (undo_name(name), name)
            message = f"{taken!r} is the name of the undo step of {owner!r}. Choose another name."
            raise InvalidWorkflow(message)

    def _name_of(self, one: Node[Any] | str) -> str:
        if isinstance(one, str):
            return one
        if not isinstance(one, Node):
            message = f"after and before take steps of this workflow, as add() returned them, or names; got {one!r}."
            raise InvalidWorkflow(message)
        if one.workflow.identity is not self.identity:
            message = f"{one.name!r} is a step of another workflow ({one.workflow.name!r}); an edge cannot leave one."
            raise InvalidWorkflow(message)
        return one.name

    def _check_owner(self, step: Step[Any]) -> None:
        for output in _outputs(step):
            if output.owner is not self.identity:
                message = (
                    f"{step.kind} takes the output of {output.step!r}, which is a step of another workflow. "
                    "Pass a result on by enqueueing that one from a step of this."
                )
                raise InvalidWorkflow(message)

    def _undo(self, undo: Step[Any], name: str, undone: Step[Any]) -> Step[Any]:
        filled = undo.after(Output(name, undone.services.returns, self.identity), f"The undone step {name!r}").checked()
        self._check_owner(filled)
        return filled

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
    ) -> Workflow:
        """The same workflow, enqueued with these options. unique_key: held until the last step is done.

        connection or session: the transaction to join.
        """
        given = locals()
        given.pop("self")
        other = Workflow(self.name)
        other._steps, other._edges, other._numbers = self._steps, self._edges, self._numbers
        other._options, other.identity = workflow_options(given), self.identity
        return other

    def check(self) -> None:
        """Raise what enqueue() would: a missing step, a cycle with its path."""
        self._draft()

    async def enqueue(self) -> Started[Any]:
        """Enqueue all steps at once; steps that wait for no other may start."""
        return await self._draft().enqueue()

    def enqueue_sync(self) -> Started[Any]:
        """enqueue() for blocking code."""
        return self._draft().enqueue_sync()

    def _draft(self) -> WorkflowDraft:
        standby = _standby(self._edges)
        followed = {upstream for upstream, downstream in self._edges if downstream not in standby}
        last = tuple(name for name in self._steps if name not in followed and name not in standby)
        return WorkflowDraft(
            self.name, tuple(self._steps.values()), tuple(self._all_edges()), self._options, _result, last
        )

    def _all_edges(self) -> Iterator[Edge]:
        return (Edge(upstream, downstream, needs) for (upstream, downstream), needs in self._edges.items())


def _outputs(step: Step[Any]) -> Iterator[Output]:
    for output in step.outputs.values():
        if isinstance(output, Output):
            yield output
        else:
            yield from output


def _standby(edges: Mapping[tuple[str, str], Needs]) -> set[str]:
    """Steps that run only after a failure, and steps that wait for nothing else: they are no part of the result."""
    found = {downstream for (_, downstream), needs in edges.items() if needs == "failure"}
    others = Counter(downstream for _, downstream in edges)
    behind: defaultdict[str, list[str]] = defaultdict(list)
    for upstream, downstream in edges:
        behind[upstream].append(downstream)
    look = list(found)
    while look:
        for name in behind[look.pop()]:
            others[name] -= 1
            if not others[name] and name not in found:
                found.add(name)
                look.append(name)
    return found


def _result(outputs: Mapping[str, object]) -> object:
    return next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs)

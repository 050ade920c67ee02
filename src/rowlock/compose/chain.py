"""Chains: steps that run one after the other, each with the result of the one before."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import override

from rowlock.compose import result_types
from rowlock.compose.step import Output, Step, StepFactory, TakesNothing, TakesOne, factory_of, step_of
from rowlock.compose.workflow_draft import WorkflowDraft, WorkflowOptions, workflow_options
from rowlock.errors import ChainError
from rowlock.flow.enqueue.workflow_insert import NamedStep
from rowlock.model.workflow import Edge, checked_step_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.compose.task_services import TaskServices
    from rowlock.compose.workflow_handle import Started
    from rowlock.model.outcome import Returned

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
_FEWEST = 2


class FirstTask(Protocol[P, R_co]):
    """The task that a chain begins with; the chain is enqueued with its arguments."""

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R_co]:
        """A step with these arguments."""


@overload
def chain(
    a: Step[A | Returned],
    b: Step[R | Returned] | TakesOne[A, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[R | Returned] | TakesOne[B, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[C | Returned] | TakesOne[B, C | Returned] | TakesNothing[C | Returned],
    d: Step[R | Returned] | TakesOne[C, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[C | Returned] | TakesOne[B, C | Returned] | TakesNothing[C | Returned],
    d: Step[D | Returned] | TakesOne[C, D | Returned] | TakesNothing[D | Returned],
    e: Step[R | Returned] | TakesOne[D, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[C | Returned] | TakesOne[B, C | Returned] | TakesNothing[C | Returned],
    d: Step[D | Returned] | TakesOne[C, D | Returned] | TakesNothing[D | Returned],
    e: Step[E | Returned] | TakesOne[D, E | Returned] | TakesNothing[E | Returned],
    f: Step[R | Returned] | TakesOne[E, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: FirstTask[P, A | Returned],
    b: Step[R | Returned] | TakesOne[A, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: FirstTask[P, A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[R | Returned] | TakesOne[B, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: FirstTask[P, A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[C | Returned] | TakesOne[B, C | Returned] | TakesNothing[C | Returned],
    d: Step[R | Returned] | TakesOne[C, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: FirstTask[P, A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[C | Returned] | TakesOne[B, C | Returned] | TakesNothing[C | Returned],
    d: Step[D | Returned] | TakesOne[C, D | Returned] | TakesNothing[D | Returned],
    e: Step[R | Returned] | TakesOne[D, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: FirstTask[P, A | Returned],
    b: Step[B | Returned] | TakesOne[A, B | Returned] | TakesNothing[B | Returned],
    c: Step[C | Returned] | TakesOne[B, C | Returned] | TakesNothing[C | Returned],
    d: Step[D | Returned] | TakesOne[C, D | Returned] | TakesNothing[D | Returned],
    e: Step[E | Returned] | TakesOne[D, E | Returned] | TakesNothing[E | Returned],
    f: Step[R | Returned] | TakesOne[E, R | Returned] | TakesNothing[R | Returned],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
def chain(*steps: Any, name: str | None = None) -> Chain[..., Any]:
    """Tasks or steps that run one after the other; each gets the result of the one before as its first open parameter.

    A step that wants the result elsewhere has RESULT there; one without an open parameter gets no result. Enqueue the
    chain with the arguments of its first task. Types are checked here and, for up to six steps, by type checkers.
    """
    return Chain(steps, name)


class Chain(Generic[P, R_co]):
    """The result of chain(); it can be enqueued any number of times."""

    def __init__(self, tasks_or_steps: Sequence[object], name: str | None) -> None:
        if len(tasks_or_steps) < _FEWEST:
            message = f"A chain has at least two steps; got {len(tasks_or_steps)}. Enqueue a single task by itself."
            raise ChainError(message)
        first = tasks_or_steps[0]
        # The arguments of a first task come with enqueue(), and its gate, rate or refs may be made of them.
        self._first = first.checked() if isinstance(first, Step) else factory_of(first)
        rest = [step_of(thing) for thing in tasks_or_steps[1:]]
        kinds = [each.services.handler.name for each in (self._first, *rest)]
        self.name = checked_step_name(name or " > ".join(kinds)[:200])
        self._options = WorkflowOptions()
        self._names, numbers = list[str](), dict[str, int]()
        for kind in kinds:
            n = numbers[kind] = numbers.get(kind, 0) + 1
            self._names.append(kind if n == 1 else f"{kind}-{n}")
        self._rest, before = list[Step[Any]](), self._first.services
        for name_before, step in zip(self._names, rest, strict=False):
            self._rest.append(_following(name_before, before, step))
            before = step.services

    @override
    def __repr__(self) -> str:
        return f"<chain {self.name}>"

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
    ) -> Chain[P, R_co]:
        """The same chain, enqueued with these options. unique_key: held until the last step is done.

        connection or session: the transaction to join.
        """
        given = locals()
        given.pop("self")
        other: Chain[P, R_co] = object.__new__(Chain)
        other.name, other._names, other._first, other._rest = self.name, self._names, self._first, self._rest
        other._options = workflow_options(given)
        return other

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Started[R_co]:
        """Enqueue the chain with the arguments of its first task; the others wait for their turns."""
        return await self._draft(args, kwargs).enqueue()

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Started[R_co]:
        """enqueue() for blocking code."""
        return self._draft(args, kwargs).enqueue_sync()

    def _draft(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> WorkflowDraft:
        if isinstance(self._first, StepFactory):
            first = self._first.step(args, kwargs)
        elif args or kwargs:
            message = (
                f"The chain {self.name!r} begins with a step whose arguments are given already. Begin it with "
                "the task to pass arguments to enqueue()."
            )
            raise ChainError(message)
        else:
            first = self._first
        steps = [NamedStep(name, step) for name, step in zip(self._names, (first, *self._rest), strict=True)]
        edges = [Edge(one.name, other.name) for one, other in pairwise(steps)]
        return WorkflowDraft(self.name, steps, edges, self._options, _only, (steps[-1].name,))


def _following(name: str, before: TaskServices, step: Step[Any]) -> Step[Any]:
    returns, kind = before.returns, before.handler.name
    following = step.after(Output(name, returns), kind)
    if following.missing and result_types.returns_nothing(returns):
        open_one = following.missing[0]
        message = (
            f"{kind} returns None, so it passes nothing on, but {step.kind} needs {open_one!r}. "
            f"Pass it: {step.kind}.step({open_one}=…)."
        )
        raise ChainError(message)
    return following.checked()


def _only(outputs: Mapping[str, object]) -> object:
    return next(iter(outputs.values()))

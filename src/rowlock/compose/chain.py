"""Chain: steps one after the other, each with the result of the one before."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import override

from rowlock.compose import result_types
from rowlock.compose.flow_start import Draft, FlowOptions, flow_options
from rowlock.compose.step import Alone, Output, Step, Stepper, Takes, step_of
from rowlock.errors import ChainError
from rowlock.flow.enqueue.plan import Member
from rowlock.model.workflow import Edge, checked_step_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.compose.flow_handle import Started

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
_FEWEST = 2


class Begins(Protocol[P, R_co]):
    """A task: the chain is enqueued with its arguments."""

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R_co]:
        """A step of it."""


@overload
def chain(a: Step[A], b: Step[R] | Takes[A, R] | Alone[R], /, *, name: str | None = None) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[R] | Takes[B, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[C] | Takes[B, C] | Alone[C],
    d: Step[R] | Takes[C, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[C] | Takes[B, C] | Alone[C],
    d: Step[D] | Takes[C, D] | Alone[D],
    e: Step[R] | Takes[D, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(
    a: Step[A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[C] | Takes[B, C] | Alone[C],
    d: Step[D] | Takes[C, D] | Alone[D],
    e: Step[E] | Takes[D, E] | Alone[E],
    f: Step[R] | Takes[E, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[[], R]: ...
@overload
def chain(a: Begins[P, A], b: Step[R] | Takes[A, R] | Alone[R], /, *, name: str | None = None) -> Chain[P, R]: ...
@overload
def chain(
    a: Begins[P, A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[R] | Takes[B, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: Begins[P, A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[C] | Takes[B, C] | Alone[C],
    d: Step[R] | Takes[C, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: Begins[P, A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[C] | Takes[B, C] | Alone[C],
    d: Step[D] | Takes[C, D] | Alone[D],
    e: Step[R] | Takes[D, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
@overload
def chain(
    a: Begins[P, A],
    b: Step[B] | Takes[A, B] | Alone[B],
    c: Step[C] | Takes[B, C] | Alone[C],
    d: Step[D] | Takes[C, D] | Alone[D],
    e: Step[E] | Takes[D, E] | Alone[E],
    f: Step[R] | Takes[E, R] | Alone[R],
    /,
    *,
    name: str | None = None,
) -> Chain[P, R]: ...
def chain(*steps: Any, name: str | None = None) -> Chain[..., Any]:
    """Tasks or steps, one after the other: each gets the result of the one before as its first open parameter.

    A step says RESULT where it wants it elsewhere; one that has no open parameter gets nothing. Enqueue the chain with
    the arguments of its first task. Types are checked here and, for up to six steps, by type checkers.
    """
    return Chain(steps, name)


class Chain(Generic[P, R_co]):
    """What chain() makes: enqueue it, as often as you like."""

    def __init__(self, things: Sequence[object], name: str | None) -> None:
        if len(things) < _FEWEST:
            message = f"A chain has at least two steps; got {len(things)}. One alone is enqueued by itself."
            raise ChainError(message)
        steps = [step_of(thing) for thing in things]
        self._first: Stepper | None = None if isinstance(things[0], Step) else things[0].stepper()  # type: ignore[attr-defined]  # step_of() has looked
        self.name = checked_step_name(name or " > ".join(step.kind for step in steps)[:200])
        self._options = FlowOptions()
        names, numbers = list[str](), dict[str, int]()
        for step in steps:
            n = numbers[step.kind] = numbers.get(step.kind, 0) + 1
            names.append(step.kind if n == 1 else f"{step.kind}-{n}")
        self._members = [Member(names[0], steps[0])]
        for n in range(1, len(steps)):
            steps[n] = _following(names[n - 1], steps[n - 1], steps[n])
            self._members.append(Member(names[n], steps[n]))
        if self._first is None:
            steps[0].checked()

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
        """The same chain, enqueued with these options. unique_key: one at a time, until the last step is done.

        connection or session: join that transaction.
        """
        given = locals()
        given.pop("self")
        other: Chain[P, R_co] = object.__new__(Chain)
        other.name, other._first, other._members = self.name, self._first, self._members
        other._options = flow_options(given)
        return other

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Started[R_co]:
        """Enqueue the chain with the arguments of its first task; the others wait for their turn."""
        return await self._draft(args, kwargs).enqueue()

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Started[R_co]:
        """enqueue() for blocking code."""
        return self._draft(args, kwargs).enqueue_sync()

    def _draft(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Draft:
        members = list(self._members)
        if self._first is not None:
            members[0] = Member(members[0].name, self._first.step(args, kwargs))
        elif args or kwargs:
            message = (
                f"The chain {self.name!r} begins with a step that has its arguments. Begin it with the task, "
                "to pass them to enqueue()."
            )
            raise ChainError(message)
        edges = [Edge(one.name, other.name) for one, other in pairwise(members)]
        return Draft(self.name, members, edges, self._options, _only, (members[-1].name,))


def _following(name: str, before: Step[Any], step: Step[Any]) -> Step[Any]:
    returns = before.origin.returns
    following = step.after(Output(name, returns), before.kind)
    if following.missing and result_types.returns_nothing(returns):
        open_one = following.missing[0]
        message = (
            f"{before.kind} returns None, so it passes nothing on, but {step.kind} needs {open_one!r}. "
            f"Pass it: {step.kind}.step({open_one}=…)."
        )
        raise ChainError(message)
    return following.checked()


def _only(outputs: Mapping[str, object]) -> object:
    return next(iter(outputs.values()))

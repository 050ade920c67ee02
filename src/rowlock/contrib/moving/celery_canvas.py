"""Celery's canvas: signatures, chains, groups and chords. Sent, each is a workflow of Rowlock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from typing_extensions import override

from rowlock.compose.workflow import Workflow
from rowlock.contrib.moving.celery_results import AsyncResult, GroupResult
from rowlock.errors import ChainError, InvalidWorkflow
from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.app import Rowlock
    from rowlock.compose.workflow import Node
    from rowlock.tasks import BoundTask

Ends: TypeAlias = "Node[Any] | list[Node[Any]] | None"
"""What the part of a chain before passes on: one step's result, or the results of a group; None: it is the first."""


class ApplicationOfTask(Protocol):
    """The Celery application, as far as a signature needs it."""

    rowlock: Rowlock


class SendableTask(Protocol):
    """A task that makes steps."""

    name: str

    @property
    def app(self) -> ApplicationOfTask:
        """Its application."""

    def bound(self, options: Mapping[str, Any], *, step: bool = False) -> BoundTask[..., Any]:
        """The task of Rowlock with Celery's options of one call."""

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Enqueue one job."""


class Composable:
    """What the parts of a canvas have in common: | makes a chain, and they are sent with delay() or apply_async()."""

    def __or__(self, other: Composable) -> Composable:
        """A chain of both; a group followed by a signature is a chord."""
        return Chain.of((self, other))

    @property
    def app(self) -> Rowlock:
        """The application of the first task."""
        raise NotImplementedError

    def add_to(self, flow: Workflow, before: Ends) -> Ends:
        """Add the steps to a workflow, behind those that it follows; returns the last ones."""
        raise NotImplementedError

    def start(self, name: str) -> AsyncResult | GroupResult:
        """Enqueue all steps as a workflow of that name."""
        flow = Workflow(name[:200])
        ends = self.add_to(flow, None)
        started = flow.enqueue_sync()

        def handle(node: Node[Any]) -> AsyncResult:
            return AsyncResult(ids.encode(started.jobs[node.name]), self.app, started)

        if isinstance(ends, list):
            # Each waits for its own job; the group waits for the workflow.
            return GroupResult([AsyncResult(handle(node).id, self.app) for node in ends], started)
        if ends is None:
            raise InvalidWorkflow("There is nothing to send.")
        return handle(ends)


@dataclass(frozen=True, slots=True)
class Signature(Composable):
    """A task with arguments. In a chain the result before becomes its first argument, unless it is immutable."""

    task: SendableTask
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    immutable: bool = False

    @property
    @override
    def app(self) -> Rowlock:
        """The application of the task."""
        return self.task.app.rowlock

    def set(self, *, immutable: bool | None = None, **options: Any) -> Signature:
        """The signature with these options of apply_async()."""
        fixed = self.immutable if immutable is None else immutable
        return replace(self, options={**self.options, **options}, immutable=fixed)

    def clone(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Signature:
        """A signature with more arguments; positional ones are put in front."""
        if self.immutable:
            return self
        return replace(self, args=(*args, *self.args), kwargs={**self.kwargs, **(kwargs or {})})

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Enqueue it, with more arguments in front."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Enqueue it, with more arguments in front and more options."""
        full = self.clone(args or (), kwargs)
        return self.task.apply_async(full.args, full.kwargs, **{**self.options, **options})

    __call__ = delay

    @override
    def add_to(self, flow: Workflow, before: Ends) -> Node[Any]:
        """Add its step."""
        nodes = [] if before is None else before if isinstance(before, list) else [before]
        given = self.args
        if nodes and not self.immutable:
            given = ([node.output for node in nodes] if isinstance(before, list) else nodes[0].output, *given)
        step = self.task.bound(self.options, step=True).step(*given, **self.kwargs)
        return flow.add(step, after=nodes if self.immutable else ())


@dataclass(frozen=True, slots=True)
class Group(Composable):
    """Signatures and chains side by side."""

    tasks: tuple[Composable, ...]

    @classmethod
    def of(cls, tasks: Sequence[Any]) -> Group:
        """A group of its arguments, or of the only one, which may be any iterable."""
        single = len(tasks) == 1 and isinstance(tasks[0], Iterable) and not isinstance(tasks[0], Composable)
        parts = tuple(tasks[0] if single else tasks)
        if not parts:
            raise InvalidWorkflow("A group needs at least one signature.")
        return cls(tuple(map(composable, parts)))

    @property
    @override
    def app(self) -> Rowlock:
        """The application of the first task."""
        return self.tasks[0].app

    @override
    def add_to(self, flow: Workflow, before: Ends) -> list[Node[Any]]:
        """Add the steps of each; all follow the same ones."""
        ends = []
        for part in self.tasks:
            last = part.add_to(flow, before)
            if last is None or isinstance(last, list):
                raise ChainError(
                    "A part of a group ends in a group. Put a task behind it that takes the list of results."
                )
            ends.append(last)
        return ends

    def delay(self) -> GroupResult:
        """Enqueue all of them at once."""
        return self.start(f"group of {len(self.tasks)}")  # type: ignore[return-value]  # the ends of a group are a list

    apply_async = __call__ = delay


@dataclass(frozen=True, slots=True)
class Chain(Composable):
    """Parts that run one after the other."""

    tasks: tuple[Composable, ...]

    @classmethod
    def of(cls, tasks: Sequence[Any]) -> Composable:
        """A chain of its arguments, chains among them joined; the part itself if there is only one."""
        single = len(tasks) == 1 and isinstance(tasks[0], Iterable) and not isinstance(tasks[0], Composable)
        parts: list[Composable] = []
        for part in tasks[0] if single else tasks:
            parts += part.tasks if isinstance(part, Chain) else (composable(part),)
        if not parts:
            raise InvalidWorkflow("A chain needs at least one signature.")
        return parts[0] if len(parts) == 1 else cls(tuple(parts))

    @property
    @override
    def app(self) -> Rowlock:
        """The application of the first task."""
        return self.tasks[0].app

    @override
    def add_to(self, flow: Workflow, before: Ends) -> Ends:
        """Add the steps of each behind those of the one before."""
        for part in self.tasks:
            before = part.add_to(flow, before)
        return before

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Enqueue the chain; the handle is that of its last task. Arguments are added to the first signature."""
        return self.apply_async(args, kwargs)

    __call__ = delay

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """delay(), with options for the first signature."""
        first = self.tasks[0]
        if not (args or kwargs or options):
            return self.start(self.name)
        if not isinstance(first, Signature):
            raise ChainError("Arguments and options are for the first signature, but the chain begins with a group.")
        begun = first.clone(args or (), kwargs).set(**options)
        return Chain((begun, *self.tasks[1:])).start(self.name)

    @property
    def name(self) -> str:
        """The tasks in their order, as the workflow is called."""
        return " > ".join(
            part.task.name.rpartition(".")[2] if isinstance(part, Signature) else "group" for part in self.tasks
        )


@dataclass(frozen=True, slots=True)
class Chord:
    """chord(header): a group that waits for its body."""

    header: Group

    def with_body(self, body: Any) -> Chain:
        """The group, and the body behind it, which gets the list of results."""
        return Chain((self.header, composable(body)))

    def __call__(self, body: Any) -> AsyncResult:
        """Enqueue the group and its body; the handle is that of the body."""
        sent: AsyncResult = self.with_body(body).delay()
        return sent


def composable(part: object) -> Composable:
    """A part of a canvas, or InvalidWorkflow that says how to make one."""
    if not isinstance(part, Composable):
        raise InvalidWorkflow(f"Expected signatures such as add.s(2, 3), groups or chains; got {part!r}.")
    return part

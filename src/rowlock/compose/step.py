"""Steps: jobs that are not enqueued yet, with checked arguments, some of which may be results of other steps."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from typing_extensions import override

from rowlock.compose import result_types
from rowlock.errors import ChainError, InvalidArguments, InvalidOption, InvalidWorkflow
from rowlock.flow.enqueue import prepare
from rowlock.flow.kinds.signature import EMPTY
from rowlock.model.options import Options
from rowlock.model.workflow import Planned, with_outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.compose.task_services import TaskServices
    from rowlock.flow.enqueue.prepare import PreparedJob
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.workflow import Undo

R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
_SUBMITTER: Final = "the workflow's submitter"
"""A placeholder: whether the workflow has a submitter is checked when it is enqueued."""
_REFUSED: Final = {
    "unique_key": "Give it to the workflow: flow.options(unique_key=…) holds until its last step is done.",
    "idempotency_key": "Give the workflow a unique_key instead.",
    "tenant": "Give it to the workflow: flow.options(tenant=…).",
    "submitted_by": "Give it to the workflow: flow.options(submitted_by=…).",
    "run_at": "Use run_in, which counts from when the step may run.",
}
_DEFAULTS: Final = {option.name: option.default for option in fields(Options)}


@dataclass(frozen=True, slots=True)
class Output:
    """A placeholder of a step's result. owner: the identity of its workflow. step: its name; "" in RESULT."""

    step: str
    returns: object = Any
    owner: object = None


RESULT: Final[Any] = Output("")
"""In a chain, the result of the step before; in an undo step, the result of the step that is undone."""


class TakesOne(Protocol[A_contra, R_co]):
    """A task that can be called with one argument."""

    def step(self, value: A_contra, /) -> Step[R_co]:
        """A step with this argument."""


class TakesNothing(Protocol[R_co]):
    """A task that can be called without arguments."""

    def step(self) -> Step[R_co]:
        """A step without arguments."""


@dataclass(frozen=True, slots=True, eq=False)
class Step(Generic[R_co]):
    """A future job, made by task.step(...). It is written with the chain, workflow or group that it is part of."""

    services: TaskServices
    producer: Producer
    options: Options
    job: PreparedJob
    """The job but for its arguments."""
    text: str
    """The arguments that the caller gave, encoded."""
    call: Mapping[str, object]
    """The arguments that the caller gave, by name."""
    outputs: Mapping[str, Output | Sequence[Output]]
    """Arguments that are results of other steps."""

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self.services.handler.name

    @property
    def open(self) -> list[str]:
        """Parameters that have no argument yet, in their order."""
        given = {*self.call, *self.outputs}
        return [name for name in self.services.handler.codec.signature.arguments if name not in given]

    @property
    def missing(self) -> list[str]:
        """Open parameters that have no default."""
        arguments = self.services.handler.codec.signature.arguments
        return [name for name in self.open if arguments[name].default is EMPTY]

    @override
    def __repr__(self) -> str:
        return f"<step {self.kind}>"

    def after(self, before: Output, described: str) -> Step[R_co]:
        """The step with the result of another one, in the place of RESULT, else as its first open parameter."""
        outputs = dict(self.outputs)
        for name, output in outputs.items():
            if output is RESULT:
                outputs[name] = before
            elif not isinstance(output, Output):
                outputs[name] = [before if each is RESULT else each for each in output]
        if outputs == dict(self.outputs) and self.open and not result_types.returns_nothing(before.returns):
            outputs[self.open[0]] = before
        self._check_fit(outputs, before, described)
        return replace(self, outputs=outputs)

    def gathering(self, results: Sequence[Output], described: str) -> Step[R_co]:
        """The step with a list of results as its first open parameter; unchanged if it has none."""
        if not self.open:
            return self
        name, annotation = self.open[0], self.services.handler.codec.signature.arguments[self.open[0]].annotation
        returned = GenericAlias(list, (_common(results),))
        if not result_types.fits(returned, annotation):
            message = (
                f"{described} passes on {result_types.shown(returned)}, but {self.kind} takes {name}: "
                f"{result_types.shown(annotation)}."
            )
            raise ChainError(message)
        return replace(self, outputs={**self.outputs, name: list(results)})

    def _check_fit(self, outputs: Mapping[str, Output | Sequence[Output]], before: Output, described: str) -> None:
        arguments = self.services.handler.codec.signature.arguments
        for name, output in outputs.items():
            if output is before and not result_types.fits(before.returns, arguments[name].annotation):
                message = (
                    f"{described} returns {result_types.shown(before.returns)}, but {self.kind} takes "
                    f"{name}: {result_types.shown(arguments[name].annotation)}. Put a step between them that makes "
                    "one of the other, or change an annotation."
                )
                raise ChainError(message)

    def checked(self) -> Step[R_co]:
        """The step itself if no argument is missing; InvalidArguments names a missing one."""
        if any(
            output is RESULT or (not isinstance(output, Output) and RESULT in output)
            for output in self.outputs.values()
        ):
            message = f"{self.kind}: RESULT stands for the result of the step before, and there is none here."
            raise InvalidWorkflow(message)
        if self.missing:
            call = f"{self.kind}{self.services.handler.codec.signature.text}"
            message = f"{call}: argument {self.missing[0]!r} is missing. Pass it to step(), or the output of a step."
            raise InvalidArguments(message)
        return self

    def planned(self, name: str, job: PreparedJob, *, any_of: bool = False, undo: Undo | None = None) -> Planned:
        """The step as a plan contains it."""
        return Planned(name, job.job, self.args, any_of, undo)

    @property
    def args(self) -> str:
        """All arguments, encoded."""
        names = {
            name: output.step if isinstance(output, Output) else [each.step for each in output]
            for name, output in self.outputs.items()
        }
        return with_outputs(self.text, names)

    def prepared(self, options: Options) -> PreparedJob:
        """The job with these options instead."""
        return _prepared(self.services.handler, options, self.call)


class StepFactory:
    """Makes the steps of one task with the same options."""

    def __init__(self, services: TaskServices, producer: Producer, options: Options, connection: object | None) -> None:
        kind = services.handler.name
        for name, advice in _REFUSED.items():
            if getattr(options, name) != _DEFAULTS[name]:
                message = f"{kind}: a step cannot have {name} of its own. {advice}"
                raise InvalidOption(message)
        if connection is not None:
            message = (
                f"{kind}: a step cannot have a session or connection of its own. Give it to the workflow or chain: "
                "flow.options(session=…)."
            )
            raise InvalidOption(message)
        self.services, self._producer, self._options = services, producer, options
        self._depends = prepare.depends_on_arguments(services.handler.kind, options)
        self._shared: PreparedJob | None = None

    def step(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Step[Any]:
        """A step with these arguments, checked now; missing ones may still become results of other steps."""
        codec, outputs = self.services.handler.codec, dict[str, "Output | Sequence[Output]"]()
        if any(map(_holds_output, args)) or any(map(_holds_output, kwargs.values())):
            named = codec.call(args, kwargs)
            outputs = {name: _outputs(name, value) for name, value in named.items() if _holds_output(value)}
            self._check_types(outputs)
            given = {name: value for name, value in named.items() if name not in outputs}
            text = self.services.open_codec.encode_named(given)
        else:
            given = codec.call(args, kwargs) if args else dict(kwargs)
            try:
                text = codec.encode(args, kwargs)
            except InvalidArguments:
                # Either arguments are missing, and may be results of other steps, or this raises what else is wrong.
                text = self.services.open_codec.encode_named(codec.call(args, kwargs))
        return Step(self.services, self._producer, self._options, self._prepared(given), text, given, outputs)

    def _prepared(self, given: Mapping[str, object]) -> PreparedJob:
        if self._depends:
            return _prepared(self.services.handler, self._options, given)
        if self._shared is None:
            self._shared = _prepared(self.services.handler, self._options, {})
        return self._shared

    def _check_types(self, outputs: Mapping[str, Output | Sequence[Output]]) -> None:
        arguments = self.services.handler.codec.signature.arguments
        for name, output in outputs.items():
            if name not in arguments:
                call = f"{self.services.handler.name}{self.services.handler.codec.signature.text}"
                message = f"There is no argument {name!r} in {call}."
                raise InvalidArguments(message)
            wanted = arguments[name].annotation
            returned = output.returns if isinstance(output, Output) else GenericAlias(list, (_common(output),))
            if not result_types.fits(returned, wanted):
                source = output.step if isinstance(output, Output) else output[0].step
                message = (
                    f"{self.services.handler.name} takes {name}: {result_types.shown(wanted)}, but the output of "
                    f"{source!r} is {result_types.shown(returned)}."
                )
                raise ChainError(message)


def _common(outputs: Sequence[Output]) -> Any:  # noqa: ANN401 - an annotation
    found = {id(output.returns): output.returns for output in outputs}
    return next(iter(found.values())) if len(found) == 1 else Any


def _prepared(handler: Handler, options: Options, given: Mapping[str, object]) -> PreparedJob:
    named = handler.codec.named((), given)
    try:
        return prepare.prepare(handler.kind, replace(options, submitted_by=_SUBMITTER), named)
    except (TypeError, KeyError) as error:
        message = (
            f"{handler.name}: a function computes its gate, rate or refs from its arguments and failed ({error}): some "
            "of them are known only when the step before has ended. Give the step its own: .options(gate=…)."
        )
        raise InvalidOption(message) from error


def _holds_output(value: object) -> bool:
    return isinstance(value, Output) or (isinstance(value, (list, tuple)) and any(isinstance(x, Output) for x in value))


def _outputs(name: str, value: Any) -> Output | Sequence[Output]:  # noqa: ANN401 - of the caller
    if isinstance(value, Output):
        return value
    if not all(isinstance(each, Output) for each in value):
        message = f"{name!r} is a list of outputs and other values. Pass the other values as an argument of their own."
        raise InvalidArguments(message)
    return list(value)


def step_of(thing: object) -> Step[Any]:
    """The step itself, or the step of a task without arguments so far."""
    if isinstance(thing, Step):
        return thing
    return factory_of(thing).step((), {})


def factory_of(task: object) -> StepFactory:
    """What makes steps of a task."""
    make = getattr(task, "step_factory", None)
    if make is None:
        message = f"Expected a task or a step made by task.step(…); got {task!r}."
        raise InvalidWorkflow(message)
    made: StepFactory = make()
    return made

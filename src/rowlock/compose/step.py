"""Step: a job that is not enqueued yet: its kind, its checked arguments, and which of them are results of others."""

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

    from rowlock.compose.handle_origin import Origin
    from rowlock.flow.enqueue.prepare import Prepared
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.workflow import Undo

R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
_SOMEBODY: Final = "the workflow's submitter"
"""Stands in while a step is made; whether there is one is checked when the workflow starts."""
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
    """Stands for the result of a step until it is there. owner: the workflow it belongs to; step "": see RESULT."""

    step: str
    returns: object = Any
    owner: object = None


RESULT: Final[Any] = Output("")
"""The result of the step before, in a chain; of the step that is undone, in an undo step."""


class Takes(Protocol[A_contra, R_co]):
    """A task that can be called with one argument."""

    def step(self, value: A_contra, /) -> Step[R_co]:
        """A step of it."""


class Alone(Protocol[R_co]):
    """A task that can be called without arguments."""

    def step(self) -> Step[R_co]:
        """A step of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Step(Generic[R_co]):
    """A job to be, made by task.step(...). Nothing is written before the chain or workflow it is part of."""

    origin: Origin
    producer: Producer
    options: Options
    ready: Prepared
    text: str
    """The arguments given, encoded."""
    call: Mapping[str, object]
    """The arguments given, as they were."""
    outputs: Mapping[str, Output | Sequence[Output]]
    """Arguments that are results of other steps."""

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self.origin.handler.name

    @property
    def open(self) -> list[str]:
        """Parameters that have no argument yet, in their order."""
        given = {*self.call, *self.outputs}
        return [name for name in self.origin.handler.codec.signature.arguments if name not in given]

    @property
    def missing(self) -> list[str]:
        """Those of them that need one."""
        arguments = self.origin.handler.codec.signature.arguments
        return [name for name in self.open if arguments[name].default is EMPTY]

    @override
    def __repr__(self) -> str:
        return f"<step {self.kind}>"

    def after(self, before: Output, described: str) -> Step[R_co]:
        """The step with the result of another one: where it says RESULT, else as its first open parameter."""
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
        """The step with the results of several, as a list, as its first open parameter; without one, as it is."""
        if not self.open:
            return self
        name, annotation = self.open[0], self.origin.handler.codec.signature.arguments[self.open[0]].annotation
        returned = GenericAlias(list, (_common(results),))
        if not result_types.fits(returned, annotation):
            message = (
                f"{described} passes on {result_types.shown(returned)}, but {self.kind} takes {name}: "
                f"{result_types.shown(annotation)}."
            )
            raise ChainError(message)
        return replace(self, outputs={**self.outputs, name: list(results)})

    def _check_fit(self, outputs: Mapping[str, Output | Sequence[Output]], before: Output, described: str) -> None:
        arguments = self.origin.handler.codec.signature.arguments
        for name, output in outputs.items():
            if output is before and not result_types.fits(before.returns, arguments[name].annotation):
                message = (
                    f"{described} returns {result_types.shown(before.returns)}, but {self.kind} takes "
                    f"{name}: {result_types.shown(arguments[name].annotation)}. Put a step between them that makes "
                    "one of the other, or change an annotation."
                )
                raise ChainError(message)

    def checked(self) -> Step[R_co]:
        """The step, if it has all it needs; InvalidArguments names what is missing."""
        if any(
            output is RESULT or (not isinstance(output, Output) and RESULT in output)
            for output in self.outputs.values()
        ):
            message = f"{self.kind}: RESULT stands for the result of the step before, and there is none here."
            raise InvalidWorkflow(message)
        if self.missing:
            call = f"{self.kind}{self.origin.handler.codec.signature.text}"
            message = f"{call}: argument {self.missing[0]!r} is missing. Pass it to step(), or the output of a step."
            raise InvalidArguments(message)
        return self

    def planned(self, name: str, ready: Prepared, *, any_of: bool = False, undo: Undo | None = None) -> Planned:
        """As a plan has it."""
        return Planned(name, ready.job, self.args, any_of, undo)

    @property
    def args(self) -> str:
        """All arguments, encoded."""
        names = {
            name: output.step if isinstance(output, Output) else [each.step for each in output]
            for name, output in self.outputs.items()
        }
        return with_outputs(self.text, names)

    def prepared(self, options: Options) -> Prepared:
        """As a job of these options."""
        return _prepared(self.origin.handler, options, self.call)


class Stepper:
    """Makes the steps of one task with the same options."""

    def __init__(self, origin: Origin, producer: Producer, options: Options, connection: object | None) -> None:
        kind = origin.handler.name
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
        self._origin, self._producer, self._options = origin, producer, options
        self._looks = (
            callable(options.gate) or callable(origin.handler.kind.gate) or origin.handler.kind.refs is not None
        )
        self._ready: Prepared | None = None

    def step(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Step[Any]:
        """A step with these arguments, checked now; those that are missing may still become results of others."""
        codec, outputs = self._origin.handler.codec, dict[str, "Output | Sequence[Output]"]()
        if any(map(_holds_output, args)) or any(map(_holds_output, kwargs.values())):
            named = codec.call(args, kwargs)
            outputs = {name: _outputs(name, value) for name, value in named.items() if _holds_output(value)}
            self._check_types(outputs)
            given = {name: value for name, value in named.items() if name not in outputs}
            text = self._origin.open.encode_named(given)
        else:
            given = codec.call(args, kwargs) if args else dict(kwargs)
            try:
                text = codec.encode(args, kwargs)
            except InvalidArguments:
                # Either some are missing, and may come as results of others, or this says what else is wrong.
                text = self._origin.open.encode_named(codec.call(args, kwargs))
        return Step(self._origin, self._producer, self._options, self._prepared(given), text, given, outputs)

    def _prepared(self, given: Mapping[str, object]) -> Prepared:
        if self._looks:
            return _prepared(self._origin.handler, self._options, given)
        if self._ready is None:
            self._ready = _prepared(self._origin.handler, self._options, {})
        return self._ready

    def _check_types(self, outputs: Mapping[str, Output | Sequence[Output]]) -> None:
        arguments = self._origin.handler.codec.signature.arguments
        for name, output in outputs.items():
            if name not in arguments:
                call = f"{self._origin.handler.name}{self._origin.handler.codec.signature.text}"
                message = f"There is no argument {name!r} in {call}."
                raise InvalidArguments(message)
            wanted = arguments[name].annotation
            returned = output.returns if isinstance(output, Output) else GenericAlias(list, (_common(output),))
            if not result_types.fits(returned, wanted):
                source = output.step if isinstance(output, Output) else output[0].step
                message = (
                    f"{self._origin.handler.name} takes {name}: {result_types.shown(wanted)}, but the output of "
                    f"{source!r} is {result_types.shown(returned)}."
                )
                raise ChainError(message)


def _common(outputs: Sequence[Output]) -> Any:  # noqa: ANN401 - an annotation
    found = {id(output.returns): output.returns for output in outputs}
    return next(iter(found.values())) if len(found) == 1 else Any


def _prepared(handler: Handler, options: Options, given: Mapping[str, object]) -> Prepared:
    named = handler.codec.named((), given)
    try:
        return prepare.prepare(handler.kind, replace(options, submitted_by=_SOMEBODY), named)
    except (TypeError, KeyError) as error:
        message = (
            f"{handler.name}: its gate or references are made of its arguments ({error}), and this one is known only "
            "when the step before has ended. Give the step one: .options(gate=…)."
        )
        raise InvalidOption(message) from error


def _holds_output(value: object) -> bool:
    return isinstance(value, Output) or (isinstance(value, (list, tuple)) and any(isinstance(x, Output) for x in value))


def _outputs(name: str, value: Any) -> Output | Sequence[Output]:  # noqa: ANN401 - of the caller
    if isinstance(value, Output):
        return value
    if not all(isinstance(each, Output) for each in value):
        message = f"{name!r} is a list of outputs and other values. Pass the others in an argument of their own."
        raise InvalidArguments(message)
    return list(value)


def step_of(thing: object) -> Step[Any]:
    """A step, or the step of a task without arguments so far."""
    if isinstance(thing, Step):
        return thing
    stepper = getattr(thing, "stepper", None)
    if stepper is None:
        message = f"Expected a task or a step made by task.step(…); got {thing!r}."
        raise InvalidWorkflow(message)
    made: Step[Any] = stepper().step((), {})
    return made

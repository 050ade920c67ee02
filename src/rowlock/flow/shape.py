"""Shape: a pydantic adapter for what is stored, and the shortest way to write and read it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, cast, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import to_json

from rowlock.errors import ConfigurationError
from rowlock.flow import wire
from rowlock.flow.signature import EMPTY, Signature
from rowlock.model.outcome import Cancel, Partial, Snooze

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.model.kind import UnknownArgs

_UNUSABLE: Final = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError)
_OUTCOMES: Final = (Partial, Snooze, Cancel)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A pydantic adapter with the traits of its schema, and the shortest way to read its JSON."""

    adapter: TypeAdapter[Any]
    traits: wire.Traits
    strict_fields: bool  # python-mode dump refuses values that left their type since they were validated
    validate: Callable[[object], Any]
    read: Callable[[str], object]

    def dump(self, value: object, tagger: wire.Tagger) -> bytes:
        """Write a value as JSON; it has been validated if the fields are strict."""
        if self.traits.flat and self.strict_fields:
            return wire.dump(value, tagger, simple=True)
        plain = self.adapter.serializer.to_python(
            value, by_alias=False, round_trip=True, warnings="error" if self.strict_fields else False
        )
        return wire.dump(plain, tagger, simple=self.traits.simple)

    def load(self, text: str) -> object:
        """Read JSON, tagged or not."""
        if wire.TAG not in text:
            return self.read(text)
        return self.take(*wire.untag(text))

    def take(self, value: object, python_only: bool) -> object:  # noqa: FBT001 - what untag answers
        """Read what untag() made of JSON."""
        if not python_only:
            return self.read(to_json(value).decode())
        if self.traits.aliased:
            return self.adapter.validator.validate_python(value, by_alias=False, by_name=True)
        return self.adapter.validator.validate_python(value)


def shape_of(adapter: TypeAdapter[Any], *, strict_fields: bool) -> Shape:
    """Look through the adapter's schema once. strict_fields: values are validated before they are written."""
    found = wire.traits(adapter.core_schema)
    validate_json = adapter.validator.validate_json

    def read_by_name(text: str) -> object:
        return validate_json(text, by_alias=False, by_name=True)

    # Stored under field names, whatever the aliases: validation and serialisation aliases need not agree.
    return Shape(
        adapter,
        found,
        strict_fields,
        adapter.validator.validate_python,
        read_by_name if found.aliased else validate_json,
    )


def arguments_shape(shape: Signature, kind: str, *, unknown: UnknownArgs = "refuse") -> Shape:
    """The shape of a handler's arguments by name; ConfigurationError names the one that cannot be stored."""
    fields: dict[str, object] = {}
    for name, parameter in shape.arguments.items():
        try:
            wire.traits(TypeAdapter(parameter.annotation).core_schema)  # an undefined name shows only here
        except _UNUSABLE as error:
            expected = inspect.formatannotation(parameter.annotation)
            message = (
                f"{kind}: argument {name!r} is annotated with {expected}, which pydantic cannot turn into JSON: "
                f"{str(error).splitlines()[0]} Use plain types, dataclasses or pydantic models, or have the worker "
                f"provide it: Annotated[{expected}, Depends(…)]."
            )
            raise ConfigurationError(message) from None
        required = parameter.default is EMPTY
        wrapper: Any = typing_extensions.Required if required else typing_extensions.NotRequired
        fields[name] = wrapper[parameter.annotation]
    make = cast("Callable[[str, dict[str, object]], Any]", typing_extensions.TypedDict)
    arguments = make("Arguments", fields)
    arguments.__pydantic_config__ = ConfigDict(extra="forbid" if unknown == "refuse" else "ignore")
    return shape_of(TypeAdapter(arguments), strict_fields=True)


def result_shape(annotation: object) -> Shape:
    """The shape of what a handler returns."""
    # An annotation that pydantic cannot use is no reason to refuse the handler: most results are plain values.
    try:
        return shape_of(TypeAdapter(stored_result(annotation)), strict_fields=False)
    except _UNUSABLE:
        return shape_of(TypeAdapter(Any), strict_fields=False)


def stored_result(annotation: object) -> Any:  # noqa: ANN401 - any type
    """The annotation without Partial, Snooze and Cancel: they say how the attempt ended, not what is stored."""
    union = get_origin(annotation) in (Union, UnionType)
    members = get_args(annotation) if union else (annotation,)
    stored = [member for member in members if member not in _OUTCOMES]
    if not [member for member in stored if member not in (EMPTY, None, type(None))]:
        return Any
    return Union[tuple(stored)] if union else annotation  # noqa: UP007 - of members known at run time only

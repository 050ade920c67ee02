"""Shape: a pydantic validator for what is stored, and the shortest way to write and read it."""

from __future__ import annotations

from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from pydantic_core import SchemaSerializer, SchemaValidator, to_json

from rowlock.flow.kinds import json_values
from rowlock.flow.kinds import simple_schema as plain
from rowlock.flow.kinds.signature import EMPTY, Signature
from rowlock.model.outcome import Cancel, Partial, Snooze

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from pydantic.plugin._schema_validator import PluggableSchemaValidator
    from pydantic_core import CoreSchema

    from rowlock.model.kind import UnknownArgs

    Validator: TypeAlias = SchemaValidator | PluggableSchemaValidator

_OUTCOMES: Final = (Partial, Snooze, Cancel)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A validator with the traits of its schema, and the shortest way to read its JSON."""

    validator: Validator
    serializer: SchemaSerializer
    traits: json_values.Traits
    strict_fields: bool  # python-mode dump refuses values that left their type since they were validated
    validate: Callable[[object], Any]
    read: Callable[[str], object]

    def dump(self, value: object, tagger: json_values.Tagger) -> bytes:
        """Write a value as JSON; it has been validated if the fields are strict."""
        if self.traits.flat and self.strict_fields:
            return json_values.dump(value, tagger, simple=True)
        plain = self.serializer.to_python(
            value, by_alias=False, round_trip=True, warnings="error" if self.strict_fields else False
        )
        return json_values.dump(plain, tagger, simple=self.traits.simple)

    def load(self, text: str) -> object:
        """Read JSON, tagged or not."""
        if json_values.TAG not in text:
            return self.read(text)
        return self.take(*json_values.untag(text))

    def take(self, value: object, python_only: bool) -> object:  # noqa: FBT001 - what untag answers
        """Read what untag() made of JSON."""
        if not python_only:
            return self.read(to_json(value).decode())
        if self.traits.aliased:
            return self.validator.validate_python(value, by_alias=False, by_name=True)
        return self.validator.validate_python(value)


def shape_of(annotation: object, *, strict_fields: bool) -> Shape:
    """The shape of one annotation. strict_fields: values are validated before they are written."""
    schema = plain.schema_of(annotation)
    if schema is not None:
        return _made(schema, SchemaValidator(schema), SchemaSerializer(schema), strict_fields=strict_fields)
    from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see plain

    adapter = pydantic_schema.result(annotation)
    return _made(adapter.core_schema, adapter.validator, adapter.serializer, strict_fields=strict_fields)


def arguments_shape(signature: Signature, kind: str, *, unknown: UnknownArgs = "refuse") -> Shape:
    """The shape of a handler's arguments by name; ConfigurationError names the one that cannot be stored."""
    required = frozenset(name for name, item in signature.arguments.items() if item.default is EMPTY)
    schema = plain.arguments_schema(signature.arguments, unknown=unknown, required=required)
    if schema is not None:
        return _made(schema, SchemaValidator(schema), SchemaSerializer(schema), strict_fields=True)
    from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see plain

    adapter = pydantic_schema.arguments(signature.arguments, kind, unknown=unknown)
    return _made(adapter.core_schema, adapter.validator, adapter.serializer, strict_fields=True)


def result_shape(annotation: object) -> Shape:
    """The shape of what a handler returns."""
    return shape_of(stored_result(annotation), strict_fields=False)


def _made(schema: CoreSchema, validator: Validator, serializer: SchemaSerializer, *, strict_fields: bool) -> Shape:
    """Look through the schema once."""
    found = json_values.traits(schema)
    validate_json = validator.validate_json

    def read_by_name(text: str) -> object:
        return validate_json(text, by_alias=False, by_name=True)

    # Stored under field names, whatever the aliases: validation and serialisation aliases need not agree.
    read = read_by_name if found.aliased else validate_json
    return Shape(validator, serializer, found, strict_fields, validator.validate_python, read)


def stored_result(annotation: object) -> Any:  # noqa: ANN401 - any type
    """The annotation without Partial, Snooze and Cancel: they say how the attempt ended, not what is stored."""
    union = get_origin(annotation) in (Union, UnionType)
    members = get_args(annotation) if union else (annotation,)
    stored = [member for member in members if member not in _OUTCOMES]
    if not [member for member in stored if member not in (EMPTY, None, type(None))]:
        return Any
    return Union[tuple(stored)] if union else annotation  # noqa: UP007 - of members known at run time only

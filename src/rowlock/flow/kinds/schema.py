"""ValueSchema: validates, encodes and decodes the values of one annotation.

pydantic's compiled core checks, reads and writes values. The rest of pydantic turns annotations into schemas for it,
and takes a tenth of a second and six megabytes to import. So the schemas of simple annotations are written out here: a
process whose kinds take and return only such values never imports pydantic itself (pydantic_schema).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic_core import SchemaSerializer, SchemaValidator, to_json

from rowlock.flow.kinds import json_values
from rowlock.flow.kinds.schema_traits import SchemaTraits, traits_of
from rowlock.flow.kinds.signature import ARGUMENTS_TITLE, EMPTY, Signature
from rowlock.model.outcome import Cancel, Partial, Snooze

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Parameter
    from typing import TypeAlias

    from pydantic.plugin._schema_validator import PluggableSchemaValidator
    from pydantic_core import CoreSchema

    from rowlock.model.kind import UnknownArgs

    Validator: TypeAlias = SchemaValidator | PluggableSchemaValidator

_OUTCOMES: Final = (Partial, Snooze, Cancel)
_NONE: Final = (None, NoneType)
_WORDS: Final = (
    (int, "int"),
    (str, "str"),
    (bool, "bool"),
    (float, "float"),
    (UUID, "uuid"),
    (None, "none"),
    (NoneType, "none"),
    (Any, "any"),
)


@dataclass(frozen=True, slots=True, eq=False)
class ValueSchema:
    """Validator and serialiser of one annotation, with the traits of its core schema."""

    validator: Validator
    serializer: SchemaSerializer
    traits: SchemaTraits
    strict_fields: bool  # values are validated before they are written; one that changed its type since is refused
    validate: Callable[[object], Any]
    read: Callable[[str], object]

    def dump(self, value: object, tagger: json_values.Tagger) -> bytes:
        """Encode a value as JSON; with strict fields it has been validated."""
        if self.traits.flat and self.strict_fields:
            return json_values.dump(value, tagger, simple=True)
        plain = self.serializer.to_python(
            value, by_alias=False, round_trip=True, warnings="error" if self.strict_fields else False
        )
        return json_values.dump(plain, tagger, simple=self.traits.simple)

    def load(self, text: str) -> object:
        """Decode JSON, tagged or not."""
        if json_values.TAG not in text:
            return self.read(text)
        return self.load_untagged(*json_values.untag(text))

    def load_untagged(self, value: object, python_only: bool) -> object:  # noqa: FBT001 - what untag returns
        """Validate a value that untag() returned; python_only: its flag."""
        if not python_only:
            return self.read(to_json(value).decode())
        if self.traits.aliased:
            return self.validator.validate_python(value, by_alias=False, by_name=True)
        return self.validator.validate_python(value)


def schema_of(annotation: object, *, strict_fields: bool) -> ValueSchema:
    """The schema of one annotation. strict_fields: values are validated before they are written."""
    schema = simple_schema(annotation)
    if schema is not None:
        return _made(schema, SchemaValidator(schema), SchemaSerializer(schema), strict_fields=strict_fields)
    from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see above

    adapter = pydantic_schema.result(annotation)
    return _made(adapter.core_schema, adapter.validator, adapter.serializer, strict_fields=strict_fields)


def arguments_schema(signature: Signature, kind: str, *, unknown: UnknownArgs = "refuse") -> ValueSchema:
    """The schema of a handler's arguments by name; ConfigurationError names the one that cannot be stored."""
    required = frozenset(name for name, item in signature.arguments.items() if item.default is EMPTY)
    schema = simple_arguments_schema(signature.arguments, unknown=unknown, required=required)
    if schema is not None:
        return _made(schema, SchemaValidator(schema), SchemaSerializer(schema), strict_fields=True)
    from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see above

    adapter = pydantic_schema.arguments(signature.arguments, kind, unknown=unknown)
    return _made(adapter.core_schema, adapter.validator, adapter.serializer, strict_fields=True)


def result_schema(annotation: object) -> ValueSchema:
    """The schema of a handler's return annotation."""
    return schema_of(stored_result(annotation), strict_fields=False)


def _made(
    schema: CoreSchema, validator: Validator, serializer: SchemaSerializer, *, strict_fields: bool
) -> ValueSchema:
    traits = traits_of(schema)
    validate_json = validator.validate_json

    def read_by_name(text: str) -> object:
        return validate_json(text, by_alias=False, by_name=True)

    # Stored under field names, whatever the aliases: validation and serialisation aliases need not agree.
    read = read_by_name if traits.aliased else validate_json
    return ValueSchema(validator, serializer, traits, strict_fields, validator.validate_python, read)


def stored_result(annotation: object) -> Any:  # noqa: ANN401 - any type
    """The annotation without Partial, Snooze and Cancel: they decide the outcome and are not stored."""
    union = get_origin(annotation) in (Union, UnionType)
    members = get_args(annotation) if union else (annotation,)
    stored = [member for member in members if member not in _OUTCOMES]
    if not [member for member in stored if member not in (EMPTY, None, type(None))]:
        return Any
    return Union[tuple(stored)] if union else annotation  # noqa: UP007 - of members known at run time only


def simple_schema(annotation: object) -> CoreSchema | None:
    """The core schema of a simple annotation, equal to pydantic's; None: not simple, pydantic has to make it."""
    found = _schema(annotation)
    return None if found is None else cast("CoreSchema", found)


def simple_arguments_schema(
    arguments: Mapping[str, Parameter], *, unknown: UnknownArgs, required: frozenset[str]
) -> CoreSchema | None:
    """The core schema of arguments by name; None: not all annotations are simple."""
    extra = "forbid" if unknown == "refuse" else "ignore"
    fields: dict[str, object] = {}
    for name, parameter in arguments.items():
        found = _schema(parameter.annotation)
        if found is None:
            return None
        fields[name] = {"type": "typed-dict-field", "schema": found, "required": name in required}
    config = {"title": ARGUMENTS_TITLE, "extra_fields_behavior": extra}
    return cast("CoreSchema", {"type": "typed-dict", "fields": fields, "extra_behavior": extra, "config": config})


def _schema(annotation: object) -> dict[str, object] | None:
    word = next((word for known, word in _WORDS if annotation is known), None)
    if word is not None:
        return {"type": word}
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        others = [member for member in args if member not in _NONE]
        return _containing("nullable", schema=others[0]) if len(others) == 1 else None
    if origin is list or annotation is list:
        return _containing("list", items_schema=args[0] if args else Any)
    if origin is dict or annotation is dict:
        keys, values = args or (Any, Any)
        return _containing("dict", keys_schema=keys, values_schema=values)
    return None


def _containing(sort: str, **inner: object) -> dict[str, object] | None:
    """A schema that contains others; None: one of them is not simple."""
    found = {name: _schema(annotation) for name, annotation in inner.items()}
    return None if None in found.values() else {"type": sort, **found}
